"""What the gate remembers of a goal: within a scope, and of the agent's attention. Plain records without rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from clew_shared.judge.memory import Memory

_Value = TypeVar("_Value")

ENTRIES_MAX = 4_000  # of each table: beyond the default `max_actions` (docs/loops.md, How far back)
STEPS_KEPT = 16
FINDINGS_KEPT = 300
EVERYWHERE = "*"  # the world of a block that applies in every world


@dataclass(slots=True)
class Tally:
    """The outcomes of one signature in one world: attempts by outcome, and the last one."""

    counts: dict[str, int] = field(default_factory=dict)
    outcome: str = ""
    result: str = ""
    head: str = ""
    seq: int = 0
    plain: bool = True
    raw: str = ""  # the last answer to the letter
    # how a repeat is judged: of a `read`, a `temporary` fault, what `varies` by itself, or else
    kind: str = ""
    steady: bool = True  # the last two had the same outcome


@dataclass(slots=True)
class CycleStep:
    """One finished action, as the cycle rule sees it."""

    signature: str
    progress: bool
    idle: bool  # a write that changed nothing or led back to an earlier world
    plain: bool
    seq: int = 0


@dataclass(slots=True)
class Finding:
    """What the agent was told, or refused, as event `seq` at step `at`, and what came of it.

    `came` is `open`, `heeded` (something new was brought, or the work was done), `ignored` (it was told or refused
    again) or `attempt_ended`.
    """

    seq: int
    at: int
    refused: bool = False
    came: str = "open"
    after: int = 0  # so many steps
    stays: str = ""  # the answer that had come so many `times`, "" where it was about none
    times: int = 0


@dataclass(slots=True)
class Scope:
    """What the gate remembers within one scope, bounded by `count` and `kept`; blocks and deaths are not."""

    worlds: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)
    loop_counts: dict[str, int] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)  # signatures that changed something
    crashes: dict[str, int] = field(default_factory=dict)
    died: dict[str, str] = field(default_factory=dict)  # how, at the last of `crashes`
    blocks: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: list[CycleStep] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)


@dataclass(slots=True)
class Attention:
    """The streaks that interventions are raised from; a person's feedback resets them."""

    steps: int = 0
    fresh: bool = False
    iterations_without_facts: int = 0
    theme: str = ""
    same_theme: int = 0  # thoughts in a row with it
    thoughts_without_tools: int = 0
    new_thought: bool = False  # the last one had new content
    stuck: int = 0
    claims: int = 0  # in a row that the agent said that it advances while nothing new came
    acted: bool = False  # an action was carried out that does more than wait or look at the record
    waits: bool = False  # in this turn it waited, or looked at what may change by itself
    firm: bool = False  # … and did anything else
    moved: bool = False  # it changed a file since the last turn with a fact
    turn_steps: int = 0  # the steps up to the end of the last turn
    raised: dict[str, int] = field(default_factory=dict)  # streaks at which the agent was told
    told_at: int = -99  # the last step at which it was

    @property
    def streaks(self) -> dict[str, int]:
        """The present length of each streak, by the intervention that it calls for."""
        return {
            "theme": self.same_theme,
            "repeated_planning": self.thoughts_without_tools,
            "no_progress": self.iterations_without_facts,
            "stuck": self.stuck,
        }

    @property
    def told_in_turn(self) -> bool:
        """Whether the agent was told something of a step of the present turn."""
        return self.told_at > self.turn_steps


def count(counts: dict[str, int], key: str) -> None:
    """Count one more and move the key to the end: the order is that of use, and the oldest of too many goes."""
    counts[key] = counts.pop(key, 0) + 1
    if len(counts) > ENTRIES_MAX:
        del counts[next(iter(counts))]


def kept(known: dict[str, _Value], key: str, new: _Value) -> _Value:
    """Return the value of a key, `new` for a new one; of too many the oldest goes."""
    found = known.setdefault(key, new)
    if len(known) > ENTRIES_MAX:
        del known[next(iter(known))]
    return found
