"""Everything that can happen to a goal, one frozen model for each kind: what the ledger holds and the fold reads.

Here are actions and their outcomes, thoughts, turns, and what the gate says of them. An event states what was decided
or observed, never what should be done about it. Events are only added to: a field that came later has a default, so
that an old ledger still folds.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from clew_shared.judge.reading import Reading
from clew_shared.record import model
from clew_shared.record.life_events import *  # noqa: F403 - one name for all events
from clew_shared.record.life_events import GoalEvent
from clew_shared.record.prompt_facts import Prompt
from clew_shared.record.touched import Touched

POLL = "poll"  # the key of a word about what may change by itself: it is no fault to look again


class ActionAllowed(GoalEvent, frozen=True):
    """The gate allowed a proposal: it may run, once; `run` counts those of the same step (`core.attempts`)."""

    epoch: int
    tool: str
    args: dict[str, Any]
    signature: str
    rationale: str = ""
    attempt: int = 1
    run: int = 1


class ActionBlocked(GoalEvent, frozen=True):
    """The gate refused a proposal."""

    epoch: int
    tool: str
    args: dict[str, Any]
    signature: str
    reason: str
    message: str
    makes_block: str = ""  # it is added to the blocked actions of its world, for this reason
    everywhere: bool = False  # … of every world
    counts: bool = False  # it counts for `blocked_limit`
    done: bool = False  # the agent reported what it had already done (`record`)
    attempt: int = 1


class ActionFinished(GoalEvent, frozen=True):
    """The outcome of action number `of`; the full output is stored with the event."""

    of: int
    result: str
    head: str = ""  # both ends of the output
    outcome: str
    error_class: str = ""  # the error without what varies from call to call
    duration_s: float = 0.0
    exit_code: int | None = None
    changed: bool | None = None
    world: str = ""  # the digest after it, UNKNOWN if it could not be measured whole, "" for none
    plain: bool = False
    soft: bool = False
    idle: bool = False  # it looked at nothing but the record, or let time pass
    touched: Touched = Touched()
    evidence: Reading = Reading()


class ActionInterrupted(GoalEvent, frozen=True):
    """An action was in flight when a process died: its effect is unknown; what it had printed last is stored, too."""

    of: int
    reason: str
    counts: bool = False  # for the crash rule
    detail: str = ""  # how the process died, where that is known


class WorldSeen(GoalEvent, frozen=True):
    """The workspace differs from what the last action left, or could not be measured whole (UNKNOWN)."""

    world: str
    instead: bool = False  # it replaces a world that was only claimed


class LoopDetected(GoalEvent, frozen=True):
    """The gate found a loop."""

    loop: str
    signature: str = ""
    attempt_count: int = 0
    evidence: str = ""
    escalated_to: model.Level | None = None
    of: int = 0  # the event before it that refused the action or told the agent, 0 for neither
    steps: tuple[int, ...] = ()  # the actions that were repeated


class LastGain(BaseModel, frozen=True):
    """What was new last: the action, and the line that was new in its answer; its head where no line was."""

    seq: int
    text: str


class Stays(BaseModel, frozen=True):
    """An answer that stays, and how often it came."""

    text: str
    times: int


class Intervened(GoalEvent, frozen=True):
    """A message to the agent, recorded before it is sent; older versions left the last fields out."""

    intervention: str
    message: str
    key: str = ""
    again: bool = False  # an earlier one was ignored
    debt: float | None = None  # in steps
    since_gain: int | None = None  # steps since something was new
    last_gain: LastGain | None = None
    steps: tuple[int, ...] | None = None  # those that brought nothing
    stays: Stays | None = None


class Thought(GoalEvent, frozen=True):
    """The agent reported a thought."""

    text: str
    theme: str
    has_tool_calls: bool
    new: bool = False  # most of it was not said before
    words: str = ""  # hashes of what it says


class Reflected(GoalEvent, frozen=True):
    """An iteration record (docs/protocol.md), as the agent gave it, and its cost."""

    iteration: int
    assessment: str = ""
    record: dict[str, Any] = Field(default_factory=dict)
    hindsight: tuple[dict[str, str], ...] = ()  # what was found in the results of the turn before
    turn: tuple[dict[str, Any], ...] = ()  # what it added to the transcript, actions by number
    prompt: Prompt | None = None
    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    llm_s: float = 0.0
    unfinished: bool = False  # a crash cut it off


class ProbesSeen(GoalEvent, frozen=True):
    """What is true of the workspace, by name; `world` is as it was measured then, "" if it was not."""

    probes: dict[str, bool]
    world: str = ""
