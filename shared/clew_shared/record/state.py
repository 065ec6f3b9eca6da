"""What the fold maintains, the state of one goal: plain records without rules."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from clew_shared.record.identity import Identity
from clew_shared.record.model import Action, Goal, GoalStatus, LlmCost, StepStatus, Subtask, Task
from clew_shared.record.scope import Loops, is_measured
from clew_shared.record.spec import Prompt, Spec
from clew_shared.text.shorten import beginning

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Form = TypeVar("_Form", bound="DataclassInstance")

INSIGHTS_KEPT, FEEDBACK_KEPT, SET_ASIDE_KEPT, SUBTASK_CHARS = 3, 50, 200, 200
FRESH_STARTS_KEPT, RERUNS_KEPT, RUNS_KEPT = 50, 50, 10
_ENDED = frozenset({GoalStatus.COMPLETED, GoalStatus.FAILED, GoalStatus.CANCELLED})


def taken(form: type[_Form], event: BaseModel, **more: object) -> _Form:
    """Return a record with what an event has in fields of the same names, and more."""
    same = form.__dataclass_fields__.keys() & type(event).model_fields.keys()
    return form(**({name: getattr(event, name) for name in same} | more))


@dataclass(slots=True)
class InFlight:
    """An allowed action whose outcome is not known yet."""

    seq: int
    signature: str
    action: Action


@dataclass(slots=True)
class CheckResult:
    """The last result of a check, recorded as event `seq`."""

    passed: bool
    output: str = ""
    seq: int = 0


@dataclass(slots=True)
class ProbeSeen:
    """When a probe or a check was last looked at: in which world, and after which action (0: before any)."""

    passed: bool
    world: str
    after: int


@dataclass(slots=True)
class CheckBefore:
    """How a check ended before the goal's first action; `exit_code` is None where it did not run to its end."""

    passed: bool
    exit_code: int | None = None
    duration_s: float = 0.0
    tests: tuple[int, int, int] | tuple[int, int, int, int] | None = None  # as in Count


@dataclass(slots=True)
class AttemptState:
    """An attempt at a subtask: its number, and the event and the iteration at which it began; names as in its event."""

    number: int = 1
    place: tuple[int, int] = (0, 0)
    at: float = 0.0
    epoch: int = 0  # of its first worker
    rung: str = ""
    seq: int = 0
    from_iteration: int = 0
    from_actions: int = 0  # the subtask's actions before it
    reason: str = ""  # why the one before it ended
    restored: int = 0  # files that were put back before it began
    kept: str = ""  # why none were
    left: tuple[str, ...] = ()  # some that were not
    over: str = ""  # why this one has ended, "" while it has not
    advancing: bool = False  # as in AttemptEnded
    tried: tuple[str, ...] = ()  # lines on what went wrong in attempts before


@dataclass(slots=True)
class Rerun:
    """An action that ran more than once, in the place where it did."""

    task_idx: int
    subtask_idx: int
    action: str
    times: int
    seqs: list[int]  # of its last runs, oldest first
    results: list[str]  # what came of them, but for the last one


@dataclass(slots=True)
class SnapshotState:
    """What is known of a goal's snapshots: the trees of the `first` and the `last`, and how many were `taken`."""

    first: str = ""
    first_at: float = 0.0
    last: str = ""
    last_seq: int = 0
    taken: int = 0
    left_out: int = 0
    missing: str = ""  # why the next one could not be taken
    undoing: int = 0  # the undo that is not complete yet, 0 for none
    scope: str = ""  # what it is about, as in UndoStarted
    before: int = 0  # the snapshot before it, or before the one that it reverts
    # scopes of those that restored something and were not reverted, by the snapshot before each
    undone: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class ProofState:
    """The last proof, as in ProofMade; how often a finish was `refused` by it, and whether a person is `asked`."""

    label: str
    world: str
    tree: str = ""
    files: tuple[str, ...] = ()
    why: str = ""
    seq: int = 0
    accepted: str | None = None  # by the goal, or a person
    seconds: float = 0.0
    without_work: str | None = None
    refused: int = 0
    asked: bool = False
    reason: str = ""


