"""The input of the core about an action, and its answers."""

from dataclasses import dataclass, field

from clew_shared.judge.reading import Reading
from clew_shared.record.model import Level
from clew_shared.record.touched import Touched


class WrongState(Exception):
    """A command that makes no sense now; the message states why, and what would."""


@dataclass(frozen=True, slots=True)
class ActionReport:
    """The outcome of an action as it is reported; `world` is the digest after it, UNKNOWN if cut short, "" for none."""

    result: str
    output: str | None = None
    changed: bool | None = None
    world: str = ""
    duration_s: float = 0.0
    exit_code: int | None = None
    touched: Touched = field(default_factory=Touched)
    reading: Reading | None = None
    """What was read of it, where that was done already."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice to an agent that goes in circles: its kind (docs/loops.md, Interventions) and its message."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a proposal, event `seq`, recorded with the time `at`."""

    allowed: bool
    seq: int
    reason: str = ""
    message: str = ""
    intervention: Advice | None = None
    escalated_to: Level | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Feedback:
    """The answer to a report; `known`: not reported before, `changed`: it changed the workspace, None if unknown."""

    intervention: Advice | None = None
    escalated_to: Level | None = None
    known: bool = True
    changed: bool | None = None
