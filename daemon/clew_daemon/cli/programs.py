"""Running another program for a command."""

from __future__ import annotations

import subprocess


def run_program(command: list[str], within_s: float) -> subprocess.CompletedProcess[str] | str:
    """Run a program and capture its output; return the error as a text where it cannot be run or takes too long."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
