"""The agents: processes that think and propose, and can neither write a file nor start a program.

`main` is the entry of the built-in ones; `AgentClient` is for agents of other makers, too. Nothing
here carries out an action or judges one.
"""

import socket
import sys

from clew_shared.cellwire import CellSpec

from .client import AgentClient, Disconnected, RpcError

BUILT_IN = ("runbook", "llm")

__all__ = ["AgentClient", "Disconnected", "RpcError", "main"]


def main(name: str, sock_fd: int, spec: CellSpec) -> int:
    """Be the built-in agent `name` (`runbook` or `llm`) until it is done; its exit code.

    0 done (or told to stop, or the daemon is gone), 75 temporary, 78 configuration.
    """
    import uvloop

    from .life import EXIT_CONFIGURATION, Agent, live

    def make(daemon: AgentClient) -> Agent:
        if name == "llm":
            from .llm import LlmAgent  # imports openai, which a runbook does without

            return LlmAgent(daemon, spec.options)
        from .runbook import Runbook

        return Runbook(daemon)

    if name not in BUILT_IN:
        sys.stderr.write(f"no built-in agent {name!r}; available: {', '.join(BUILT_IN)}\n")
        return EXIT_CONFIGURATION

    async def run() -> int:
        return await live(socket.socket(fileno=sock_fd), make)

    return uvloop.run(run())
