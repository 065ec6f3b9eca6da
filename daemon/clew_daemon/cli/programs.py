"""Running another program for a command."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def run_program(
    command: list[str], within_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | str:
    """Run a program and capture its output; return the error as a text where it cannot be run or takes too long.

    `env` is its whole environment, None that of this process.
    """
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
            env=None if env is None else dict(env),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
