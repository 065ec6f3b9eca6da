"""The life of a built-in agent: connect, run, and end in one of the ways that the daemon knows."""

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Any, Literal, Protocol

from clew_shared.exit_codes import ExitCode
from clew_shared.wire import protocol
from clew_worker.agent.client import AgentClient, Disconnected, RpcError

_REASON_CHARS = 4_000
_RETRY_AFTER_MAX_S = 30 * 86_400.0


class Leave(Exception):
    """The agent cannot go on: `temporary` (later, perhaps), `configuration` (a person must act)."""

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


class Agent(Protocol):
    """Something that works on its goal until it is done; may raise `Leave`."""

    async def run(self) -> None: ...


async def live(sock: socket.socket, make: Callable[[AgentClient], Agent]) -> int:
    """Run an agent on a connection; its exit code."""
    async with AgentClient(sock) as daemon:
        told_to_stop = asyncio.Event()
        daemon.on("stop", lambda _: told_to_stop.set())
        work = asyncio.create_task(_work(daemon, make(daemon)))
        ends = [asyncio.create_task(e.wait()) for e in (told_to_stop, daemon.closed)]
        await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
        finished = work.done()
        for task in (work, *ends):
            task.cancel()
        results = await asyncio.gather(work, *ends, return_exceptions=True)
        if not finished:
            return ExitCode.OK
        outcome: int | BaseException | Any = results[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return int(outcome)


async def _work(daemon: AgentClient, agent: Agent) -> int:
    try:
        await agent.run()
    except Disconnected:
        return ExitCode.OK
    except RpcError as error:
        if error.code == protocol.STOPPING:
            return ExitCode.OK
        raise
    except Leave as leave:
        await _say_goodbye(daemon, leave)
        return ExitCode.TEMPORARY if leave.kind == "temporary" else ExitCode.CONFIGURATION
    return ExitCode.OK


async def _say_goodbye(daemon: AgentClient, leave: Leave) -> None:
    after_s = leave.retry_after_s
    if after_s is not None:
        after_s = min(max(after_s, 0.0), _RETRY_AFTER_MAX_S)
    try:
        await daemon.call(
            "leave", kind=leave.kind, reason=leave.reason[:_REASON_CHARS], retry_after_s=after_s
        )
    except (Disconnected, RpcError):  # the exit code says the most important part
        sys.stderr.write(f"{leave.kind}: {leave.reason}\n")
