"""The agents: processes that propose actions, and can neither write a file nor start a program.

`AgentClient` is for foreign agents, too; `main` starts the built-in ones. Nothing here carries out an action or
judges one.
"""

from clew_worker.agent.client import AgentClient, Disconnected, RpcError

__all__ = ["AgentClient", "Disconnected", "RpcError"]
