"""What the fold keeps: the state of one goal and what the gate remembers in its scope.

Plain records without rules; all of it can be written as JSON and read back equal (`dump`, `load`).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from clew_shared.record.events import Prompt  # noqa: TC001 - the type adapter reads it
from clew_shared.record.identity import Identity  # noqa: TC001 - the type adapter reads it
from clew_shared.record.model import Action, Cost, Goal, GoalStatus, Subtask, Task
from clew_shared.record.spec import Spec

STATE_VERSION = 7
"""Snapshots of another version are not read; the ledger is replayed instead."""

STEPS_KEPT = 16
THOUGHTS_KEPT = 8
CHECK_CHARS = 1000
CALLS_KEPT = 20
INSIGHTS_KEPT = 3
EVERYWHERE = "*"
"""The world of a block that holds in every world."""


@dataclass(slots=True)
class Tally:
    """What came of one signature in one world: attempts by outcome, and how the last one went.

    `steady` says that the last two attempts had one outcome.
    """

    counts: dict[str, int] = field(default_factory=dict)
    outcome: str = ""
    result: str = ""
    head: str = ""
    seq: int = 0
    reading: bool = True
    plain: bool = True
    soft: bool = False
    steady: bool = True


@dataclass(slots=True)
class Step:
    """One finished action, as the cycle rule sees it.

    `idle` is a write that changed nothing or led back to an earlier world.
    """

    signature: str
    progress: bool
    idle: bool
    plain: bool


@dataclass(slots=True)
class Streak:
    """How often in a row the same thing was seen."""

    what: str = ""
    count: int = 0


@dataclass(slots=True)
class Raised:
    """An intervention that waits to be heeded: at which step it was raised, by a streak how long.

    One that led to a new world is `heeded`, though what raised it may still hold; both count from there.
    """

    key: str
    since: int
    streak: int
    heeded: bool = False


@dataclass(slots=True)
class Scope:
    """What the gate remembers between two ends of a scope, counts in the order of use; `forgetting` bounds it.

    `waited` says that the last action only let time pass.
    """

    worlds: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)
    loop_counts: dict[str, int] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    crashes: dict[str, int] = field(default_factory=dict)
    blocks: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    tool_errors: dict[str, Streak] = field(default_factory=dict)
    action_errors: dict[str, Streak] = field(default_factory=dict)
    misuses: dict[str, int] = field(default_factory=dict)
    waited: bool = False


@dataclass(slots=True)
class Attention:
    """The streaks that interventions are raised from; a person's feedback starts them anew.

    `theme` counts thoughts in a row of one theme, `alike` those that say the same, `said` are the last ones;
    `claims` counts how often in a row the agent called it advancing while nothing new came.
    """

    steps: int = 0
    stale: int = 0
    fresh: bool = False
    iterations_without_facts: int = 0
    theme: Streak = field(default_factory=Streak)
    said: list[str] = field(default_factory=list)
    alike: int = 0
    thoughts_without_tools: int = 0
    stuck: int = 0
    claims: int = 0
    raised: dict[str, Raised] = field(default_factory=dict)


@dataclass(slots=True)
class InFlight:
    """An allowed action of which nothing has been heard yet."""

    seq: int
    signature: str
    action: Action


@dataclass(slots=True)
class Change:
    """Where a claimed change led, and how many new changing signatures there were by then."""

    world: str
    novelty: int


@dataclass(slots=True)
class Check:
    """How a check of the goal went the last time."""

    passed: bool
    output: str = ""


@dataclass(slots=True)
class Suggested:
    """A check that the agent suggested; `started` without a `result` was interrupted, and is not run again."""

    cmd: str
    started: bool = False
    result: Check | None = None


@dataclass(slots=True)
class LlmCall:
    """What one turn's LLM call was: its tokens and seconds, and what is on record of its prompt."""

    iteration: int
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    llm_s: float = 0.0
    chars: int = 0
    kept: int = 0
    sha: str = ""
    cuts: int = 0
    window: str = ""


