"""Asks systemd: `systemctl` with a deadline, its version, and what it says of a control group and of lingering."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SYSTEMCTL_DEADLINE_S = 30.0
LINGER = Path("/var/lib/systemd/linger")


def systemctl(
    env: Mapping[str, str],
    *commands: Sequence[str],
    deadline_s: float = SYSTEMCTL_DEADLINE_S,
) -> str:
    """Run `systemctl --user` commands until one fails; return what failed, "" if none did."""
    for command in commands:
        try:
            done = run_systemctl(env, "--user", "--no-pager", *command, deadline_s=deadline_s)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"systemctl --user {command[0]}: {error}"
        if done.returncode != 0:
            return f"systemctl --user {command[0]}: {error_of(done)}"
    return ""


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of the error that a run of systemctl ended with."""
    return (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]


def run_systemctl(
    env: Mapping[str, str], *args: str, deadline_s: float = SYSTEMCTL_DEADLINE_S
) -> subprocess.CompletedProcess[str]:
    """Run systemctl; raises OSError or SubprocessError."""
    program = shutil.which("systemctl", path=env.get("PATH"))
    if program is None:
        raise FileNotFoundError("systemctl is not installed")
    return subprocess.run(
        [program, *args],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


def manager_version(env: Mapping[str, str]) -> int | None:
    """Return systemd's version, None if systemctl cannot say."""
    try:
        done = run_systemctl(env, "--version").stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"systemd (\d+)", done)
    return int(found[1]) if found else None


def is_lingering(env: Mapping[str, str]) -> bool:
    """Return whether the user's services run without a session; see loginctl(1), enable-linger."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = env.get("USER", "")
    return bool(user) and (LINGER / user).exists()


def is_delegated(group: Path) -> bool:
    """Return whether this control group is of a unit with `Delegate=yes`, as the user's manager says."""
    if group.suffix not in (".service", ".scope"):
        return False
    try:
        done = run_systemctl(
            os.environ, "--user", "show", "-p", "Delegate,ControlGroup", "--", group.name
        )
    except (OSError, subprocess.SubprocessError):
        return False
    parts = (line.partition("=") for line in done.stdout.splitlines())
    found = {name: value for name, _, value in parts}
    here = found.get("ControlGroup", "")
    return found.get("Delegate") == "yes" and here != "" and str(group).endswith(here)
