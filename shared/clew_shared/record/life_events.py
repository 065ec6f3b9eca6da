"""What can happen to a goal as a whole: its life, its worker, its tree of work, its checks, and what people say."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from clew_shared.record.identity import Identity
from clew_shared.record.model import Level
from clew_shared.record.spec import PlannedTask, Spec


class Event(BaseModel, frozen=True, extra="ignore"):
    """What all events have; `kind` names the class in the ledger: `goal_accepted` is a GoalAccepted."""

    kind: ClassVar[str] = ""
    at: float = 0.0  # seconds since 1970 on the wall clock, for people to read

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class GoalEvent(Event, frozen=True):
    """An event of a goal: each subclass is one kind, which `codec` reads and `fold` takes into the state."""


class GoalAccepted(GoalEvent, frozen=True):
    """A goal file was accepted; its bytes are the output of this event, `identity` names the file."""

    goal_id: str
    spec: Spec
    tasks: tuple[PlannedTask, ...] = ()
    identity: tuple[str, ...] = ()


class GoalStarted(GoalEvent, frozen=True):
    """The goal left the queue."""


class GoalWaiting(GoalEvent, frozen=True):
    """The goal waits: until a known time (seconds since 1970), or for a person if `until` is None."""

    reason: str
    until: float | None = None
    paused: bool = False


class GoalBlocked(GoalEvent, frozen=True):
    """The goal was escalated to a person, with the question to answer."""

    reason: str
    question: str = ""
    stranger: Identity | None = None  # what stands in the workspace's place: resuming accepts it
    gone: bool = False  # no folder was found there: resuming makes an empty one
    step: int = 0  # the run of a runbook's step that is asked about: continuing lets it run again


class GoalRequeued(GoalEvent, frozen=True):
    """The goal continues; `by` names who asked for it."""

    by: str = ""
    reopen: bool = False  # its blocked or failed subtask gets a fresh start
    lifts: bool = False  # … and its blocks after crashes end, too
    after: int = 0  # the number of the end that is reopened, 0 if the goal had not ended
    subtask: str = ""  # added to a completed goal, as the work to continue with
    make: bool = False  # an empty workspace may be made: a person was told that it is missing


class GoalEnded(GoalEvent, frozen=True):
    """The goal ended."""

    status: Literal["completed", "failed", "cancelled"]
    reason: str = ""
    summary: str = ""
    verified: bool = False  # for the log: completed, and had checks, all of which passed
    proof: str = ""  # its label
    passed_before: tuple[str, ...] = ()  # the checks that had passed before any work


class GoalEdited(GoalEvent, frozen=True):
    """A person changed what the goal asks for; the new goal file is the output of this event."""

    spec: Spec
    tasks: tuple[PlannedTask, ...] | None = None  # they replace what is not done; None: unchanged
    changed: tuple[str, ...] = ()  # what was, as people read it


class GoalRemoved(GoalEvent, frozen=True):
    """A person took the ended goal out of the lists; all of it stays on record."""


class WorkspaceKnown(GoalEvent, frozen=True):
    """The folder that is the goal's workspace from now on."""

    identity: Identity
    by: Literal["start", "made", "person"] = "start"  # found, made by the daemon, or accepted


class WorkerStarted(GoalEvent, frozen=True):
    """A new worker started."""

    epoch: int
    agent: str = ""
    pid: int | None = None
    created: float = 0.0  # the process's creation time, which tells it from a later process
    probe: bool = False  # it finds out whether what the goal waits for is available again
    span: str = ""  # the parent of its own spans, as its environment names it
    turns_needed: int = 0  # of the longest attempt in verified goals of its model, 0: not known
    there: tuple[str, ...] = ()  # paths of the workspace, for a model that is asked to look first


class WorkerReady(GoalEvent, frozen=True):
    """The agent has called `hello`; `probe` as in WorkerStarted."""

    epoch: int
    agent: str = ""
    probe: bool = False


class WorkerExited(GoalEvent, frozen=True):
    """The worker ended."""

    epoch: int
    reason: str
    code: int | None = None
    crash: bool = False  # it died, which counts for the restart intensity
    active_s: float = 0.0
    probe: bool = False  # it ended while its goal was still waiting
    messages: int = 0  # those of its agent since its last turn


class Planned(GoalEvent, frozen=True):
    """The agent made a plan; `replan` is the level that it replaces, None for the first plan."""

    tasks: tuple[PlannedTask, ...]
    replan: Literal["task", "goal"] | None = None
    # the numbers of the pending subtasks that a replan replaces (`State.replaceable`), None: all
    covers: tuple[int, ...] | None = None


