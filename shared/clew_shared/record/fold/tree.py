"""The fold of the tree of work: plans and replans, subtasks, failures, escalations."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from clew_shared.record.model import Goal, StepStatus, Subtask, Task
from clew_shared.record.state import (
    EVERYWHERE,
    AttemptState,
    Attention,
    RefusedFinishes,
    Scope,
    State,
)

if TYPE_CHECKING:
    from clew_shared.record import events as ev
    from clew_shared.record.spec import PlannedSubtask, PlannedTask

SET_ASIDE_KEPT = 200
NOWHERE = (-1, -1)

_goals: TypeAdapter[Goal] = TypeAdapter(Goal)


def new_task(planned: PlannedTask) -> Task:
    """Return a planned task as a task of the tree."""
    return Task(planned.description, [_new_subtask(s) for s in planned.subtasks])


def _new_subtask(planned: PlannedSubtask) -> Subtask:
    steps = [{"tool": s.tool, "args": s.args} for s in planned.steps]
    status = StepStatus.COMPLETED if planned.done else StepStatus.PENDING
    return Subtask(planned.description, status, steps=steps)


def settle_task(task: Task) -> None:
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


def planned(state: State, e: ev.Planned, _seq: int) -> None:
    state.replan_required = ""
    if e.replan is None:
        state.goal.tasks = [new_task(t) for t in e.tasks]
        state.current_task_idx = state.current_subtask_idx = 0
        return
    state.inherited = deepcopy(state.scope)
    state.turn_at = NOWHERE
    if e.replan == "task" and state.task:
        _replan_task(state, e.tasks[0])
    else:
        _replan_goal(state, e.tasks)


def _replan_task(state: State, planned: PlannedTask) -> None:
    """Replace what is left of the current task."""
    task = state.goal.tasks[state.current_task_idx]
    done = _set_aside_the_rest(state, task)
    new = _inheriting(new_task(planned)).subtasks
    task.description, task.subtasks = planned.description or task.description, done + new
    task.status, task.replanned = StepStatus.IN_PROGRESS, True
    state.current_subtask_idx = len(done)


def _replan_goal(state: State, planned: tuple[PlannedTask, ...]) -> None:
    """Replace what is left of all tasks."""
    remaining: list[Task] = []
    for task in state.goal.tasks:
        if done := _set_aside_the_rest(state, task):
            task.subtasks, task.status = done, StepStatus.COMPLETED
            remaining.append(task)
    new = [_inheriting(new_task(t)) for t in planned]
    state.goal.tasks, state.goal.replanned = remaining + new, True
    state.current_task_idx, state.current_subtask_idx = len(remaining), 0


def _inheriting(task: Task) -> Task:
    """Let a task's subtasks inherit the scope of the subtask that was blocked."""
    for subtask in task.subtasks:
        subtask.inherits = True
    return task


def _set_aside_the_rest(state: State, task: Task) -> list[Subtask]:
    """Return a task's subtasks that are done; the others are set aside, each as one line."""
    done = [s for s in task.subtasks if StepStatus(s.status).done]
    for subtask in task.subtasks:
        if not StepStatus(subtask.status).done:
            failure = f": {subtask.last_failure}" if subtask.last_failure else ""
            state.set_aside.append(f"{subtask.description} ({subtask.status}{failure})")
    del state.set_aside[:-SET_ASIDE_KEPT]
    return done


def edited(state: State, e: ev.TreeEdited, _seq: int) -> None:
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


def subtask_started(state: State, e: ev.SubtaskStarted, seq: int) -> None:
    state.subtask_seq = seq
    state.current_task_idx, state.current_subtask_idx = e.task_idx, e.subtask_idx
    task, subtask = state.task, state.subtask
    if task and subtask:
        task.status = subtask.status = StepStatus.IN_PROGRESS
    if e.scope == "new":
        state.scope = Scope(worlds={state.world: 1} if state.world else {})
    elif e.scope == "inherit":
        state.scope = deepcopy(state.inherited) if state.inherited else state.scope
    state.attention = Attention(steps=state.attention.steps)
    state.blocked_proposals = state.ignored_interventions = 0
    state.attempt = AttemptState(seq=seq, from_iteration=state.iteration)
    state.refused = RefusedFinishes()


def subtask_failed(state: State, e: ev.SubtaskFailed, _seq: int) -> None:
    if state.subtask:
        state.subtask.attempts += 1
        state.subtask.last_failure = e.failure
    state.ignored_interventions = 0
    state.attention.raised.clear()
    state.attempt.from_iteration = state.iteration
    state.refused = RefusedFinishes()


def subtask_ended(state: State, e: ev.SubtaskEnded, _seq: int) -> None:
    if state.subtask and state.task:
        state.subtask.status, state.subtask.summary = StepStatus(e.status), e.summary
        settle_task(state.task)


def escalated(state: State, e: ev.Escalated, _seq: int) -> None:
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
