"""Everything that can happen, one frozen model each: what the ledger holds and the fold reads.

An event says what was decided or seen, never what should be done about it. Events are only added to:
a field that came later has a default, so that an old ledger still folds.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from clew_shared.record.identity import Identity
from clew_shared.record.model import GoalStatus, Level


class Event(BaseModel, frozen=True, extra="ignore"):
    """What all events share: `at`, seconds since 1970 on the wall clock, for people to read."""

    kind: str
    at: float = 0.0


class Step(BaseModel):
    """A runbook's action, as the goal file gave it."""

    model_config = ConfigDict(frozen=True)
    tool: str
    args: dict[str, Any]


class PlannedSubtask(BaseModel):
    """A subtask of a plan."""

    model_config = ConfigDict(frozen=True)
    description: str
    done: bool = False
    steps: tuple[Step, ...] = ()


class PlannedTask(BaseModel):
    """A task of a plan."""

    model_config = ConfigDict(frozen=True)
    description: str
    subtasks: tuple[PlannedSubtask, ...] = ()


class Spec(BaseModel):
    """What a goal file asked for, besides its tree; durations in seconds, `not_before` since 1970."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    description: str
    name: str = ""
    notes: str = ""
    done_when: str = ""
    workspace: str = ""
    agent: str = ""
    checks: dict[str, str] = Field(default_factory=dict)
    priority: int = 0
    max_iterations: int | None = None
    budget_tokens: int | None = None
    budget_wall_s: float | None = None
    not_before: float | None = None
    depends_on: tuple[str, ...] = ()
    on_interrupt: Literal["retry", "ask"] = "retry"
    unknown_keys: tuple[str, ...] = ()
    file_name: str = ""


class GoalAccepted(Event, frozen=True):
    """A goal file was taken; its bytes lie beside the event as its output, `identity` names the file."""

    kind: Literal["goal_accepted"] = "goal_accepted"
    goal_id: str
    spec: Spec
    tasks: tuple[PlannedTask, ...] = ()
    identity: tuple[str, ...] = ()


class GoalStarted(Event, frozen=True):
    """A goal left the queue."""

    kind: Literal["goal_started"] = "goal_started"


class GoalWaiting(Event, frozen=True):
    """A goal waits: until a known time (seconds since 1970), or for a person where `until` is None."""

    kind: Literal["goal_waiting"] = "goal_waiting"
    reason: str
    until: float | None = None
    paused: bool = False


class GoalBlocked(Event, frozen=True):
    """A goal was escalated to a person, with the question that they must answer.

    `stranger` is what stands in the place of the goal's workspace, where that is why: resuming accepts it.
    `gone` says that nothing stands there: resuming makes an empty folder.
    """

    kind: Literal["goal_blocked"] = "goal_blocked"
    reason: str
    question: str = ""
    stranger: Identity | None = None
    gone: bool = False


class GoalRequeued(Event, frozen=True):
    """A goal goes on: `reopen` gives its blocked or failed subtask a fresh start, `by` says who asked.

    `after` is the number of the end that it reopens, 0 where the goal had not ended. `subtask` is what a completed
    goal is reopened for: the subtask that is added. `make` says that an empty workspace may be made: a person was
    told that nothing stands there, and nothing did.
    """

    kind: Literal["goal_requeued"] = "goal_requeued"
    by: str = ""
    reopen: bool = False
    after: int = 0
    subtask: str = ""
    make: bool = False


class GoalEnded(Event, frozen=True):
    """A goal is over; `verified` is for the log: whether it was completed with checks, all of which passed."""

    kind: Literal["goal_ended"] = "goal_ended"
    status: Literal["completed", "failed", "cancelled"]
    reason: str = ""
    summary: str = ""
    verified: bool = False


class WorkspaceKnown(Event, frozen=True):
    """Which folder is the goal's workspace from now on: the one that was there at its first start, or a later one.

    `by` says whether it was found at the first start, made by the daemon, or accepted by a person.
    """

    kind: Literal["workspace_known"] = "workspace_known"
    identity: Identity
    by: Literal["start", "made", "person"] = "start"


class WorkerStarted(Event, frozen=True):
    """A new incarnation of the worker; `created` is the process creation time, to recognise it by.

    `probe` marks one that finds out whether what its goal waits for is back: the goal goes on waiting meanwhile.
    """

    kind: Literal["worker_started"] = "worker_started"
    epoch: int
    agent: str = ""
    pid: int | None = None
    created: float = 0.0
    probe: bool = False


class WorkerReady(Event, frozen=True):
    """The agent said hello; `probe` as in WorkerStarted."""

    kind: Literal["worker_ready"] = "worker_ready"
    epoch: int
    agent: str = ""
    probe: bool = False


class WorkerExited(Event, frozen=True):
    """An incarnation is over; `crash`: it died, which counts against the restart intensity.

    `probe` marks one that ended while its goal was still waiting.
    """

    kind: Literal["worker_exited"] = "worker_exited"
    epoch: int
    reason: str
    code: int | None = None
    crash: bool = False
    active_s: float = 0.0
    probe: bool = False


class Planned(Event, frozen=True):
    """The agent planned; `replan` says which level the plan replaces, None the implicit first one."""

    kind: Literal["planned"] = "planned"
    tasks: tuple[PlannedTask, ...]
    replan: Literal["task", "goal"] | None = None


class TreeEdited(Event, frozen=True):
    """The library's user changed the tree in place: the whole of it, as a JSON object.

    `replan` says that the edit is another way in the place of what was blocked.
    """

    kind: Literal["tree_edited"] = "tree_edited"
    goal: dict[str, Any]
    task_idx: int = 0
    subtask_idx: int = 0
    probes: dict[str, bool] = Field(default_factory=dict)
    loop_counts: dict[str, int] | None = None
    blocked_actions: tuple[str, ...] | None = None
    replan: bool = False


class SubtaskStarted(Event, frozen=True):
    """Work on a subtask begins; `scope` says what the gate remembers there."""

    kind: Literal["subtask_started"] = "subtask_started"
    task_idx: int
    subtask_idx: int
    scope: Literal["new", "keep", "inherit"] = "new"


class SubtaskFailed(Event, frozen=True):
    """An attempt at the current subtask failed; it stays in progress."""

    kind: Literal["subtask_failed"] = "subtask_failed"
    failure: str = ""
    cause: Literal["agent", "ignored_interventions"] = "agent"


class SubtaskEnded(Event, frozen=True):
    """The current subtask is over: done, skipped or failed for good."""

    kind: Literal["subtask_ended"] = "subtask_ended"
    status: Literal["completed", "skipped", "failed"]
    summary: str = ""


class TaskCompleted(Event, frozen=True):
    """All subtasks of a task are done; follows from them, and is there to be read."""

    kind: Literal["task_completed"] = "task_completed"
    task_idx: int


class Escalated(Event, frozen=True):
    """The current subtask is blocked; `to` says who must find another way."""

    kind: Literal["escalated"] = "escalated"
    to: Level
    reason: str
    replan_failed_task: bool = False
    replan_failed_goal: bool = False


class ActionAllowed(Event, frozen=True):
    """The gate let a proposal through; it may run, once."""

    kind: Literal["action_allowed"] = "action_allowed"
    epoch: int
    tool: str
    args: dict[str, Any]
    signature: str
    rationale: str = ""


class ActionBlocked(Event, frozen=True):
    """The gate refused a proposal; `makes_block` adds it to the blocked actions of its world.

    `done` is set where an agent reported what it had already done (`record`).
    """

    kind: Literal["action_blocked"] = "action_blocked"
    epoch: int
    tool: str
    args: dict[str, Any]
    signature: str
    reason: str
    message: str
    makes_block: str = ""
    everywhere: bool = False
    counts: bool = False
    done: bool = False


class ActionFinished(Event, frozen=True):
    """What came of an action: `of` is its sequence number, the full output lies beside the event.

    `world` is the digest after it (`worlds.UNKNOWN` where it could not be measured whole, "" where nothing
    measured it), `error_class` names the error without what varies from call to call, `head` shows the first
    part of the output.
    """

    kind: Literal["action_finished"] = "action_finished"
    of: int
    result: str
    head: str = ""
    outcome: str
    error_class: str = ""
    duration_s: float = 0.0
    exit_code: int | None = None
    changed: bool | None = None
    world: str = ""
    plain: bool = False
    soft: bool = False


class ActionInterrupted(Event, frozen=True):
    """An action was in flight when something died: its effect is unknown; `counts` for the crash rule."""

    kind: Literal["action_interrupted"] = "action_interrupted"
    of: int
    reason: str
    counts: bool = False


class WorldSeen(Event, frozen=True):
    """The workspace was found to differ from what the last action left, or could not be measured (UNKNOWN).

    With `instead` it takes the place of a world that was only claimed.
    """

    kind: Literal["world_seen"] = "world_seen"
    world: str
    instead: bool = False


class LoopDetected(Event, frozen=True):
    """The gate found a loop."""

    kind: Literal["loop_detected"] = "loop_detected"
    loop: str
    signature: str = ""
    attempt_count: int = 0
    evidence: str = ""
    escalated_to: Level | None = None


class Intervened(Event, frozen=True):
    """A word to the agent, recorded before it is sent; `again` where an earlier one was ignored."""

    kind: Literal["intervened"] = "intervened"
    intervention: str
    message: str
    key: str = ""
    again: bool = False


class Thought(Event, frozen=True):
    """The agent said what it thinks; `echoes` where it says again what one of the last thoughts said."""

    kind: Literal["thought"] = "thought"
    text: str
    theme: str
    has_tool_calls: bool
    echoes: bool = False


COUNT_MAX = 1 << 53
"""A count beyond it is none: sums of such still fit what reads them."""


class Prompt(BaseModel):
    """What a turn's prompt was: sizes in characters, and the hash of what a cut alone may change.

    `sha` names tools, system, goal, finished work and folded lines; `cuts` counts what changed it on purpose
    in this subtask; `kept` is how much of the call before stood at the beginning of this one; `ending` the
    state block. `folded` entries of the transcript were lines; the rest is what a new epoch goes on with.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    sha: str = Field(default="", max_length=64)
    cuts: int = Field(default=0, ge=0, le=COUNT_MAX)
    chars: int = Field(default=0, ge=0, le=COUNT_MAX)
    kept: int = Field(default=0, ge=0, le=COUNT_MAX)
    ending: int = Field(default=0, ge=0, le=COUNT_MAX)
    folded: int = Field(default=0, ge=0, le=COUNT_MAX)
    window: str = Field(default="full", max_length=20)
    mode: Literal["tools", "json"] = "tools"
    tightness: int = Field(default=0, ge=0, le=16)
    chars_per_token: float = Field(default=4.0, gt=0, le=64)


