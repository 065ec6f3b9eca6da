"""A throw-away systemd user manager, in namespaces of its own; where it cannot be had, tests are skipped."""

import os
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2].parent / "shared" / "tools" / "systemd-user.sh"
MANAGER = Path("/lib/systemd/systemd")


def reason_to_skip() -> str:
    if os.geteuid() != 0:
        return "a throw-away systemd user manager needs root"
    if not TOOL.exists() or not MANAGER.exists():
        return "systemd, or the script that starts a throw-away manager, is not here"
    if not any(
        line.split()[2] == "cgroup2" for line in Path("/proc/mounts").read_text().splitlines()
    ):
        return "cgroup2 is mounted nowhere"
    return ""


@pytest.fixture
def in_user_manager():
    """A function that runs a bash script where `systemctl --user` works, and gives its output."""
    if reason := reason_to_skip():
        pytest.skip(reason)

    def run(script: str, timeout_s: float = 100) -> str:
        done = subprocess.run(
            [TOOL, "bash", "-c", script],
            env={**os.environ, "SD_UID": "0"},  # the environment of the tests may be root's alone
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run
