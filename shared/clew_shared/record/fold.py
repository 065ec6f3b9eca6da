"""State is a fold of the ledger: `apply` takes one event into a state, and nothing else ever changes one.

Pure and without rules: what was decided stands in the events, here is only what follows from it. It sees no
clock, no settings and no process, so that a replay gives the same state on any machine, at any time.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from clew_shared.record import events as ev
from clew_shared.record import fold_actions as deeds
from clew_shared.record.model import Goal, GoalStatus, StepStatus, Subtask, Task
from clew_shared.record.progress import both_ends
from clew_shared.record.spec import PlannedSubtask, PlannedTask
from clew_shared.record.state import (
    CHECK_CHARS,
    EVERYWHERE,
    Attention,
    Check,
    Scope,
    State,
    Suggested,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

FEEDBACK_KEPT = 50
FOLLOW_UP = "Feedback"
"""The task of the subtasks that people's feedback after an end has added."""

SET_ASIDE_KEPT = 200
NOWHERE = (-1, -1)

_goals: TypeAdapter[Goal] = TypeAdapter(Goal)


def fold(rows: Iterable[tuple[int, ev.Event]], state: State | None = None) -> State:
    """Fold recorded events, oldest first, into a state."""
    state = state or State()
    for seq, event in rows:
        apply(state, event, seq)
    return state


def apply(state: State, event: ev.Event, seq: int) -> State:
    """Take one event into the state, in place, and give the state back."""
    _APPLY[event.kind](state, event, seq)
    state.seq = seq
    state.updated_at = max(state.updated_at, event.at)
    return state


# -- the goal ------------------------------------------------------------------------------------------


def _goal_accepted(state: State, e: ev.GoalAccepted, seq: int) -> None:
    state.goal_id, state.spec, state.identity = e.goal_id, e.spec, e.identity
    state.accepted_seq, state.accepted_at = seq, e.at
    state.planned = bool(e.tasks)
    implicit = PlannedTask(
        description=e.spec.description,
        subtasks=(PlannedSubtask(description=e.spec.description),),
    )
    state.goal = Goal(e.spec.description, [_task(t) for t in e.tasks or (implicit,)])
    for task in state.goal.tasks:
        _settle_task(task)


def _goal_started(state: State, e: ev.GoalStarted, _seq: int) -> None:
    state.goal.status = GoalStatus.IN_PROGRESS
    state.started_at = state.started_at or e.at
    state.reason, state.question, state.wait_until = "", "", None


def _goal_waiting(state: State, e: ev.GoalWaiting, _seq: int) -> None:
    if state.goal.status != GoalStatus.WAITING or e.paused != state.paused:
        state.waiting_since = e.at
    state.goal.status = GoalStatus.WAITING
    state.reason, state.wait_until, state.paused = e.reason, e.until, e.paused


def _goal_blocked(state: State, e: ev.GoalBlocked, seq: int) -> None:
    state.rested_seq = seq
    state.goal.status = GoalStatus.BLOCKED
    state.reason, state.question, state.wait_until = e.reason, e.question, None
    state.paused = False
    state.stranger, state.gone = e.stranger, e.gone


def _goal_requeued(state: State, e: ev.GoalRequeued, _seq: int) -> None:
    if e.reopen:
        _reopen(state)
        _suggestions_anew(state)
    if e.subtask:
        _add_subtask(state, e.subtask)
    state.goal.status = GoalStatus.QUEUED
    state.waiting_since, state.verified = e.at, None
    state.reason, state.question, state.wait_until, state.paused = "", "", None, False
    state.may_make = state.may_make or e.make
    state.stranger, state.gone = None, False


def _reopen(state: State) -> None:
    """Give what a person let go on a fresh start: attempts, replans, streaks and budgets count anew."""
    state.replan_required = ""
    state.goal.failed_replans, state.goal.replanned = 0, False
    _count_anew(state)
    state.iterations_granted, state.actions_granted = state.iteration, state.actions_total
    state.tokens_granted, state.active_granted_s = state.cost.tokens, state.cost.active_s
    for task in state.goal.tasks:
        task.failed_replans, task.replanned = 0, False
        for subtask in task.subtasks:
            if subtask.status in (StepStatus.BLOCKED, StepStatus.FAILED):
                subtask.status, subtask.attempts = StepStatus.PENDING, 0
        _settle_task(task)
    if state.subtask and state.subtask.status == StepStatus.PENDING and state.task:
        state.subtask.status = state.task.status = StepStatus.IN_PROGRESS