@dataclass(slots=True)
class State:
    """All that is known of one goal: a fold of its events.

    `world` is the believed one; `measured` the last digest that was taken of the disk in it, "" for none.
    `subtask_seq` is where the current subtask began; `turn_at` and `turn_before` say in which subtask the
    present turn and the last one began; `feedback_untold` stands in no iteration record yet, `feedback_seq` is
    where the last was given. `workspace` is the folder that the goal works in, `stranger` another one that was
    found in its place, `gone` that nothing was; `may_make` says that an empty folder may be made there, because the
    goal begins or a person was asked. `waiting_since` is when the goal began to wait or was queued; `verified` tells
    whether it was completed with checks that passed, None before its end. `restarts` counts how often a worker died.
    `questioned` is the failed action that a `finish` was last questioned about, 0 for none.
    """

    goal_id: str = ""
    goal: Goal = field(default_factory=lambda: Goal(""))
    spec: Spec = field(default_factory=lambda: Spec(description=""))
    seq: int = 0
    accepted_seq: int = 0
    identity: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    current_task_idx: int = 0
    current_subtask_idx: int = 0
    scope: Scope = field(default_factory=Scope)
    inherited: Scope | None = None
    attention: Attention = field(default_factory=Attention)
    blocked_proposals: int = 0
    ignored_interventions: int = 0
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    world: str = ""
    measured: str = ""
    changes: dict[str, dict[str, Change]] = field(default_factory=dict)
    novelty: int = 0
    replan_required: str = ""
    planned: bool = False
    proposed: bool = False
    last_probe_state: dict[str, bool] = field(default_factory=dict)
    iteration: int = 0
    subtask_seq: int = 0
    turn_at: tuple[int, int] = (0, 0)
    turn_before: tuple[int, int] = (0, 0)
    prompt: Prompt | None = None
    calls: list[LlmCall] = field(default_factory=list)
    feedback_untold: list[str] = field(default_factory=list)
    feedback_seq: int = 0
    iterations_granted: int = 0
    actions_granted: int = 0
    tokens_granted: int = 0
    active_granted_s: float = 0.0
    actions_total: int = 0
    blocked_total: int = 0
    loops_total: int = 0
    epoch: int = 0
    working: bool = False
    pid: int | None = None
    pid_created: float = 0.0
    worker_since: float = 0.0
    restarts: int = 0
    workspace: Identity | None = None
    stranger: Identity | None = None
    gone: bool = False
    may_make: bool = True
    reason: str = ""
    question: str = ""
    summary: str = ""
    paused: bool = False
    wait_until: float | None = None
    waiting_since: float = 0.0
    verified: bool | None = None
    checks: dict[str, Check] = field(default_factory=dict)
    suggested: dict[str, Suggested] = field(default_factory=dict)
    questioned: int = 0
    feedback: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    reported_seq: int = 0
    reviewed_seq: int = 0
    rested_seq: int = 0
    accepted_at: float = 0.0
    started_at: float = 0.0
    updated_at: float = 0.0
    ended_at: float = 0.0

    @property
    def loop_counts(self) -> dict[str, int]:
        """Attempts by signature in the current scope."""
        return self.scope.loop_counts

    @property
    def blocked_actions(self) -> list[str]:
        """Signatures that are blocked in the current scope, whatever the world."""
        return list(self.scope.blocks)

    @property
    def ended(self) -> bool:
        """Nothing more happens to the goal unless a person says `retry`."""
        return GoalStatus(self.goal.status).ended

    @property
    def waits_for_time(self) -> bool:
        """The goal waits until a known time, and is retried then; a paused one waits for a person."""
        waiting = self.goal.status == GoalStatus.WAITING
        return waiting and not self.paused and self.wait_until is not None

    @property
    def workable(self) -> bool:
        """A worker may be at it: the goal is in progress, or is being retried while it still waits."""
        return self.goal.status == GoalStatus.IN_PROGRESS or self.waits_for_time

    @property
    def checked(self) -> bool:
        """The goal has checks, and all of them passed when they ran last."""
        passed = {name for name, check in self.checks.items() if check.passed}
        return bool(self.spec.checks) and passed >= self.spec.checks.keys()

    @property
    def settled(self) -> bool:
        """It ended, and all that follows an end is done: nothing is recorded of it until a person asks."""
        told = self.reported_seq > self.rested_seq and self.reviewed_seq >= self.rested_seq
        return self.ended and told and not self.working and not self.in_flight

    @property
    def task(self) -> Task | None:
        """The current task."""
        tasks = self.goal.tasks
        return tasks[self.current_task_idx] if 0 <= self.current_task_idx < len(tasks) else None

    @property
    def subtask(self) -> Subtask | None:
        """The current subtask."""
        subtasks = self.task.subtasks if self.task else []
        idx = self.current_subtask_idx
        return subtasks[idx] if 0 <= idx < len(subtasks) else None

    def next_pending(self) -> tuple[int, int] | None:
        """Find the first pending subtask, in the order of the tree."""
        for t, task in enumerate(self.goal.tasks):
            for s, subtask in enumerate(task.subtasks):
                if subtask.status == "pending":
                    return t, s
        return None

    def open_subtasks(self) -> list[str]:
        """Name what is still to be done."""
        return [s.description for t in self.goal.tasks for s in t.subtasks if s.status in _OPEN]