@dataclass(slots=True)
class Plan:
    """What becomes of the plan of the tree."""

    subtask_seq: int = 0  # where the current subtask began
    planned: bool = False
    proposed: bool = False
    replan_required: str = ""
    set_aside: list[str] = field(default_factory=list)  # subtasks that replans gave up
    covered: list[str] = field(default_factory=list)  # … that a plan replaced untried

    def give_up(self, tried: Iterable[str], untried: Iterable[str]) -> None:
        self.set_aside += tried
        self.covered += untried
        del self.set_aside[:-SET_ASIDE_KEPT], self.covered[:-SET_ASIDE_KEPT]


@dataclass(slots=True)
class Attempts:
    """What was tried, and what of the limits was granted again by a person: as much as had been used by then."""

    total: int = 0  # fresh starts
    fresh_starts: list[AttemptState] = field(default_factory=list)  # the last, as they began
    turns_needed: int = 0
    reruns: list[Rerun] = field(default_factory=list)
    asked_step: int = 0  # the run of a runbook's step that the open question is about
    may_rerun: int = 0  # the last one that a person has let run again
    messages: int = 0  # of workers that have ended, since the last turn
    turn_at: tuple[int, int] = (0, 0)  # the place in which the present turn began
    turn_before: tuple[int, int] = (0, 0)  # … and the one before it
    active_at_turn_s: float = 0.0  # seconds of work up to the end of the last turn
    iterations_granted: int = 0
    actions_granted: int = 0
    tokens_granted: int = 0
    active_granted_s: float = 0.0


@dataclass(slots=True)
class Proofs:
    """What the goal's checks, probes and proofs have shown; `last_action` is the last one that has ended."""

    checks: dict[str, CheckResult] = field(default_factory=dict)
    before: dict[str, CheckBefore] = field(default_factory=dict)
    suggested: dict[str, str] = field(default_factory=dict)  # commands that the agent proposed
    last_action: int = 0
    made: ProofState | None = None
    base: str = ""  # the tree that a person has accepted: what judges is as it is there


@dataclass(slots=True)
class Guidance:
    """What the agent is told: by people, by the playbook, and of the prompt and the files that it began with."""

    feedback: list[str] = field(default_factory=list)
    feedback_untold: list[str] = field(default_factory=list)  # in no iteration record yet
    feedback_seq: int = 0
    strategies: tuple[str, ...] = ()
    prompt: Prompt | None = None
    there: tuple[str, ...] = ()


