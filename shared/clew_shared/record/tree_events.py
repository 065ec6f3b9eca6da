"""What can happen to the tree of work: plans and replans, subtasks, failures, escalations, and attempts."""

from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from clew_shared.judge.memory import carry_debt
from clew_shared.record.life_events import GoalEvent
from clew_shared.record.model import Goal, Level, StepStatus, Task
from clew_shared.record.plans import NOWHERE, replan
from clew_shared.record.scope import EVERYWHERE, UNKNOWN, RefusedFinishes, Scope
from clew_shared.record.spec import PlannedTask
from clew_shared.record.state import FRESH_STARTS_KEPT, AttemptState, State, taken

_goals: TypeAdapter[Goal] = TypeAdapter(Goal)


class Planned(GoalEvent, frozen=True):
    """The agent made a plan; `replan` is the level that it replaces, None for the first plan."""

    tasks: tuple[PlannedTask, ...]
    replan: Literal["task", "goal"] | None = None
    # the numbers of the pending subtasks that a replan replaces (`State.replaceable`), None: all
    covers: tuple[int, ...] | None = None

    def into(self, state: State) -> None:
        state.plan.replan_required = ""
        if self.replan is None:
            state.plan.planned = True
            state.goal.tasks = list(map(Task.of, self.tasks))
            state.current_task_idx = state.current_subtask_idx = 0
            return
        state.loops.inherited = deepcopy(state.loops.scope)
        state.attempts.turn_at = NOWHERE
        replan(state, self.replan, self.tasks, self.covers)


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

    def into(self, state: State) -> None:
        scope = state.loops.scope
        state.goal = _goals.validate_python(self.goal)
        state.plan.give_up(self.given_up, self.covered)
        state.current_task_idx, state.current_subtask_idx = self.task_idx, self.subtask_idx
        state.plan.planned, known = True, state.probes
        state.probes = {name: known[name] for name in self.probes if name in known}
        for name, passed in self.probes.items():
            if name not in known or known[name].passed != passed:
                state.see_probe(name, passed)
        if self.replan:
            state.plan.replan_required, state.loops.inherited = "", deepcopy(scope)
        if self.loop_counts is not None:
            scope.loop_counts = dict(self.loop_counts)
        if self.blocked_actions is not None:
            blocks = scope.blocks
            names = self.blocked_actions
            scope.blocks = {name: blocks.get(name) or {EVERYWHERE: "person"} for name in names}


class SubtaskStarted(GoalEvent, frozen=True):
    """Work on a subtask begins; `scope` states what the gate remembers there."""

    task_idx: int
    subtask_idx: int
    scope: Literal["new", "keep", "inherit"] = "new"
    idle: bool = False  # nothing was carried out in the one before: its debt goes on

    def into(self, state: State) -> None:
        state.plan.subtask_seq = state.seq
        state.current_task_idx, state.current_subtask_idx = self.task_idx, self.subtask_idx
        state.guidance.there = () if state.actions_total else state.guidance.there
        if state.task and state.subtask:
            state.task.status = state.subtask.status = StepStatus.IN_PROGRESS
        loops = state.loops
        scope, owed, before = loops.scope, loops.scope.memory, loops.attention
        if self.scope == "new":
            scope = Scope(worlds={loops.world: 1} if loops.world else {})
        elif self.scope == "inherit" and loops.inherited:
            scope = deepcopy(loops.inherited)
        loops.begin(scope)
        if self.idle:
            carry_debt(owed, scope.memory)
            loops.attention.iterations_without_facts = before.iterations_without_facts
            loops.attention.raised = {k: r for k, r in before.raised.items() if k == "no_progress"}
        state.attempt = AttemptState(seq=state.seq, from_iteration=state.iteration)


class SubtaskFailed(GoalEvent, frozen=True):
    """An attempt at the current subtask failed; the subtask stays in progress."""

    failure: str = ""
    cause: Literal["agent", "ignored_interventions"] = "agent"

    def into(self, state: State) -> None:
        if state.subtask:
            state.subtask.attempts += 1
            state.subtask.last_failure = self.failure
        state.loops.ignored_interventions = 0
        state.loops.attention.raised.clear()
        state.attempt.from_iteration = state.iteration
        state.loops.refused = RefusedFinishes()


