"""What a command asks of the machine: what its kernel can enforce, and the environment that executors get."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from clew_daemon.cli.client import ask
from clew_daemon.cli.errors import CliError
from clew_daemon.cli.programs import run_program
from clew_daemon.control.requests import ExecutorEnvRequest
from clew_daemon.host import git

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance
    from clew_shared.wire.nursery import SandboxReport

SANDBOX_S = 30.0
PROBE = "from clew_worker.sandbox import probe; print(probe().model_dump_json())"


def probe_sandbox() -> SandboxReport | str:
    """Probe the sandbox in a process that imports the worker; return its report, or the error as a text."""
    from clew_shared.wire.nursery import SandboxReport

    command = [sys.executable, "-P", "-c", PROBE]  # -P: not from the current folder
    done = run_program(command, SANDBOX_S)
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