def _add_subtask(state: State, description: str) -> None:
    """Add what a person asked for after the end, in a task of its own for all such subtasks."""
    tasks = state.goal.tasks
    if not tasks or tasks[-1].description != FOLLOW_UP:
        tasks.append(Task(FOLLOW_UP))
    tasks[-1].subtasks.append(Subtask(description))
    state.planned = True  # a first plan would replace it
    _settle_task(tasks[-1])


def _goal_ended(state: State, e: ev.GoalEnded, seq: int) -> None:
    state.rested_seq = seq
    status = state.goal.status = GoalStatus(e.status)
    state.ended_at = e.at
    state.reason, state.summary, state.question, state.wait_until = e.reason, e.summary, "", None
    state.paused, state.stranger, state.gone = False, None, False
    current = state.subtask
    state.verified = status is GoalStatus.COMPLETED and state.checked
    if status is GoalStatus.COMPLETED:
        for task in state.goal.tasks:
            for subtask in task.subtasks:
                if not StepStatus(subtask.status).done:
                    done = subtask is current
                    subtask.status = StepStatus.COMPLETED if done else StepStatus.SKIPPED
            _settle_task(task)
    elif status is GoalStatus.FAILED and state.task and current:
        if StepStatus(current.status).open:
            current.status = StepStatus.FAILED
        _settle_task(state.task)


def _workspace_known(state: State, e: ev.WorkspaceKnown, _seq: int) -> None:
    state.workspace, state.may_make = e.identity, False


# -- the worker ----------------------------------------------------------------------------------------


def _worker_started(state: State, e: ev.WorkerStarted, _seq: int) -> None:
    state.epoch, state.pid, state.pid_created = e.epoch, e.pid, e.created
    state.working, state.worker_since, state.may_make = True, e.at, False
    state.turn_at = (state.current_task_idx, state.current_subtask_idx)


def _worker_ready(state: State, e: ev.WorkerReady, _seq: int) -> None:
    del state, e


def _worker_exited(state: State, e: ev.WorkerExited, _seq: int) -> None:
    state.working, state.pid = False, None
    state.restarts += e.crash
    state.cost.active_s += e.active_s


# -- the tree ------------------------------------------------------------------------------------------


def _subtask(planned: PlannedSubtask) -> Subtask:
    steps = [{"tool": s.tool, "args": s.args} for s in planned.steps]
    status = StepStatus.COMPLETED if planned.done else StepStatus.PENDING
    return Subtask(planned.description, status, steps=steps)


def _task(planned: PlannedTask) -> Task:
    return Task(planned.description, [_subtask(s) for s in planned.subtasks])


def _settle_task(task: Task) -> None:
    """Derive a task's status from its subtasks."""
    statuses = {StepStatus(s.status) for s in task.subtasks}
    if task.subtasks and all(s.done for s in statuses):
        task.status = StepStatus.COMPLETED
    elif StepStatus.BLOCKED in statuses:
        task.status = StepStatus.BLOCKED
    elif StepStatus.IN_PROGRESS in statuses:
        task.status = StepStatus.IN_PROGRESS
    elif StepStatus.FAILED in statuses:
        task.status = StepStatus.FAILED
    elif any(s.done for s in statuses):
        task.status = StepStatus.IN_PROGRESS
    elif statuses == {StepStatus.PENDING}:
        task.status = StepStatus.PENDING


def _planned(state: State, e: ev.Planned, _seq: int) -> None:
    state.replan_required = ""
    if e.replan is None:
        state.goal.tasks = [_task(t) for t in e.tasks]
        state.current_task_idx = state.current_subtask_idx = 0
        return
    state.inherited = deepcopy(state.scope)
    state.turn_at = NOWHERE
    if e.replan == "task" and state.task:
        _replan_task(state, e.tasks[0])
    else:
        _replan_goal(state, e.tasks)


def _replan_task(state: State, planned: PlannedTask) -> None:
    task = state.goal.tasks[state.current_task_idx]
    kept = [s for s in task.subtasks if StepStatus(s.status).done]
    _put_aside(state, [s for s in task.subtasks if not StepStatus(s.status).done])
    new = [_subtask(s) for s in planned.subtasks]
    for subtask in new:
        subtask.inherits = True
    task.description, task.subtasks = planned.description or task.description, kept + new
    task.status, task.replanned = StepStatus.IN_PROGRESS, True
    state.current_subtask_idx = len(kept)