class TreeEdited(GoalEvent, frozen=True):
    """The library's user changed the tree in place; `goal` is all of it, as a JSON object."""

    goal: dict[str, Any]
    task_idx: int = 0
    subtask_idx: int = 0
    probes: dict[str, bool] = Field(default_factory=dict)
    loop_counts: dict[str, int] | None = None
    blocked_actions: tuple[str, ...] | None = None
    replan: bool = False  # the edit is a new way in place of what was blocked
    given_up: tuple[str, ...] = ()  # a line for each subtask that was
    covered: tuple[str, ...] = ()  # descriptions of pending ones that are no longer in the tree


class SubtaskStarted(GoalEvent, frozen=True):
    """Work on a subtask begins; `scope` states what the gate remembers there."""

    task_idx: int
    subtask_idx: int
    scope: Literal["new", "keep", "inherit"] = "new"
    idle: bool = False  # nothing was carried out in the one before: its debt goes on


class SubtaskFailed(GoalEvent, frozen=True):
    """An attempt at the current subtask failed; the subtask stays in progress."""

    failure: str = ""
    cause: Literal["agent", "ignored_interventions"] = "agent"


class SubtaskEnded(GoalEvent, frozen=True):
    """The current subtask ended."""

    status: Literal["completed", "skipped", "failed"]
    summary: str = ""


class TaskCompleted(GoalEvent, frozen=True):
    """All subtasks of a task are done; this follows from other events, and is recorded for readers."""

    task_idx: int


class Escalated(GoalEvent, frozen=True):
    """The current subtask is blocked; `to` is the level that must find another way."""

    to: Level
    reason: str
    replan_failed_task: bool = False
    replan_failed_goal: bool = False


class AttemptEnded(GoalEvent, frozen=True):
    """An attempt at the current subtask is over; its worker is stopped, and the next one follows."""

    attempt: int
    reason: str
    advancing: bool = False  # only its turns were used up, and its work was not found wrong
    tried: tuple[str, ...] = ()  # a line for each attempt so far on what went wrong


class AttemptStarted(GoalEvent, frozen=True):
    """A fresh start at the current subtask: the worker after this event has a new conversation."""

    attempt: int
    reason: str  # why the attempt before it ended
    scope: Literal["new", "keep"] = "new"  # what the gate remembers
    rung: str = ""  # what is different about the agent, as people read it
    restored: int = 0  # files that were put back to where the subtask began
    kept: str = ""  # why the workspace stayed as it was, "" if it did not
    left: tuple[str, ...] = ()  # some files that were not restored: someone else has changed them


class CheckProposed(GoalEvent, frozen=True):
    """The agent suggested a check with its plan: a command that exits with 0 once the goal is reached."""

    name: str
    cmd: str


class CheckStarted(GoalEvent, frozen=True):
    """A suggested check is about to run; recorded first, so that it does not run again after a crash."""

    name: str


class CheckFinished(GoalEvent, frozen=True):
    """The daemon ran a check of the goal, or one that its agent suggested."""

    name: str
    passed: bool
    output: str = ""
    suggested: bool = False


class CheckedBefore(GoalEvent, frozen=True):
    """The daemon ran a check of the goal before its first action; one that passed then proves nothing."""

    name: str
    passed: bool
    exit_code: int | None = None
    duration_s: float = 0.0
    output: str = ""
    tests: tuple[int, int, int] | None = None  # passed, failed, skipped; null where it did not say


class FinishQuestioned(GoalEvent, frozen=True):
    """The agent called `finish` although action number `of` had failed; earlier versions asked it once."""

    of: int
    message: str


class FinishRefused(GoalEvent, frozen=True):
    """A `finish` was refused: these checks failed, or subtasks were still open."""

    failing: tuple[str, ...] = ()
    own_tools: bool = False  # the agent may have worked where clew cannot see it


class FeedbackGiven(GoalEvent, frozen=True):
    """A person corrected the agent."""

    text: str


class Unblocked(GoalEvent, frozen=True):
    """A person lifted the blocks and the counts of a signature."""

    signature: str


class Reported(GoalEvent, frozen=True):
    """The goal's report was written to the outbox."""


class StrategiesShown(GoalEvent, frozen=True):
    """The strategies, by id, that the agent of an epoch was shown in the answer to `hello`."""

    epoch: int
    ids: tuple[str, ...]


class Reviewed(GoalEvent, frozen=True):
    """What the rest of the goal at event `of` means for the playbook is stored with this event, in one transaction."""

    of: int


RESTS = (GoalEnded, GoalBlocked)
"""The events at which a goal rests: it ended, or only a person can continue it."""
