"""Runs a built-in agent on its connection until it ends, and returns its exit code (docs/protocol.md)."""

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Literal, Protocol

from clew_shared.exit_codes import ExitCode
from clew_worker.agent.client import AgentClient
from clew_worker.agent.rpc import Disconnected, RpcError

_REASON_CHARS = 4_000
_RETRY_AFTER_MAX_S = 30 * 86_400.0


class CannotContinue(Exception):
    """The agent must stop: `temporary` (a later try may work), or `configuration` (a person must act)."""

    def __init__(
        self,
        kind: Literal["temporary", "configuration"],
        reason: str,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after_s = retry_after_s


class BuiltInAgent(Protocol):
    """Works on its goal until it is done; may raise `CannotContinue`."""

    async def run(self) -> None: ...


async def live(sock: socket.socket, make: Callable[[AgentClient], BuiltInAgent]) -> int:
    """Run an agent on a connection until it ends, or the daemon wants that; return its exit code."""
    async with AgentClient(sock) as daemon:
        stop_asked = asyncio.Event()
        daemon.on("stop", lambda _: stop_asked.set())
        work = asyncio.create_task(_work(daemon, make(daemon)))
        ends = [asyncio.create_task(e.wait()) for e in (stop_asked, daemon.closed)]
        await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
        finished = work.done()
        for task in (work, *ends):
            task.cancel()
        await asyncio.gather(work, *ends, return_exceptions=True)
        return work.result() if finished else ExitCode.OK


async def _work(daemon: AgentClient, agent: BuiltInAgent) -> int:
    try:
        await agent.run()
    except Disconnected:
        return ExitCode.OK
    except RpcError as error:
        if error.stopping:
            return ExitCode.OK
        raise
    except CannotContinue as leave:
        await _leave(daemon, leave)
        return ExitCode.TEMPORARY if leave.kind == "temporary" else ExitCode.CONFIGURATION
    return ExitCode.OK


async def _leave(daemon: AgentClient, leave: CannotContinue) -> None:
    after_s = leave.retry_after_s
    if after_s is not None:
        after_s = min(max(after_s, 0.0), _RETRY_AFTER_MAX_S)
    try:
        await daemon.call(
            "leave", kind=leave.kind, reason=leave.reason[:_REASON_CHARS], retry_after_s=after_s
        )
    except (Disconnected, RpcError):  # the exit code tells the kind
        sys.stderr.write(f"{leave.kind}: {leave.reason}\n")
