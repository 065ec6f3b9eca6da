"""What the gate works with: a proposal, and what a rule may answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WAIT_LONGER = "wait longer between looks, or say what you wait for"
"""What an agent is told that looks again and again at what changes by itself."""


@dataclass(frozen=True, slots=True)
class AgentCalls:
    """The calls by which an agent reports that its work is done, or cannot be done, in its own terms."""

    done: str = "call complete_subtask"
    failed: str = "complete_subtask with success=false"
    finish: str = "call finish"


PROTOCOL = AgentCalls()
"""The calls of the worker protocol; the tools of the built-in agents have the same names."""


@dataclass(frozen=True, slots=True)
class KnownOutcome:
    """The outcome of a proposal that is judged after the fact (`record`).

    `varies`: it may be another one the next time; `temporary`: it is a passing fault; `idle` is a write that changed
    nothing or led back to an earlier world.
    """

    outcome: str
    world: str
    progress: bool
    varies: bool = False
    temporary: bool = False
    idle: bool = False

    @property
    def kind(self) -> str:
        """How a repeat is judged, as in `Tally`; "" where this outcome does not say."""
        return "varies" if self.varies else "temporary" if self.temporary else ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that the agent wants to do, or reports as done; `calls` are what it can do instead."""

    tool: str
    args: dict[str, Any]
    signature: str
    known: KnownOutcome | None = None
    calls: AgentCalls = PROTOCOL


@dataclass(frozen=True, slots=True)
class Refusal:
    """The action may not run, and why.

    `attempt` counts from 1; `loop`: the loop was found now, so the refusal makes a block; `everywhere`: the block
    applies in every world. `steps` are the numbers of the actions that it repeats.
    """

    reason: str
    message: str
    attempt: int = 0
    evidence: str = ""
    loop: bool = True
    everywhere: bool = False
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Nudge:
    """The action may run, with the advice that nothing new is to be expected."""

    message: str
    attempt: int
    evidence: str
    steps: tuple[int, ...] = ()
