"""What can happen to a goal as a whole: its life, its worker, and what people say.

While a worker is waited for, the status may change: what is recorded then must still make sense (`may_follow`).
"""

import re
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from clew_shared.record.identity import Identity
from clew_shared.record.model import Goal, GoalStatus, StepStatus, Subtask, Task
from clew_shared.record.plans import change_plan
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import FEEDBACK_KEPT, AttemptState, State

FOLLOW_UP = "Feedback"  # the task for the subtasks that people's feedback after an end has added


class Event(BaseModel, frozen=True, extra="ignore"):
    """What all events have; `kind` names the class in the ledger: `goal_accepted` is a GoalAccepted."""

    kind: ClassVar[str] = ""
    at: float = 0.0  # seconds since 1970 on the wall clock, for people to read

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def may_follow(self, state: State) -> bool:  # noqa: ARG002 - of most events, in any
        """Return whether the goal's status allows the event."""
        return True

    def into(self, state: State) -> None:
        """Take the event, number `state.seq`, into the state; nothing follows from one that is for readers only."""


class GoalEvent(Event, frozen=True):
    """An event of a goal: each subclass is one kind, which `codec` reads."""


class GoalAccepted(GoalEvent, frozen=True):
    """A goal file was accepted; its bytes are the output of this event, `identity` names the file."""

    goal_id: str
    spec: Spec
    tasks: tuple[PlannedTask, ...] = ()
    identity: tuple[str, ...] = ()

    def into(self, state: State) -> None:
        state.goal_id, state.spec, state.identity = self.goal_id, self.spec, self.identity
        state.accepted_seq, state.accepted_at = state.seq, self.at
        state.plan.planned = bool(self.tasks)
        tasks = self.tasks or (_implicit(self.spec),)
        state.goal = Goal(self.spec.description, list(map(Task.of, tasks)))
        state.goal.settle()


class GoalStarted(GoalEvent, frozen=True):
    """The goal left the queue."""

    def may_follow(self, state: State) -> bool:
        waits = state.goal.status == GoalStatus.WAITING and not state.paused
        return state.goal.status == GoalStatus.QUEUED or waits

    def into(self, state: State) -> None:
        state.goal.status = GoalStatus.IN_PROGRESS
        state.started_at = state.started_at or self.at
        state.reason, state.question, state.wait_until = "", "", None


class GoalWaiting(GoalEvent, frozen=True):
    """The goal waits: until a known time (seconds since 1970), or for a person if `until` is None."""

    reason: str
    until: float | None = None
    paused: bool = False

    def may_follow(self, state: State) -> bool:
        return not state.ended and state.goal.status != GoalStatus.BLOCKED

    def into(self, state: State) -> None:
        if state.goal.status != GoalStatus.WAITING or self.paused != state.paused:
            state.waiting_since = self.at
        state.goal.status = GoalStatus.WAITING
        state.reason, state.wait_until, state.paused = self.reason, self.until, self.paused
        state.wait_began = self.at


class GoalBlocked(GoalEvent, frozen=True):
    """The goal was escalated to a person, with the question to answer."""

    reason: str
    question: str = ""
    stranger: Identity | None = None  # what stands in the workspace's place: resuming accepts it
    gone: bool = False  # no folder was found there: resuming makes an empty one
    step: int = 0  # the run of a runbook's step that is asked about: continuing lets it run again

    def may_follow(self, state: State) -> bool:
        return not state.ended

    def into(self, state: State) -> None:
        state.rested_seq = state.seq
        state.goal.status = GoalStatus.BLOCKED
        state.reason, state.question, state.wait_until = self.reason, self.question, None
        state.paused, state.stranger, state.gone = False, self.stranger, self.gone
        state.attempts.asked_step = self.step


