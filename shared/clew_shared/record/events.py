"""Everything that can happen to a goal, one frozen model for each kind: what the ledger holds and the fold reads.

An event states what was decided or observed, never what should be done about it. Events are only added to:
a field that came later has a default, so that an old ledger still folds.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from clew_shared.judge.reading import Reading
from clew_shared.record.identity import Identity
from clew_shared.record.model import Level
from clew_shared.record.prompt_facts import Prompt
from clew_shared.record.spec import PlannedTask, Spec
from clew_shared.record.touched import Touched


class Event(BaseModel, frozen=True, extra="ignore"):
    """What all events have: a `kind`, and `at`, seconds since 1970 on the wall clock, for people to read."""

    kind: str
    at: float = 0.0


class GoalEvent(Event, frozen=True):
    """An event of a goal: each subclass is one kind, which `codec` reads and `fold` takes into the state."""


class GoalAccepted(GoalEvent, frozen=True):
    """A goal file was accepted; its bytes are the output of this event, `identity` names the file."""

    kind: Literal["goal_accepted"] = "goal_accepted"
    goal_id: str
    spec: Spec
    tasks: tuple[PlannedTask, ...] = ()
    identity: tuple[str, ...] = ()


class GoalStarted(GoalEvent, frozen=True):
    """The goal left the queue."""

    kind: Literal["goal_started"] = "goal_started"


class GoalWaiting(GoalEvent, frozen=True):
    """The goal waits: until a known time (seconds since 1970), or for a person if `until` is None."""

    kind: Literal["goal_waiting"] = "goal_waiting"
    reason: str
    until: float | None = None
    paused: bool = False


class GoalBlocked(GoalEvent, frozen=True):
    """The goal was escalated to a person, with the question to answer.

    `stranger` is the folder found in place of the goal's workspace, if that is the reason: resuming accepts it.
    `gone` means that no folder was found: resuming makes an empty one. `step` is the run of a runbook's step that the
    question is about: continuing lets it run once more.
    """

    kind: Literal["goal_blocked"] = "goal_blocked"
    reason: str
    question: str = ""
    stranger: Identity | None = None
    gone: bool = False
    step: int = 0


class GoalRequeued(GoalEvent, frozen=True):
    """The goal continues; `by` names who asked for it.

    `reopen` gives its blocked or failed subtask a fresh start; `lifts`: its blocks after crashes end, too. `after` is
    the number of the end that is reopened, 0 if the goal had not ended. `subtask` is added to a completed goal, as the
    work to continue with. `make` permits an empty workspace to be made: clew reported to a person that the folder is
    missing, and it was.
    """

    kind: Literal["goal_requeued"] = "goal_requeued"
    by: str = ""
    reopen: bool = False
    lifts: bool = False
    after: int = 0
    subtask: str = ""
    make: bool = False


class GoalEnded(GoalEvent, frozen=True):
    """The goal ended; `verified`, for the log: it was completed, and had checks, all of which passed.

    `passed_before` are the checks that had passed before any work.
    """

    kind: Literal["goal_ended"] = "goal_ended"
    status: Literal["completed", "failed", "cancelled"]
    reason: str = ""
    summary: str = ""
    verified: bool = False
    passed_before: tuple[str, ...] = ()


class GoalEdited(GoalEvent, frozen=True):
    """A person changed what the goal asks for; the new goal file is the output of this event.

    `tasks` are the file's tasks where they were changed: they replace what is not done, None where they were not.
    `changed` names what was, as people read it.
    """

    kind: Literal["goal_edited"] = "goal_edited"
    spec: Spec
    tasks: tuple[PlannedTask, ...] | None = None
    changed: tuple[str, ...] = ()


class GoalRemoved(GoalEvent, frozen=True):
    """A person took the ended goal out of the lists; all of it stays on record."""

    kind: Literal["goal_removed"] = "goal_removed"


class WorkspaceKnown(GoalEvent, frozen=True):
    """The folder that is the goal's workspace from now on.

    `by`: found at the first start, made by the daemon, or accepted by a person.
    """

    kind: Literal["workspace_known"] = "workspace_known"
    identity: Identity
    by: Literal["start", "made", "person"] = "start"


class WorkerStarted(GoalEvent, frozen=True):
    """A new worker started; `created` is its process creation time, which tells it from a later process.

    `probe`: it finds out whether what the goal waits for is available again; the goal waits meanwhile. `span`: the id
    that its environment names as the parent of its own spans, "" if it names none. `turns_needed`: the turns of the
    longest attempt that completed anything in verified goals of the agent's model, 0 if that is not known. `there`:
    some paths in the workspace, folders with a slash, for a model that is asked to look first.
    """

    kind: Literal["worker_started"] = "worker_started"
    epoch: int
    agent: str = ""
    pid: int | None = None
    created: float = 0.0
    probe: bool = False
    span: str = ""
    turns_needed: int = 0
    there: tuple[str, ...] = ()


class WorkerReady(GoalEvent, frozen=True):
    """The agent has called `hello`; `probe` as in WorkerStarted."""

    kind: Literal["worker_ready"] = "worker_ready"
    epoch: int
    agent: str = ""
    probe: bool = False


class WorkerExited(GoalEvent, frozen=True):
    """The worker ended; `crash`: it died, which counts for the restart intensity.

    `probe`: it ended while its goal was still waiting. `messages` are those that its agent sent since its last turn.
    """

    kind: Literal["worker_exited"] = "worker_exited"
    epoch: int
    reason: str
    code: int | None = None
    crash: bool = False
    active_s: float = 0.0
    probe: bool = False
    messages: int = 0


class Planned(GoalEvent, frozen=True):
    """The agent made a plan; `replan` is the level that it replaces, None for the first plan.

    `covers` has the numbers of the pending subtasks that a replan replaces (`State.replaceable`); all others are still
    to do. None, in a replan of clew 0.1.0, means that it replaces all of them.
    """

    kind: Literal["planned"] = "planned"
    tasks: tuple[PlannedTask, ...]
    replan: Literal["task", "goal"] | None = None
    covers: tuple[int, ...] | None = None


class TreeEdited(GoalEvent, frozen=True):
    """The library's user changed the tree in place; `goal` is all of it, as a JSON object.

    `replan`: the edit is a new way in place of what was blocked, which is `given_up`, a line for each subtask; pending
    ones that are no longer in the tree are `covered`, by their descriptions.
    """

    kind: Literal["tree_edited"] = "tree_edited"
    goal: dict[str, Any]
    task_idx: int = 0
    subtask_idx: int = 0
    probes: dict[str, bool] = Field(default_factory=dict)
    loop_counts: dict[str, int] | None = None
    blocked_actions: tuple[str, ...] | None = None
    replan: bool = False
    given_up: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()


class SubtaskStarted(GoalEvent, frozen=True):
    """Work on a subtask begins; `scope` states what the gate remembers there.

    `idle`: nothing was carried out since the start of the one before it, so steps without progress count on.
    """

    kind: Literal["subtask_started"] = "subtask_started"
    task_idx: int
    subtask_idx: int
    scope: Literal["new", "keep", "inherit"] = "new"
    idle: bool = False


class SubtaskFailed(GoalEvent, frozen=True):
    """An attempt at the current subtask failed; the subtask stays in progress."""

    kind: Literal["subtask_failed"] = "subtask_failed"
    failure: str = ""
    cause: Literal["agent", "ignored_interventions"] = "agent"


class SubtaskEnded(GoalEvent, frozen=True):
    """The current subtask ended."""

    kind: Literal["subtask_ended"] = "subtask_ended"
    status: Literal["completed", "skipped", "failed"]
    summary: str = ""


class TaskCompleted(GoalEvent, frozen=True):
    """All subtasks of a task are done; this follows from other events, and is recorded for readers."""

    kind: Literal["task_completed"] = "task_completed"
    task_idx: int


class Escalated(GoalEvent, frozen=True):
    """The current subtask is blocked; `to` is the level that must find another way."""

    kind: Literal["escalated"] = "escalated"
    to: Level
    reason: str
    replan_failed_task: bool = False
    replan_failed_goal: bool = False


class AttemptEnded(GoalEvent, frozen=True):
    """An attempt at the current subtask is over, for this reason; its worker is stopped, and the next one follows.

    `tried` has a line for each attempt so far on what went wrong. `advancing`: only its turns were used up, it was
    still making progress, and its work was not found wrong.
    """

    kind: Literal["attempt_ended"] = "attempt_ended"
    attempt: int
    reason: str
    advancing: bool = False
    tried: tuple[str, ...] = ()


class AttemptStarted(GoalEvent, frozen=True):
    """A fresh start at the current subtask: the worker after this event has a new conversation.

    `reason` is why the attempt before it ended. `restored` files were put back to where the subtask began; `kept` is
    why the workspace stayed as it was, "" if it did not, and `left` names some files that were not restored, because
    someone else has changed them. `scope` states what the gate remembers, `rung` what is different about the agent, as
    people read it.
    """

    kind: Literal["attempt_started"] = "attempt_started"
    attempt: int
    reason: str
    scope: Literal["new", "keep"] = "new"
    rung: str = ""
    restored: int = 0
    kept: str = ""
    left: tuple[str, ...] = ()


class ActionAllowed(GoalEvent, frozen=True):
    """The gate allowed a proposal: it may run, once; `run` counts those of the same step (`core.reruns`)."""

    kind: Literal["action_allowed"] = "action_allowed"
    epoch: int
    tool: str
    args: dict[str, Any]
    signature: str
    rationale: str = ""
    attempt: int = 1
    run: int = 1


class ActionBlocked(GoalEvent, frozen=True):
    """The gate refused a proposal; `makes_block` adds it to the blocked actions of its world.

    `counts`: it counts for `blocked_limit`. `done`: the agent reported what it had already done (`record`).
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
    attempt: int = 1