class Reflected(Event, frozen=True):
    """An iteration record (contract, section 9), as the agent gave it, and what it cost.

    `hindsight` is what the agent found in the results of the turn before; `turn` what this one added to the
    transcript of its prompt, where actions stand by their numbers.
    """

    kind: Literal["reflected"] = "reflected"
    iteration: int
    assessment: str = ""
    record: dict[str, Any] = Field(default_factory=dict)
    hindsight: tuple[dict[str, str], ...] = ()
    turn: tuple[dict[str, Any], ...] = ()
    prompt: Prompt | None = None
    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    llm_s: float = 0.0


class ProbesSeen(Event, frozen=True):
    """What is true of the workspace, by name."""

    kind: Literal["probes_seen"] = "probes_seen"
    probes: dict[str, bool]


class CheckProposed(Event, frozen=True):
    """The agent suggested a check with its plan: a command that exits 0 once the goal is reached."""

    kind: Literal["check_proposed"] = "check_proposed"
    name: str
    cmd: str


class CheckStarted(Event, frozen=True):
    """A suggested check is about to run; recorded first, so that it is not run again after a crash."""

    kind: Literal["check_started"] = "check_started"
    name: str


class CheckFinished(Event, frozen=True):
    """The daemon ran a check of the goal, or one that its agent suggested."""

    kind: Literal["check_finished"] = "check_finished"
    name: str
    passed: bool
    output: str = ""
    suggested: bool = False