class GoalRequeued(GoalEvent, frozen=True):
    """The goal continues; `by` names who asked for it."""

    by: str = ""
    reopen: bool = False  # its blocked or failed subtask gets a fresh start
    lifts: bool = False  # … and its blocks after crashes end, too
    after: int = 0  # the number of the end that is reopened, 0 if the goal had not ended
    subtask: str = ""  # added to a completed goal, as the work to continue with
    make: bool = False  # an empty workspace may be made: a person was told that it is missing

    def may_follow(self, state: State) -> bool:
        if state.goal.status == GoalStatus.COMPLETED:
            work = state.next_pending() or (state.has_follow_up and self.subtask)
            return self.after == state.rested_seq and bool(work)
        rests = state.goal.status in (GoalStatus.WAITING, GoalStatus.BLOCKED)
        return rests or (state.ended and self.after == state.rested_seq)

    def into(self, state: State) -> None:
        if made := state.proofs.made:
            made.refused, made.asked = 0, False
        if self.reopen:
            _reopen(state, crashes=self.lifts)
        elif self.lifts:
            state.loops.reset(crashes=True)
        if self.subtask:
            _add_subtask(state, self.subtask)
        state.goal.status = GoalStatus.QUEUED
        state.waiting_since, state.verified = self.at, None
        state.reason, state.question, state.wait_until, state.paused = "", "", None, False
        state.may_make, state.removed = state.may_make or self.make, False
        state.stranger, state.gone = None, False


class GoalEnded(GoalEvent, frozen=True):
    """The goal ended."""

    status: Literal["completed", "failed", "cancelled"]
    reason: str = ""
    summary: str = ""
    verified: bool = False  # for the log: completed, and had checks, all of which passed
    proof: str = ""  # its label
    passed_before: tuple[str, ...] = ()  # the checks that had passed before any work

    def may_follow(self, state: State) -> bool:
        if self.status == "cancelled":
            return not state.ended
        made = state.proofs.made
        accepted = made is not None and made.accepted == "person"
        status = state.goal.status
        return status == GoalStatus.IN_PROGRESS or (status == GoalStatus.BLOCKED and accepted)

    def into(self, state: State) -> None:
        state.rested_seq, state.ended_at = state.seq, self.at
        status = state.goal.status = GoalStatus(self.status)
        state.reason, state.summary, state.question = self.reason, self.summary, ""
        state.wait_until, state.paused, state.stranger, state.gone = None, False, None, False
        current = state.subtask
        state.verified = status is GoalStatus.COMPLETED and state.checked
        if status is GoalStatus.COMPLETED:
            state.snapshots.undone = {}  # what was undone before is done again
            for subtask in (s for task in state.goal.tasks for s in task.subtasks if not s.done):
                is_current = subtask is current
                subtask.status = StepStatus.COMPLETED if is_current else StepStatus.SKIPPED
            state.goal.settle()
        elif status is GoalStatus.FAILED and state.task and current:
            if current.open:
                current.status = StepStatus.FAILED
            state.task.settle()


class GoalEdited(GoalEvent, frozen=True):
    """A person changed what the goal asks for; the new goal file is the output of this event."""

    spec: Spec
    tasks: tuple[PlannedTask, ...] | None = None  # they replace what is not done; None: unchanged
    changed: tuple[str, ...] = ()  # what was, as people read it

    def may_follow(self, state: State) -> bool:
        return state.goal.status not in (GoalStatus.IN_PROGRESS, GoalStatus.COMPLETED)

    def into(self, state: State) -> None:
        """Take in what changed; what was done stays, and so does what is known of checks that are the same."""
        before, state.spec, state.edited_seq = state.spec, self.spec, state.seq
        proofs = state.proofs
        for name, cmd in before.checks.items():
            if self.spec.checks.get(name) != cmd:
                for known in (proofs.checks, proofs.before, state.probes):
                    known.pop(name, None)
        state.goal.description = self.spec.description
        for task in state.goal.tasks:  # without a plan the goal's text is its only subtask
            named: list[Task | Subtask] = [task, *task.subtasks]
            for one in named:
                if one.description == before.description:
                    one.description = self.spec.description
        if self.tasks is not None:
            state.plan.planned = bool(self.tasks)
            change_plan(state, self.tasks or (_implicit(self.spec),))
            state.goal.settle()


class GoalRemoved(GoalEvent, frozen=True):
    """A person took the ended goal out of the lists; all of it stays on record."""

    def may_follow(self, state: State) -> bool:
        return state.ended

    def into(self, state: State) -> None:
        state.removed = True