class ActionFinished(GoalEvent, frozen=True):
    """The outcome of action number `of`; the full output is stored with the event.

    `world` is the digest after it (`worlds.UNKNOWN` if it could not be measured whole, "" if not at all),
    `error_class` names the error without what varies from call to call, `head` shows both ends of the output. `idle`:
    it looked at nothing but the record, or let time pass.
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
    idle: bool = False
    touched: Touched = Touched()
    evidence: Reading = Reading()


class ActionInterrupted(GoalEvent, frozen=True):
    """An action was in flight when a process died: its effect is unknown; `counts` for the crash rule.

    `detail` is how the process died, where that is known. What the action had printed last, as far as that is known,
    is stored with the event.
    """

    kind: Literal["action_interrupted"] = "action_interrupted"
    of: int
    reason: str
    counts: bool = False
    detail: str = ""


class WorldSeen(GoalEvent, frozen=True):
    """The workspace differs from what the last action left, or could not be measured whole (UNKNOWN).

    With `instead` the measured world replaces one that was only claimed.
    """

    kind: Literal["world_seen"] = "world_seen"
    world: str
    instead: bool = False


class LoopDetected(GoalEvent, frozen=True):
    """The gate found a loop.

    `of` is the event before it that refused the action or told the agent, 0 if it is neither; `steps` are the actions
    that were repeated.
    """

    kind: Literal["loop_detected"] = "loop_detected"
    loop: str
    signature: str = ""
    attempt_count: int = 0
    evidence: str = ""
    escalated_to: Level | None = None
    of: int = 0
    steps: tuple[int, ...] = ()


class LastGain(BaseModel, frozen=True):
    """What was new last: the action, and the line that was new in its answer; its head where no line was."""

    seq: int
    text: str


class Stays(BaseModel, frozen=True):
    """An answer that stays, and how often it came."""

    text: str
    times: int


POLL = "poll"
"""The key of a word about what may change by itself: it is no fault to look again."""


class Intervened(GoalEvent, frozen=True):
    """A message to the agent, recorded before it is sent; `again`: an earlier one was ignored.

    `debt` is in steps; `since_gain` are the steps since something was new, `last_gain` what that was, `steps` those
    that brought nothing, and `stays` an answer that stays. None in events of older versions.
    """

    kind: Literal["intervened"] = "intervened"
    intervention: str
    message: str
    key: str = ""
    again: bool = False
    debt: float | None = None
    since_gain: int | None = None
    last_gain: LastGain | None = None
    steps: tuple[int, ...] | None = None
    stays: Stays | None = None


class Thought(GoalEvent, frozen=True):
    """The agent reported a thought; `new`: most of it was not said before, `words` are hashes of what it says."""

    kind: Literal["thought"] = "thought"
    text: str
    theme: str
    has_tool_calls: bool
    new: bool = False
    words: str = ""


class Reflected(GoalEvent, frozen=True):
    """An iteration record (docs/protocol.md), as the agent gave it, and its cost.

    `hindsight` is what the agent found in the results of the turn before; `turn` is what this turn added to the
    transcript of its prompt, with actions by their numbers. One that is `unfinished` was cut off by a crash.
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
    unfinished: bool = False


