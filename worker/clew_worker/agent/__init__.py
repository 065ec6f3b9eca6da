"""The agents: processes that think and propose, and can neither write a file nor start a program.

`AgentClient` is for agents of other makers, too; `main` starts the built-in ones. Nothing here carries out an action or
judges one.
"""

from clew_worker.agent.client import AgentClient, Disconnected, RpcError

__all__ = ["AgentClient", "Disconnected", "RpcError"]
