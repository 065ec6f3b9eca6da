"""What a command asks of the machine: what its kernel can enforce, and the environment that executors get."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from clew_daemon.control.requests import ExecutorEnvRequest
from clew_daemon.host import git
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.reading.instance import Instance
    from clew_shared.wire.nursery import SandboxReport


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


SANDBOX_S = 30.0
PROBE = "from clew_worker.sandbox import probe; print(probe().model_dump_json())"


def probe_sandbox() -> SandboxReport | str:
    """Probe the sandbox in a process that imports the worker; return its report, or the error as a text."""
    from clew_shared.wire.nursery import SandboxReport

    done = run_program([sys.executable, "-P", "-c", PROBE], SANDBOX_S)  # -P: not from this folder
    if isinstance(done, str):
        return done
    if done.returncode:
        return f"the probe failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
    return SandboxReport.model_validate_json(done.stdout)


def executor_env(instance: Instance) -> dict[str, str]:
    """Return the environment of executors: that of the running daemon, without one that of this process."""
    try:
        found = ask(instance.socket, ExecutorEnvRequest())
    except CliError:  # an older daemon
        found = None
    return {**git.read_identity(instance.env), **instance.env} if found is None else dict(found)