class ProbesSeen(GoalEvent, frozen=True):
    """What is true of the workspace, by name; `world` is as it was measured then, "" if it was not."""

    kind: Literal["probes_seen"] = "probes_seen"
    probes: dict[str, bool]
    world: str = ""


class CheckProposed(GoalEvent, frozen=True):
    """The agent suggested a check with its plan: a command that exits with 0 once the goal is reached."""

    kind: Literal["check_proposed"] = "check_proposed"
    name: str
    cmd: str


class CheckStarted(GoalEvent, frozen=True):
    """A suggested check is about to run; recorded first, so that it does not run again after a crash."""

    kind: Literal["check_started"] = "check_started"
    name: str


class CheckFinished(GoalEvent, frozen=True):
    """The daemon ran a check of the goal, or one that its agent suggested."""

    kind: Literal["check_finished"] = "check_finished"
    name: str
    passed: bool
    output: str = ""
    suggested: bool = False


class CheckedBefore(GoalEvent, frozen=True):
    """The daemon ran a check of the goal before its first action; one that passed then proves nothing."""

    kind: Literal["checked_before"] = "checked_before"
    name: str
    passed: bool
    exit_code: int | None = None
    duration_s: float = 0.0
    output: str = ""


class FinishQuestioned(GoalEvent, frozen=True):
    """The agent called `finish` although action number `of`, the goal's last, had failed; it is asked once."""

    kind: Literal["finish_questioned"] = "finish_questioned"
    of: int
    message: str


