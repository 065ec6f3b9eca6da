"""Runs a bridge in the process that its nursery has forked for it."""

import socket
import sys

import uvloop

from clew_shared.exit_codes import ExitCode
from clew_worker.agent.client import AgentClient
from clew_worker.agent.life import BuiltInAgent, live
from clew_worker.bridge.cell import CellGoneError, CliCell
from clew_worker.bridge.life import Bridge
from clew_worker.bridge.turn import CliCrashError


def run_bridge(channel_fd: int, peer_fd: int) -> int:
    """Run a bridge until its goal is over; return its exit code, as `clew_worker.agent.main.main`.

    `channel_fd` leads to the daemon, `peer_fd` to the cell of the CLI.
    """

    def make(daemon: AgentClient) -> BuiltInAgent:
        return Bridge(daemon, CliCell(socket.socket(fileno=peer_fd)))

    async def run() -> int:
        return await live(socket.socket(fileno=channel_fd), make)

    try:
        return uvloop.run(run())
    except (CellGoneError, CliCrashError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.FAILED