class FinishQuestioned(Event, frozen=True):
    """The agent called `finish` although the goal's last action, number `of`, had failed; it is asked once."""

    kind: Literal["finish_questioned"] = "finish_questioned"
    of: int
    message: str


class FeedbackGiven(Event, frozen=True):
    """A person corrected the agent."""

    kind: Literal["feedback_given"] = "feedback_given"
    text: str


class Unblocked(Event, frozen=True):
    """A person lifted the blocks of a signature and its counts."""

    kind: Literal["unblocked"] = "unblocked"
    signature: str


class Reported(Event, frozen=True):
    """The goal's report was put in the outbox."""

    kind: Literal["reported"] = "reported"


class StrategiesShown(Event, frozen=True):
    """The strategies that the agent of an epoch was shown when it said hello, by their ids."""

    kind: Literal["strategies_shown"] = "strategies_shown"
    epoch: int
    ids: tuple[str, ...]


class Reviewed(Event, frozen=True):
    """What the goal's rest at `of` means for the playbook stands beside this event, in one transaction."""

    kind: Literal["reviewed"] = "reviewed"
    of: int


class BulletAdded(Event, frozen=True):
    """A strategy was learned; an event of the daemon, not of a goal.

    `evidence` and `actions` (their numbers) say what it was drawn from, `created_at` is an imported one's own,
    and from `expires_at` on (seconds since 1970; 0: never) it is shown to nobody.
    """

    kind: Literal["bullet_added"] = "bullet_added"
    id: str
    section: str
    content: str
    source_goal: str = ""
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    evidence: str = ""
    actions: tuple[int, ...] = ()
    expires_at: float = 0.0
    created_at: str = ""