class WorkspaceKnown(GoalEvent, frozen=True):
    """The folder that is the goal's workspace from now on."""

    identity: Identity
    by: Literal["start", "made", "person"] = "start"  # found, made by the daemon, or accepted

    def into(self, state: State) -> None:
        state.workspace, state.may_make = self.identity, False


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

    def into(self, state: State) -> None:
        state.epoch, state.pid, state.pid_created = self.epoch, self.pid, self.created
        state.working, state.worker_since, state.may_make = True, self.at, False
        state.attempts.turn_at, state.attempts.turns_needed = state.place, self.turns_needed
        state.guidance.there = self.there or state.guidance.there


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

    def into(self, state: State) -> None:
        state.working, state.pid = False, None
        state.restarts += self.crash
        state.cost.active_s += self.active_s
        state.attempts.messages += self.messages


class FeedbackGiven(GoalEvent, frozen=True):
    """A person corrected the agent."""

    text: str

    def into(self, state: State) -> None:
        """Reset the streaks and lift the blocks of the subtask except `crash` (docs/loops.md, Blocks)."""
        told = state.guidance
        told.feedback_seq = state.seq
        for texts in (told.feedback, told.feedback_untold):
            texts.append(self.text)
            del texts[:-FEEDBACK_KEPT]
        state.loops.reset()


class Unblocked(GoalEvent, frozen=True):
    """A person lifted the blocks and the counts of a signature."""

    signature: str

    def into(self, state: State) -> None:
        for scope in filter(None, (state.loops.scope, state.loops.inherited)):
            for counts in (scope.blocks, scope.tallies, scope.crashes, scope.loop_counts):
                counts.pop(self.signature, None)
            scope.steps = [s for s in scope.steps if s.signature != self.signature]
        if not state.loops.scope.blocks:
            state.loops.blocked_proposals = 0  # they were made at what is no longer blocked


class Reported(GoalEvent, frozen=True):
    """The goal's report was written to the outbox."""

    def into(self, state: State) -> None:
        state.reported_seq = state.seq


class StrategiesShown(GoalEvent, frozen=True):
    """The strategies, by id, that the agent of an epoch was shown in the answer to `hello`."""

    epoch: int
    ids: tuple[str, ...]

    def into(self, state: State) -> None:
        state.guidance.strategies = self.ids


class Reviewed(GoalEvent, frozen=True):
    """What the rest of the goal at event `of` means for the playbook is stored with this event, in one transaction."""

    of: int

    def into(self, state: State) -> None:
        state.reviewed_seq = self.of


RESTS = (GoalEnded, GoalBlocked)  # at these a goal rests: only a person can continue it, if anyone


def _implicit(spec: Spec) -> PlannedTask:
    subtasks = (PlannedSubtask(description=spec.description),)
    return PlannedTask(description=spec.description, subtasks=subtasks)


def _reopen(state: State, *, crashes: bool) -> None:
    """Reset what was used up: attempts, failed replans, streaks, the budgets, and deaths of the worker (`crashes`)."""
    state.plan.replan_required = ""
    state.goal.failed_replans, state.goal.replanned = 0, False
    state.loops.reset(crashes=crashes)
    used = state.attempts
    used.may_rerun, used.asked_step = used.asked_step or used.may_rerun, 0
    used.messages = 0
    used.iterations_granted, used.actions_granted = state.iteration, state.actions_total
    used.tokens_granted, used.active_granted_s = state.cost.tokens, state.cost.active_s
    for task in state.goal.tasks:
        task.failed_replans, task.replanned = 0, False
        for subtask in task.subtasks:
            if subtask.status in (StepStatus.BLOCKED, StepStatus.FAILED):
                subtask.status, subtask.attempts = StepStatus.PENDING, 0
        task.settle()
    if state.subtask and state.subtask.status == StepStatus.PENDING and state.task:
        state.subtask.status = state.task.status = StepStatus.IN_PROGRESS
    seq, from_actions = state.attempt.seq, state.attempt.from_actions
    state.attempt = AttemptState(seq=seq, from_iteration=state.iteration, from_actions=from_actions)


def _add_subtask(state: State, description: str) -> None:
    """Add what a person asked for after the end to the task for all such subtasks."""
    tasks = state.goal.tasks
    if not tasks or tasks[-1].description != FOLLOW_UP:
        tasks.append(Task(FOLLOW_UP))
    tasks[-1].subtasks.append(Subtask(description))
    state.plan.planned = True  # a first plan would replace it
    tasks[-1].settle()