def _replan_goal(state: State, planned: tuple[PlannedTask, ...]) -> None:
    kept: list[Task] = []
    for task in state.goal.tasks:
        done = [s for s in task.subtasks if StepStatus(s.status).done]
        _put_aside(state, [s for s in task.subtasks if not StepStatus(s.status).done])
        if done:
            task.subtasks, task.status = done, StepStatus.COMPLETED
            kept.append(task)
    new = [_task(t) for t in planned]
    for task in new:
        for subtask in task.subtasks:
            subtask.inherits = True
    state.goal.tasks, state.goal.replanned = kept + new, True
    state.current_task_idx, state.current_subtask_idx = len(kept), 0


def _put_aside(state: State, subtasks: list[Subtask]) -> None:
    for subtask in subtasks:
        failure = f": {subtask.last_failure}" if subtask.last_failure else ""
        state.set_aside.append(f"{subtask.description} ({subtask.status}{failure})")
    del state.set_aside[:-SET_ASIDE_KEPT]


def _tree_edited(state: State, e: ev.TreeEdited, _seq: int) -> None:
    state.goal = _goals.validate_python(e.goal)
    state.current_task_idx, state.current_subtask_idx = e.task_idx, e.subtask_idx
    state.last_probe_state, state.planned = dict(e.probes), True
    if e.replan:
        state.replan_required, state.inherited = "", deepcopy(state.scope)
    if e.loop_counts is not None:
        state.scope.loop_counts = dict(e.loop_counts)
    if e.blocked_actions is not None:
        old = state.scope.blocks
        state.scope.blocks = {s: old.get(s, {EVERYWHERE: "person"}) for s in e.blocked_actions}


def _subtask_started(state: State, e: ev.SubtaskStarted, seq: int) -> None:
    state.subtask_seq = seq
    state.current_task_idx, state.current_subtask_idx = e.task_idx, e.subtask_idx
    task, subtask = state.task, state.subtask
    if task and subtask:
        task.status = subtask.status = StepStatus.IN_PROGRESS
    if e.scope == "new":
        state.scope = _new_scope(state.world)
    elif e.scope == "inherit":
        state.scope = deepcopy(state.inherited) if state.inherited else state.scope
    state.attention = Attention(steps=state.attention.steps)
    state.blocked_proposals = state.ignored_interventions = 0


def _new_scope(world: str) -> Scope:
    return Scope(worlds={world: 1} if world else {})


def _subtask_failed(state: State, e: ev.SubtaskFailed, _seq: int) -> None:
    if state.subtask:
        state.subtask.attempts += 1
        state.subtask.last_failure = e.failure
    state.ignored_interventions = 0
    state.attention.raised.clear()


def _subtask_ended(state: State, e: ev.SubtaskEnded, _seq: int) -> None:
    if state.subtask and state.task:
        state.subtask.status, state.subtask.summary = StepStatus(e.status), e.summary
        _settle_task(state.task)


def _task_completed(state: State, e: ev.TaskCompleted, _seq: int) -> None:
    del state, e


def _escalated(state: State, e: ev.Escalated, _seq: int) -> None:
    task = state.task
    if state.subtask and task:
        state.subtask.status = StepStatus.BLOCKED
        state.subtask.last_failure = state.subtask.last_failure or e.reason
        if e.replan_failed_task:
            task.failed_replans += 1
        if e.to != "task":
            task.status = StepStatus.BLOCKED
    if e.replan_failed_goal:
        state.goal.failed_replans += 1
        state.goal.replanned = False
    state.replan_required = e.to
    state.attention.raised.clear()


# -- people --------------------------------------------------------------------------------------------


def _probes_seen(state: State, e: ev.ProbesSeen, _seq: int) -> None:
    state.last_probe_state.update(e.probes)


def _check_proposed(state: State, e: ev.CheckProposed, _seq: int) -> None:
    state.suggested[e.name] = Suggested(e.cmd)


def _check_started(state: State, e: ev.CheckStarted, _seq: int) -> None:
    if found := state.suggested.get(e.name):
        found.started = True