@dataclass(slots=True)
class State:
    """Everything that is known of one goal: a fold of its events."""

    goal_id: str = ""
    goal: Goal = field(default_factory=lambda: Goal(""))
    spec: Spec = field(default_factory=lambda: Spec(description=""))
    seq: int = 0
    accepted_seq: int = 0
    identity: tuple[str, ...] = ()
    current_task_idx: int = 0
    current_subtask_idx: int = 0
    probes: dict[str, ProbeSeen] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    loops: Loops = field(default_factory=Loops)
    attempt: AttemptState = field(default_factory=AttemptState)
    attempts: Attempts = field(default_factory=Attempts)
    proofs: Proofs = field(default_factory=Proofs)
    guidance: Guidance = field(default_factory=Guidance)
    snapshots: SnapshotState = field(default_factory=SnapshotState)
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    iteration: int = 0
    actions_total: int = 0
    cost: LlmCost = field(default_factory=LlmCost)
    epoch: int = 0
    working: bool = False
    pid: int | None = None
    pid_created: float = 0.0
    worker_since: float = 0.0
    restarts: int = 0  # deaths of the worker
    workspace: Identity | None = None
    stranger: Identity | None = None  # another folder that was found in its place
    gone: bool = False  # none was
    may_make: bool = True  # an empty one may be made: the goal begins, or a person was asked
    reason: str = ""
    question: str = ""
    summary: str = ""
    paused: bool = False
    removed: bool = False  # it is in no list
    edited_seq: int = 0  # where a person last changed the goal
    wait_until: float | None = None
    wait_began: float = 0.0  # this one of several in a row
    waiting_since: float = 0.0  # when it began to wait or was queued
    verified: bool | None = None  # completed with checks that passed, None before its end
    reported_seq: int = 0
    reviewed_seq: int = 0
    rested_seq: int = 0  # where it was last blocked or ended
    accepted_at: float = 0.0
    started_at: float = 0.0
    updated_at: float = 0.0
    ended_at: float = 0.0

    @property
    def loop_counts(self) -> dict[str, int]:
        return self.loops.scope.loop_counts

    @property
    def blocked_actions(self) -> list[str]:
        return list(self.loops.scope.blocks)

    @property
    def last_probe_state(self) -> dict[str, bool]:
        return {name: seen.passed for name, seen in self.probes.items()}

    def see_probe(self, name: str, passed: bool, *, world: str = "") -> None:
        """Remember what a probe or a check has found, and when; `world` is as it was measured then."""
        where = world if is_measured(world) else self.loops.world
        self.probes[name] = ProbeSeen(passed, where, self.proofs.last_action)

    def holds(self, seen: ProbeSeen) -> bool:
        """Return whether nothing has changed since a probe was looked at."""
        return seen.world == self.loops.world

    @property
    def ended(self) -> bool:
        return self.goal.status in _ENDED

    @property
    def waits_for_time(self) -> bool:
        """Return whether the goal waits until a known time, and is retried then; a paused one waits for a person."""
        waiting = self.goal.status == GoalStatus.WAITING
        return waiting and not self.paused and self.wait_until is not None

    @property
    def workable(self) -> bool:
        """Return whether a worker may work on it: it is in progress, or is retried while it waits."""
        return self.goal.status == GoalStatus.IN_PROGRESS or self.waits_for_time

    @property
    def checked(self) -> bool:
        """Return whether the goal has checks, and all of them passed when they last ran."""
        passed = {name for name, check in self.proofs.checks.items() if check.passed}
        return bool(self.spec.checks) and passed >= self.spec.checks.keys()

    @property
    def passed_before(self) -> tuple[str, ...]:
        """The checks that passed before the goal's first action: that they pass proves nothing."""
        return tuple(name for name, before in self.proofs.before.items() if before.passed)

    @property
    def settled(self) -> bool:
        """Return whether it ended and all that follows an end is recorded: the rest is up to a person."""
        done = self.reported_seq > self.rested_seq and self.reviewed_seq >= self.rested_seq
        return self.ended and done and not self.working and not self.in_flight

    @property
    def place(self) -> tuple[int, int]:
        return self.current_task_idx, self.current_subtask_idx

    @property
    def task(self) -> Task | None:
        tasks = self.goal.tasks
        return tasks[self.current_task_idx] if 0 <= self.current_task_idx < len(tasks) else None

    @property
    def subtask(self) -> Subtask | None:
        return self.subtask_at(self.current_task_idx, self.current_subtask_idx)

    def subtask_at(self, task_idx: int, subtask_idx: int) -> Subtask | None:
        tasks = self.goal.tasks
        subtasks = tasks[task_idx].subtasks if 0 <= task_idx < len(tasks) else []
        return subtasks[subtask_idx] if 0 <= subtask_idx < len(subtasks) else None

    def next_pending(self) -> tuple[int, int] | None:
        for t, task in enumerate(self.goal.tasks):
            for s, subtask in enumerate(task.subtasks):
                if subtask.status == StepStatus.PENDING:
                    return t, s
        return None

    def resume_last(self) -> None:
        """Have the last subtask go on: all were ended, and the goal is not reached."""
        if self.subtask and self.task:
            self.subtask.status = self.task.status = StepStatus.IN_PROGRESS

    @property
    def has_follow_up(self) -> bool:
        """Return whether a person gave feedback after the end of a completed goal, which may be reopened for it."""
        completed = self.goal.status == GoalStatus.COMPLETED
        return completed and self.guidance.feedback_seq > self.rested_seq

    @property
    def follow_up(self) -> str:
        """The first line of that feedback, "" for none."""
        lines = self.guidance.feedback[-1].strip().splitlines() if self.has_follow_up else [""]
        return beginning(lines[0].strip(), SUBTASK_CHARS) if lines else ""

    @property
    def replaced(self) -> list[str]:
        """Lines on the subtasks that replans gave up or replaced, those that were never tried at the end."""
        untried = (f"{text} (not tried: another plan covers it)" for text in self.plan.covered)
        return [*self.plan.set_aside, *untried]

    def replaceable(self, level: str) -> list[Subtask]:
        """Return the pending subtasks that a replan of this level may replace, in the order of their numbers from 1."""
        tasks = [self.task] if level == "task" and self.task else self.goal.tasks
        return [s for task in tasks for s in task.subtasks if s.status == StepStatus.PENDING]

    def open_subtasks(self) -> list[str]:
        steps = self.goal.subtasks
        return [s.description for s in steps if s.open or s.status == StepStatus.BLOCKED]