_OPEN = ("pending", "in_progress", "blocked")


@cache
def _states() -> TypeAdapter[State]:
    return TypeAdapter(State)  # made when first used: it costs what a command line feels


def dump(state: State) -> bytes:
    """Write a state as JSON."""
    return _states().dump_json(state)


def load(body: bytes) -> State:
    """Read a state back; raises `pydantic.ValidationError` where it is not one."""
    return _states().validate_json(body)


def packed(dumped: bytes) -> bytes:
    """Compress what `dump` gave to about a tenth, as a snapshot keeps it; in a thread it holds nobody up."""
    return zlib.compress(dumped, 1)


def unpack(body: bytes) -> State:
    """Read a snapshot's state back; raises ValueError where it is not one."""
    try:
        return load(zlib.decompress(body))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def outline(state: State) -> State:
    """Give what is asked of a settled goal day by day: its place in lists and queues, and its tree's marks.

    It is no fold of its events any more: whoever would go on with the goal, or shows all of it, reads it anew. What
    is empty in it is shared by all outlines, thousands of which may be in memory.
    """
    tasks = [
        replace(task, subtasks=[_mark(subtask) for subtask in task.subtasks])
        for task in state.goal.tasks
    ]
    return replace(
        state,
        goal=replace(state.goal, tasks=tasks),
        spec=_without_texts(state.spec),
        scope=Scope(blocks=state.scope.blocks) if state.scope.blocks else _EMPTY.scope,
        inherited=None,
        attention=_EMPTY.attention,
        changes=_EMPTY.changes,
        prompt=None,
        calls=_EMPTY.calls,
        checks=_EMPTY.checks,
        suggested=_EMPTY.suggested,
        feedback=_EMPTY.feedback,
        feedback_untold=_EMPTY.feedback,
        set_aside=_EMPTY.set_aside,
    )


def _mark(subtask: Subtask) -> Subtask:
    return Subtask(
        subtask.description,
        subtask.status,
        actions=_UNMARKED.actions,
        steps=_UNMARKED.steps,
        insights=_UNMARKED.insights,
        cost=_UNMARKED.cost,
    )


_EMPTY, _UNMARKED = State(), Subtask("")


def _without_texts(spec: Spec) -> Spec:
    """Give a spec without its texts."""
    return spec.model_copy(update={"notes": "", "done_when": "", "checks": {}})


def as_dict(state: State) -> dict[str, Any]:
    """Give a state as plain JSON values."""
    return _states().dump_python(state, mode="json")  # type: ignore[no-any-return]