class BulletTagged(Event, frozen=True):
    """A strategy was credited; `reason` says by what, and a lesson learned again expires later."""

    kind: Literal["bullet_tagged"] = "bullet_tagged"
    id: str
    tag: Literal["helpful", "harmful", "neutral"]
    source_goal: str = ""
    times: int = 1
    reason: str = ""
    expires_at: float = 0.0


class BulletUpdated(Event, frozen=True):
    """A strategy was put in other words."""

    kind: Literal["bullet_updated"] = "bullet_updated"
    id: str
    content: str
    source_goal: str = ""


class BulletRemoved(Event, frozen=True):
    """A strategy was put into the archive, by whom or why."""

    kind: Literal["bullet_removed"] = "bullet_removed"
    id: str
    reason: str = ""
    source_goal: str = ""


class BulletRestored(Event, frozen=True):
    """A strategy was taken out of the archive."""

    kind: Literal["bullet_restored"] = "bullet_restored"
    id: str


class HomeKnown(Event, frozen=True):
    """Where the ledger's home is from now on: an event of the daemon, not of a goal.

    `identity` is that of the state folder, at `path` on `host`; `pid_namespace` says where process numbers hold.
    """

    kind: Literal["home_known"] = "home_known"
    identity: Identity
    path: str
    host: str = ""
    pid_namespace: int | None = None


class GoalForgotten(Event, frozen=True):
    """A goal that ended long ago is removed from the ledger, and ended so; an event of the daemon, not of a goal."""

    kind: Literal["goal_forgotten"] = "goal_forgotten"
    goal: str
    status: GoalStatus


GoalEvent = Annotated[
    GoalAccepted
    | GoalStarted
    | GoalWaiting
    | GoalBlocked
    | GoalRequeued
    | GoalEnded
    | WorkspaceKnown
    | WorkerStarted
    | WorkerReady
    | WorkerExited
    | Planned
    | TreeEdited
    | SubtaskStarted
    | SubtaskFailed
    | SubtaskEnded
    | TaskCompleted
    | Escalated
    | ActionAllowed
    | ActionBlocked
    | ActionFinished
    | ActionInterrupted
    | WorldSeen
    | LoopDetected
    | Intervened
    | Thought
    | Reflected
    | ProbesSeen
    | CheckProposed
    | CheckStarted
    | CheckFinished
    | FinishQuestioned
    | FeedbackGiven
    | Unblocked
    | Reported
    | StrategiesShown
    | Reviewed,
    Field(discriminator="kind"),
]

PlaybookEvent = Annotated[
    BulletAdded | BulletTagged | BulletUpdated | BulletRemoved | BulletRestored,
    Field(discriminator="kind"),
]

_goal_events: TypeAdapter[Any] = TypeAdapter(GoalEvent)
_playbook_events: TypeAdapter[Any] = TypeAdapter(PlaybookEvent)


def encode(event: Event) -> bytes:
    """Write an event as JSON; fields at their defaults are left out, the kind never is."""
    body = event.model_dump_json(exclude_defaults=True)
    head = f'{{"kind":"{event.kind}"'
    return (head + ("}" if body == "{}" else "," + body[1:])).encode()


def decode(body: bytes) -> Event:
    """Read a goal's event; raises `pydantic.ValidationError` on anything else."""
    event: Event = _goal_events.validate_json(body)
    return event


def decode_playbook(body: bytes) -> Event:
    """Read an event of the playbook."""
    event: Event = _playbook_events.validate_json(body)
    return event
