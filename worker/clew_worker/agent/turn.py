"""The current turn of an llm agent, and its access to the daemon. It decides nothing."""

from dataclasses import dataclass, field
from typing import Any

from clew_shared.wire.answers import Intervention
from clew_worker.agent.client import AgentClient
from clew_worker.agent.memory import Memory


class AgentFinished(Exception):
    """There is nothing more for this agent to do."""


@dataclass
class Turn:
    """The events of one turn.

    `records` are entries of its iteration record, `refused` the tool that was refused, `moved` whether a subtask ended.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    refused: str = ""
    reached_daemon: bool = False
    moved: bool = False


class AgentContext:
    """What all parts of an llm agent share: the daemon, the memory and the current turn."""

    def __init__(self, daemon: AgentClient, memory: Memory, name: str) -> None:
        self.daemon = daemon
        self.memory = memory
        self.turn = Turn()
        self._name = name

    async def refresh(self, *, replanned: bool = False) -> None:
        """Ask the daemon for the state as it is now."""
        self.memory.update(await self.daemon.greet(self._name), replanned=replanned)

    def show(self, intervention: Intervention | None) -> None:
        """Show the model an intervention."""
        if intervention:
            self.memory.warn(intervention.message)
