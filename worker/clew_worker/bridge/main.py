"""Starts a bridge, or says which package it lacks: those of the extra `clew[cli]` may not be installed."""

import sys
from collections.abc import Callable

from clew_shared.exit_codes import ExitCode

_run: Callable[[int, int], int] | None = None
_missing = ""
try:
    from clew_worker.bridge.running import run_bridge

    _run = run_bridge
except ModuleNotFoundError as error:
    _missing = (error.name or "mcp").partition(".")[0]


def bridge(channel_fd: int, peer_fd: int) -> int:
    """Run a bridge until its goal is over; return its exit code. See `running.run_bridge`."""
    if _run is None:
        sys.stderr.write(f"coding agents need the package {_missing}: pip install 'clew[cli]'\n")
        return ExitCode.CONFIGURATION
    return _run(channel_fd, peer_fd)
