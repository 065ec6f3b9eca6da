"""Starts a built-in agent in the process that the nursery has forked for it."""

import socket
import sys

from clew_shared.exit_codes import ExitCode
from clew_worker.agent.client import AgentClient
from clew_worker.agent.life import BuiltInAgent, live

BUILT_IN = ("runbook", "llm")


def main(name: str, sock_fd: int) -> int:
    """Run the built-in agent `name` (`runbook` or `llm`) until it is done; return its exit code.

    0 done (or asked to stop, or the daemon is gone), 75 temporary, 78 configuration.
    """
    import uvloop

    def make(daemon: AgentClient) -> BuiltInAgent:
        if name == "llm":
            # imports httpx2, which a runbook does without
            from clew_worker.agent.llm import LlmAgent

            return LlmAgent(daemon)
        from clew_worker.agent.runbook import Runbook

        return Runbook(daemon)

    if name not in BUILT_IN:
        sys.stderr.write(f"no built-in agent {name!r}; available: {', '.join(BUILT_IN)}\n")
        return ExitCode.CONFIGURATION

    async def run() -> int:
        return await live(socket.socket(fileno=sock_fd), make)

    return uvloop.run(run())
