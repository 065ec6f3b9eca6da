"""Runs a built-in agent in the process that the nursery has forked for it, until it ends (docs/protocol.md)."""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from clew_shared.exit_codes import ExitCode
from clew_worker.agent.client import (
    RETRY_AFTER_MAX_S,
    AgentClient,
    CannotContinue,
    Disconnected,
    RpcError,
)

_REASON_CHARS = 4_000


Work = Callable[[AgentClient], Coroutine[Any, Any, None]]
"""Works on a goal until it is done; may raise `CannotContinue`."""


def main(name: str, sock_fd: int) -> int:
    """Run the agent `llm` or `runbook`; return its exit code: 0 (done, or stopped), 75 temporary, 78 configuration."""
    import uvloop

    async def work(daemon: AgentClient) -> None:
        if name == "llm":
            # imports httpx2, which a runbook does without
            from clew_worker.agent.llm import LlmAgent

            return await LlmAgent(daemon).run()
        from clew_worker.agent.runbook import Runbook

        return await Runbook(daemon).run()

    return uvloop.run(live(socket.socket(fileno=sock_fd), work))


async def live(sock: socket.socket, work: Work) -> int:
    """Run an agent on a connection until it ends, or the daemon wants that; return its exit code."""
    async with AgentClient(sock) as daemon:
        stop_asked = asyncio.Event()
        daemon.on("stop", lambda _: stop_asked.set())
        working = asyncio.create_task(_exit_code(daemon, work))
        ends = [asyncio.create_task(e.wait()) for e in (stop_asked, daemon.closed)]
        await asyncio.wait([working, *ends], return_when=asyncio.FIRST_COMPLETED)
        finished = working.done()
        for task in (working, *ends):
            task.cancel()
        await asyncio.gather(working, *ends, return_exceptions=True)
        return working.result() if finished else ExitCode.OK


async def _exit_code(daemon: AgentClient, work: Work) -> int:
    try:
        await work(daemon)
    except Disconnected:
        return ExitCode.OK
    except CannotContinue as leave:
        kind, reason, after_s = leave.kind, leave.reason[:_REASON_CHARS], leave.retry_after_s
        if after_s is not None:
            after_s = min(max(after_s, 0.0), RETRY_AFTER_MAX_S)
        try:
            await daemon.call("leave", kind=kind, reason=reason, retry_after_s=after_s)
        except (Disconnected, RpcError):  # the exit code tells the kind
            sys.stderr.write(f"{kind}: {leave.reason}\n")
        return ExitCode.TEMPORARY if kind == "temporary" else ExitCode.CONFIGURATION
    return ExitCode.OK
