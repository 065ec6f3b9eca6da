"""The current turn of an llm agent and its access to the daemon, and the record of a call for all agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew_shared.prompt.messages import plain_args
from clew_shared.wire.answers import ActionOutcome, Intervention
from clew_worker.agent.client import AgentClient
from clew_worker.agent.memory import Memory

RECORD_CHARS = 1_000


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


def call_record(
    tool: str,
    args: Mapping[str, Any],
    outcome: ActionOutcome | None,
    *,
    message: str = "",
    rationale: str = "",
) -> dict[str, Any]:
    """Return a call's entry of the iteration record (docs/protocol.md); `message` says why it has no outcome."""
    duration_s = outcome.duration_s if outcome else 0.0
    known = outcome is not None and outcome.result in ("success", "failure", "timeout")
    return {
        "tool": tool,
        "params": plain_args(args, RECORD_CHARS),
        "raw_output": (outcome.output if outcome else message)[:RECORD_CHARS],
        "outcome": outcome.result if outcome and known else "error",
        "execution_time": duration_s,
        "cost": {"tokens": 0, "time": duration_s},
        "tool_selection_rationale": rationale[:RECORD_CHARS],
    }
