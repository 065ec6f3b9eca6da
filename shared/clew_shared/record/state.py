"""What the fold maintains: the state of one goal, and what the gate remembers in its scope.

Plain records without rules; `snapshot` writes all of it as JSON and reads it back equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clew_shared.judge.memory import Memory
from clew_shared.record.identity import Identity  # noqa: TC001 - the type adapter of snapshots reads it
from clew_shared.record.model import (
    Action,
    Goal,
    GoalStatus,
    LlmCost,
    StepStatus,
    Subtask,
    Task,
)
from clew_shared.record.prompt_facts import Prompt  # noqa: TC001 - as Identity
from clew_shared.record.snapshot_events import ChangeCount
from clew_shared.record.spec import Spec

STEPS_KEPT = 16
CHECK_CHARS = 1000
CALLS_KEPT = 20
INSIGHTS_KEPT = 3
FRESH_STARTS_KEPT = 50
RERUNS_KEPT = 50
FINDINGS_KEPT = 300
RUNS_KEPT = 10
EVERYWHERE = "*"
"""The world of a block that applies in every world."""


@dataclass(slots=True)
class Tally:
    """The outcomes of one signature in one world: attempts by outcome, and the last one.

    `raw` is the last answer to the letter; `steady`: the last two had the same outcome. `kind` says how a repeat is
    judged: of a `read`, a `temporary` fault, what `varies` by itself, or "" of anything else.
    """

    counts: dict[str, int] = field(default_factory=dict)
    outcome: str = ""
    result: str = ""
    head: str = ""
    seq: int = 0
    plain: bool = True
    raw: str = ""
    kind: str = ""
    steady: bool = True


@dataclass(slots=True)
class CycleStep:
    """One finished action, as the cycle rule sees it.

    `idle` is a write that changed nothing or led back to an earlier world.
    """

    signature: str
    progress: bool
    idle: bool
    plain: bool
    seq: int = 0


@dataclass(slots=True)
class Streak:
    """How often in a row the same thing was seen."""

    what: str = ""
    count: int = 0


@dataclass(slots=True)
class Finding:
    """What the agent was told, or refused, as event `seq` at step `at`, and what came of it `after` so many steps.

    `came` is `open`, `heeded` (something new was brought, or the work was done), `ignored` (it was told or refused
    again) or `attempt_ended`. `stays` is the answer that had come so many `times`, "" where it was about none.
    """

    seq: int
    at: int
    refused: bool = False
    came: str = "open"
    after: int = 0
    stays: str = ""
    times: int = 0


@dataclass(slots=True)
class Scope:
    """What the gate remembers within one scope, in the order of use; `fold.eviction` bounds it.

    `writers` are signatures that have changed something. `died` is how the worker died at the last of `crashes`, where
    that is known.
    """

    worlds: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)
    loop_counts: dict[str, int] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    crashes: dict[str, int] = field(default_factory=dict)
    died: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: list[CycleStep] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)


@dataclass(slots=True)
class Attention:
    """The streaks that interventions are raised from; a person's feedback resets them.

    `theme` counts thoughts in a row with one theme; `new_thought`: the last one had new content; `claims` counts how
    often in a row the agent said that it advances while nothing new came; `acted`: an action was carried out that does
    more than wait or look at the record. `waits` and `firm`: in this turn it waited or looked at what may change by
    itself, and did anything else; `moved`: it changed a file since the last turn with a fact. `raised`
    are the streaks at which the agent was told, `told_at` the last step at which it was, `turn_steps` the steps up to
    the end of the last turn.
    """

    steps: int = 0
    fresh: bool = False
    iterations_without_facts: int = 0
    theme: Streak = field(default_factory=Streak)
    thoughts_without_tools: int = 0
    new_thought: bool = False
    stuck: int = 0
    claims: int = 0
    acted: bool = False
    waits: bool = False
    firm: bool = False
    moved: bool = False
    turn_steps: int = 0
    raised: dict[str, int] = field(default_factory=dict)
    told_at: int = -99

    @property
    def streaks(self) -> dict[str, int]:
        """The present length of each streak, by the intervention that it calls for."""
        return {
            "theme": self.theme.count,
            "repeated_planning": self.thoughts_without_tools,
            "no_progress": self.iterations_without_facts,
            "stuck": self.stuck,
        }

    @property
    def told_in_turn(self) -> bool:
        """Whether the agent was told something of a step of the present turn."""
        return self.told_at > self.turn_steps


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


@dataclass(slots=True)
class SuggestedCheck:
    """A check that the agent suggested; `started` without a `result` was interrupted, and does not run again."""

    cmd: str
    started: bool = False
    result: CheckResult | None = None


@dataclass(slots=True)
class LlmCall:
    """The LLM call of one turn: its tokens and seconds, and what is recorded of its prompt."""

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
class AttemptState:
    """The present attempt at the current subtask: its number, and the event and the iteration at which it began.

    `from_actions` are the subtask's actions before it. `reason` is why the one before it ended. `restored` files were
    put back before it began, `kept` is why none were, `left` names some that were not. `over` is why this one has
    ended, "" while it has not; `advancing` as in AttemptEnded. `tried` are lines on what went wrong in attempts before.
    """

    number: int = 1
    seq: int = 0
    from_iteration: int = 0
    from_actions: int = 0
    reason: str = ""
    restored: int = 0
    kept: str = ""
    left: tuple[str, ...] = ()
    over: str = ""
    advancing: bool = False
    tried: tuple[str, ...] = ()


@dataclass(slots=True)
class FreshStart:
    """The start of an attempt after the first at a subtask, and why the one before it ended; for people.

    `epoch` is that of its first worker, `rung` what is different about the agent; `restored`, `kept` and `left` are as
    in AttemptStarted.
    """

    task_idx: int
    subtask_idx: int
    number: int
    at: float
    epoch: int
    reason: str
    rung: str = ""
    restored: int = 0
    kept: str = ""
    left: tuple[str, ...] = ()


@dataclass(slots=True)
class Rerun:
    """An action that ran more than once, in the place where it did: `seqs` are its last runs, oldest first.

    `results` are what came of them, but for the last one.
    """

    task_idx: int
    subtask_idx: int
    action: str
    times: int
    seqs: list[int]
    results: list[str]


@dataclass(slots=True)
class RefusedFinishes:
    """How often in a row a `finish` was refused with nothing changed; `same_checks`: by the same checks in one world.

    `unseen`: the agent may have changed something where clew cannot see it.
    """

    world: str | None = None
    actions: int = -1
    failing: tuple[str, ...] = ()
    count: int = 0
    same_checks: int = 0
    unseen: bool = False


@dataclass(slots=True)
class SnapshotState:
    """What is known of a goal's snapshots: the trees of the `first` and the `last`, and what they cost.

    `missing` states why the next one could not be taken, "" if it could. `changed` compares the last with the first.
    `undoing` is the undo that is not complete yet, 0 for none. `undone` counts those that restored something and were
    not reverted; `counts` is what the last one to begin adds to it.
    """

    first: str = ""
    last: str = ""
    last_seq: int = 0
    taken: int = 0
    bytes: int = 0
    left_out: int = 0
    changed: ChangeCount = field(default_factory=ChangeCount)
    missing: str = ""
    undoing: int = 0
    counts: int = 0
    undone: int = 0


@dataclass(slots=True)
class State:
    """Everything that is known of one goal: a fold of its events.

    `world` is the world believed to be current; `measured` the last digest taken of the disk in it, "" for none.
    `subtask_seq` is where the current subtask began; `turn_at` and `turn_before` are the places (task, subtask) in
    which the present turn and the last one began. `feedback_untold` is in no iteration record yet, `feedback_seq` is
    the event of the last feedback. `workspace` is the folder that the goal works in, `stranger` another one that was
    found in its place, `gone`: none was; `may_make`: an empty folder may be made there, because the goal begins or a
    person was asked. `waiting_since` is when the goal began to wait or was queued; `verified`: it was completed with
    checks that passed, None before its end. `restarts` counts deaths of the worker. `rested_seq` is the last event at
    which the goal was blocked or ended. `questioned` is the failed action that a `finish` was last questioned about,
    0 for none. `attempts_total` counts the fresh starts at subtasks, `fresh_starts` are the last of them.
    `changes` has the signatures that changed something without a measurement, and `novelty` counts them.
    `findings` are the last times that the agent was told or refused something as a loop.
    `claims` counts the times that `finish` was refused because checks failed, since a person's last word.
    `messages` are those of workers that have ended, since the last turn.
    `asked_step` is the run of a runbook's step that the open question is about, `may_rerun` the last one that a person
    has let run again; `reruns` are the last actions that ran more than once.
    `agent` is that of the last worker; `agent_costs` has the share of each agent in the cost. `set_aside` are the
    subtasks that replans gave up, `covered` those that a new plan replaced before they were tried. `active_at_turn_s`
    are the seconds of work up to the end of the last turn. `last_action` is the last one that has ended, 0 for none.
    `edited_seq` is the last event by which a person changed the goal, 0 for none; `removed`: it is in no list.
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
    findings: list[Finding] = field(default_factory=list)
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    world: str = ""
    measured: str = ""
    changes: dict[str, int] = field(default_factory=dict)
    novelty: int = 0
    replan_required: str = ""
    planned: bool = False
    proposed: bool = False
    last_probe_state: dict[str, bool] = field(default_factory=dict)
    probes_seen: dict[str, ProbeSeen] = field(default_factory=dict)
    last_action: int = 0
    iteration: int = 0
    messages: int = 0
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
    active_at_turn_s: float = 0.0
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
    removed: bool = False
    edited_seq: int = 0
    wait_until: float | None = None
    waiting_since: float = 0.0
    verified: bool | None = None
    checks: dict[str, CheckResult] = field(default_factory=dict)
    checked_before: dict[str, CheckBefore] = field(default_factory=dict)
    suggested: dict[str, SuggestedCheck] = field(default_factory=dict)
    questioned: int = 0
    feedback: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    covered: list[str] = field(default_factory=list)
    cost: LlmCost = field(default_factory=LlmCost)
    reported_seq: int = 0
    reviewed_seq: int = 0
    rested_seq: int = 0
    snapshots: SnapshotState = field(default_factory=SnapshotState)
    attempt: AttemptState = field(default_factory=AttemptState)
    attempts_total: int = 0
    turns_needed: int = 0
    there: tuple[str, ...] = ()
    fresh_starts: list[FreshStart] = field(default_factory=list)
    refused: RefusedFinishes = field(default_factory=RefusedFinishes)
    asked_step: int = 0
    may_rerun: int = 0
    reruns: list[Rerun] = field(default_factory=list)
    claims: int = 0
    agent: str = ""
    agent_costs: dict[str, LlmCost] = field(default_factory=dict)
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
        """Signatures that are blocked in the current scope, in whatever world."""
        return list(self.scope.blocks)

    def probe_seen(self, name: str) -> ProbeSeen:
        """Return when a probe of `last_probe_state` was looked at: now, if that is not on record yet."""
        passed = self.last_probe_state[name]
        seen = self.probes_seen.get(name)
        if seen and seen.passed == passed:
            return seen
        return ProbeSeen(passed, self.world, self.last_action)

    def still_holds(self, probe: ProbeSeen) -> bool:
        """Return whether the workspace is as it was when a probe was looked at."""
        return probe.world == self.world

    @property
    def ended(self) -> bool:
        """Return whether nothing more happens to the goal unless a person retries it."""
        return GoalStatus(self.goal.status).ended

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
        passed = {name for name, check in self.checks.items() if check.passed}
        return bool(self.spec.checks) and passed >= self.spec.checks.keys()

    @property
    def passed_before(self) -> tuple[str, ...]:
        """The checks that passed before the goal's first action: that they pass proves nothing."""
        return tuple(name for name, before in self.checked_before.items() if before.passed)

    @property
    def settled(self) -> bool:
        """Return whether it ended and all that follows an end is recorded: the rest is up to a person."""
        done = self.reported_seq > self.rested_seq and self.reviewed_seq >= self.rested_seq
        return self.ended and done and not self.working and not self.in_flight

    @property
    def place(self) -> tuple[int, int]:
        """The indices of the current task and subtask."""
        return self.current_task_idx, self.current_subtask_idx

    @property
    def task(self) -> Task | None:
        """The current task."""
        tasks = self.goal.tasks
        return tasks[self.current_task_idx] if 0 <= self.current_task_idx < len(tasks) else None

    @property
    def subtask(self) -> Subtask | None:
        """The current subtask."""
        return self.subtask_at(*self.place)

    def subtask_at(self, task_idx: int, subtask_idx: int) -> Subtask | None:
        """Return the subtask at a place in the tree, None if there is none."""
        tasks = self.goal.tasks
        subtasks = tasks[task_idx].subtasks if 0 <= task_idx < len(tasks) else []
        return subtasks[subtask_idx] if 0 <= subtask_idx < len(subtasks) else None

    def next_pending(self) -> tuple[int, int] | None:
        """Return the place of the first pending subtask, in the order of the tree."""
        for t, task in enumerate(self.goal.tasks):
            for s, subtask in enumerate(task.subtasks):
                if subtask.status == StepStatus.PENDING:
                    return t, s
        return None

    @property
    def replaced(self) -> list[str]:
        """Lines on the subtasks that replans gave up or replaced, those that were never tried at the end."""
        untried = (f"{text} (not tried: another plan covers it)" for text in self.covered)
        return [*self.set_aside, *untried]

    def replaceable(self, level: str) -> list[Subtask]:
        """Return the pending subtasks that a replan of this level may replace, in the order of their numbers from 1."""
        tasks = [self.task] if level == "task" and self.task else self.goal.tasks
        return [s for task in tasks for s in task.subtasks if s.status == StepStatus.PENDING]

    def open_subtasks(self) -> list[str]:
        """Return the descriptions of all subtasks that are not over."""
        return [s.description for t in self.goal.tasks for s in t.subtasks if s.status in _OPEN]


_OPEN = (StepStatus.PENDING, StepStatus.IN_PROGRESS, StepStatus.BLOCKED)