class SubtaskEnded(GoalEvent, frozen=True):
    """The current subtask ended."""

    status: Literal["completed", "skipped", "failed"]
    summary: str = ""

    def into(self, state: State) -> None:
        if state.subtask and state.task:
            state.subtask.status, state.subtask.summary = StepStatus(self.status), self.summary
            state.task.settle()


class TaskCompleted(GoalEvent, frozen=True):
    """All subtasks of a task are done; this follows from other events, and is recorded for readers."""

    task_idx: int


class Escalated(GoalEvent, frozen=True):
    """The current subtask is blocked; `to` is the level that must find another way."""

    to: Level
    reason: str
    replan_failed_task: bool = False
    replan_failed_goal: bool = False

    def into(self, state: State) -> None:
        task, subtask = state.task, state.subtask
        if subtask and task:
            subtask.status = StepStatus.BLOCKED
            subtask.last_failure = subtask.last_failure or self.reason
            task.failed_replans += self.replan_failed_task
            task.status = StepStatus.IN_PROGRESS if self.to == "task" else StepStatus.BLOCKED
        if self.replan_failed_goal:
            state.goal.failed_replans += 1
            state.goal.replanned = False
        state.plan.replan_required = self.to
        state.loops.attention.raised.clear()


class AttemptEnded(GoalEvent, frozen=True):
    """An attempt at the current subtask is over; its worker is stopped, and the next one follows."""

    attempt: int
    reason: str
    advancing: bool = False  # only its turns were used up, and its work was not found wrong
    tried: tuple[str, ...] = ()  # a line for each attempt so far on what went wrong

    def into(self, state: State) -> None:
        now = state.attempt
        now.over, now.advancing, now.tried = self.reason, self.advancing, self.tried


class AttemptStarted(GoalEvent, frozen=True):
    """A fresh start at the current subtask: the worker after this event has a new conversation."""

    attempt: int
    reason: str  # why the attempt before it ended
    scope: Literal["new", "keep"] = "new"  # what the gate remembers
    rung: str = ""  # what is different about the agent, as people read it
    restored: int = 0  # files that were put back to where the subtask began
    kept: str = ""  # why the workspace stayed as it was, "" if it did not
    left: tuple[str, ...] = ()  # some files that were not restored: someone else has changed them

    def into(self, state: State) -> None:
        loops, tried = state.loops, state.attempts
        state.guidance.there = ()
        if state.proofs.made:
            state.proofs.made.refused = 0
        begun = taken(AttemptState, self, number=self.attempt, seq=state.seq, place=state.place)
        begun.epoch, begun.from_iteration = state.epoch + 1, state.iteration
        begun.from_actions = state.subtask.actions_total if state.subtask else 0
        state.attempt = replace(begun, tried=state.attempt.tried)
        tried.total += 1
        tried.fresh_starts.append(begun)
        del tried.fresh_starts[:-FRESH_STARTS_KEPT]
        tried.turn_at = state.place
        new = self.scope == "new"
        loops.begin(
            loops.scope.afresh("" if self.restored else loops.world) if new else loops.scope
        )


class FinishQuestioned(GoalEvent, frozen=True):
    """The agent called `finish` although action number `of` had failed; earlier versions asked it once."""

    of: int
    message: str


class FinishRefused(GoalEvent, frozen=True):
    """A `finish` was refused: these checks failed, or subtasks were still open."""

    failing: tuple[str, ...] = ()
    own_tools: bool = False  # the agent may have worked where clew cannot see it
    resumes: bool = False  # the last subtask goes on

    def into(self, state: State) -> None:
        """Count refused finishes with the same files, or with no action in between that clew could see."""
        loops, before, world = state.loops, state.loops.refused, state.loops.world
        loops.claims += bool(self.failing)
        unseen = self.own_tools and world.startswith(UNKNOWN)
        same_files = before.world == world and not world.startswith(UNKNOWN)
        no_action = before.actions == state.actions_total and (unseen or not self.own_tools)
        same_checks = same_files and bool(self.failing) and before.failing == self.failing
        loops.refused = RefusedFinishes(
            world=world, actions=state.actions_total, failing=self.failing, unseen=unseen,
            count=before.count + 1 if same_files or no_action else 1,
            same_checks=before.same_checks + 1 if same_checks else 1,
        )  # fmt: skip
        if self.resumes:
            state.resume_last()