def _suggestions_anew(state: State) -> None:
    """Let suggested checks run again: the agent goes on with the work."""
    for one in state.suggested.values():
        one.started, one.result = False, None


def _finish_questioned(state: State, e: ev.FinishQuestioned, _seq: int) -> None:
    state.questioned = e.of


def _check_finished(state: State, e: ev.CheckFinished, _seq: int) -> None:
    if e.suggested:
        if found := state.suggested.get(e.name):
            found.result = Check(e.passed, both_ends(e.output, CHECK_CHARS))
        return
    before = state.checks.get(e.name)
    if before is None or before.passed != e.passed:
        state.attention.fresh = True
    state.checks[e.name] = Check(e.passed, both_ends(e.output, CHECK_CHARS))
    state.last_probe_state[e.name] = e.passed


def _feedback_given(state: State, e: ev.FeedbackGiven, seq: int) -> None:
    """Start the streaks anew and lift the subtask's blocks but for `crash` (contract, section 8)."""
    state.feedback_seq = seq
    for texts in (state.feedback, state.feedback_untold):
        texts.append(e.text)
        del texts[:-FEEDBACK_KEPT]
    _count_anew(state)
    if not state.ended:
        _suggestions_anew(state)


def _count_anew(state: State) -> None:
    """Forget counts, streaks and blocks; what is known of worlds stays, and so do the deaths."""
    state.scope = _anew(state.scope)
    state.inherited = _anew(state.inherited) if state.inherited else None
    state.attention = Attention(steps=state.attention.steps)
    state.blocked_proposals = state.ignored_interventions = 0


def _anew(old: Scope) -> Scope:
    blocks = {
        s: {EVERYWHERE: "crash"} for s, b in old.blocks.items() if b.get(EVERYWHERE) == "crash"
    }
    return Scope(
        worlds=old.worlds,
        outcomes=old.outcomes,
        writers=old.writers,
        crashes=old.crashes,
        blocks=blocks,
    )


def _unblocked(state: State, e: ev.Unblocked, _seq: int) -> None:
    scopes = [state.scope, *([state.inherited] if state.inherited else [])]
    for scope in scopes:
        for counts in (scope.blocks, scope.tallies, scope.crashes, scope.loop_counts):
            counts.pop(e.signature, None)
        scope.steps = [s for s in scope.steps if s.signature != e.signature]
    if not state.scope.blocks:
        state.blocked_proposals = 0  # they were made at what is no longer blocked


def _reported(state: State, e: ev.Reported, seq: int) -> None:
    del e
    state.reported_seq = seq


def _strategies_shown(state: State, e: ev.StrategiesShown, _seq: int) -> None:
    state.strategies = e.ids


def _reviewed(state: State, e: ev.Reviewed, _seq: int) -> None:
    state.reviewed_seq = e.of


_APPLY: dict[str, Any] = {
    "goal_accepted": _goal_accepted,
    "goal_started": _goal_started,
    "goal_waiting": _goal_waiting,
    "goal_blocked": _goal_blocked,
    "goal_requeued": _goal_requeued,
    "goal_ended": _goal_ended,
    "workspace_known": _workspace_known,
    "worker_started": _worker_started,
    "worker_ready": _worker_ready,
    "worker_exited": _worker_exited,
    "planned": _planned,
    "tree_edited": _tree_edited,
    "subtask_started": _subtask_started,
    "subtask_failed": _subtask_failed,
    "subtask_ended": _subtask_ended,
    "task_completed": _task_completed,
    "escalated": _escalated,
    "action_allowed": deeds.action_allowed,
    "action_blocked": deeds.action_blocked,
    "action_finished": deeds.action_finished,
    "action_interrupted": deeds.action_interrupted,
    "world_seen": deeds.world_seen,
    "loop_detected": deeds.loop_detected,
    "intervened": deeds.intervened,
    "thought": deeds.thought,
    "reflected": deeds.reflected,
    "probes_seen": _probes_seen,
    "check_proposed": _check_proposed,
    "check_started": _check_started,
    "check_finished": _check_finished,
    "finish_questioned": _finish_questioned,
    "feedback_given": _feedback_given,
    "unblocked": _unblocked,
    "reported": _reported,
    "strategies_shown": _strategies_shown,
    "reviewed": _reviewed,
}
"""Which function takes in which event; a test holds it to be total."""