class FinishRefused(GoalEvent, frozen=True):
    """A `finish` was refused: these checks failed, or subtasks were still open.

    `own_tools`: the agent may have worked since the last one where clew cannot see it.
    """

    kind: Literal["finish_refused"] = "finish_refused"
    failing: tuple[str, ...] = ()
    own_tools: bool = False


class FeedbackGiven(GoalEvent, frozen=True):
    """A person corrected the agent."""

    kind: Literal["feedback_given"] = "feedback_given"
    text: str


class Unblocked(GoalEvent, frozen=True):
    """A person lifted the blocks and the counts of a signature."""

    kind: Literal["unblocked"] = "unblocked"
    signature: str


class Reported(GoalEvent, frozen=True):
    """The goal's report was written to the outbox."""

    kind: Literal["reported"] = "reported"


class StrategiesShown(GoalEvent, frozen=True):
    """The strategies, by id, that the agent of an epoch was shown in the answer to `hello`."""

    kind: Literal["strategies_shown"] = "strategies_shown"
    epoch: int
    ids: tuple[str, ...]


class Reviewed(GoalEvent, frozen=True):
    """What the rest of the goal at event `of` means for the playbook is stored with this event, in one transaction."""

    kind: Literal["reviewed"] = "reviewed"
    of: int


RESTS = (GoalEnded, GoalBlocked)
"""The events at which a goal rests: it ended, or only a person can continue it."""
