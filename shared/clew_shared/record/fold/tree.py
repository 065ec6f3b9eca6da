"""The fold of the tree of work: plans and replans, subtasks, failures, escalations."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from clew_shared.judge.memory import carry_debt
from clew_shared.record.fold.loops import settle
from clew_shared.record.fold.plans import NOWHERE, new_task, replan, set_aside
from clew_shared.record.model import Goal, StepStatus, Task
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

_goals: TypeAdapter[Goal] = TypeAdapter(Goal)


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
        state.planned = True
        state.goal.tasks = [new_task(t) for t in e.tasks]
        state.current_task_idx = state.current_subtask_idx = 0
        return
    state.inherited = deepcopy(state.scope)
    state.turn_at = NOWHERE
    replan(state, e)
    state.goal.note_progress()


def edited(state: State, e: ev.TreeEdited, _seq: int) -> None:
    reached, counted = state.goal.reached, state.goal.counted
    state.goal = _goals.validate_python(e.goal)
    state.goal.reached, state.goal.counted = reached, counted
    state.goal.note_progress()
    set_aside(state, e.given_up, e.covered)
    state.current_task_idx, state.current_subtask_idx = e.task_idx, e.subtask_idx
    state.last_probe_state, state.planned = dict(e.probes), True
    state.probes_seen = {name: state.probe_seen(name) for name in e.probes}
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
    owed = state.scope.memory
    if e.scope == "new":
        state.scope = Scope(worlds={state.world: 1} if state.world else {})
    elif e.scope == "inherit":
        state.scope = deepcopy(state.inherited) if state.inherited else state.scope
    before, state.attention = state.attention, Attention(steps=state.attention.steps)
    if e.idle:
        carry_debt(owed, state.scope.memory)
        state.attention.iterations_without_facts = before.iterations_without_facts
        state.attention.raised = {k: r for k, r in before.raised.items() if k == "no_progress"}
    state.blocked_proposals = state.ignored_interventions = 0
    state.attempt = AttemptState(seq=seq, from_iteration=state.iteration)
    state.refused = RefusedFinishes()


def subtask_failed(state: State, e: ev.SubtaskFailed, _seq: int) -> None:
    if state.subtask:
        state.subtask.attempts += 1
        state.subtask.last_failure = e.failure
    state.ignored_interventions = 0
    settle(state, "attempt_ended")
    state.attention.raised.clear()
    state.attempt.from_iteration = state.iteration
    state.refused = RefusedFinishes()


def subtask_ended(state: State, e: ev.SubtaskEnded, _seq: int) -> None:
    if state.subtask and state.task:
        state.subtask.status, state.subtask.summary = StepStatus(e.status), e.summary
        settle_task(state.task)
        state.goal.note_progress()
    settle(state, "attempt_ended" if e.status == "failed" else "heeded")


def escalated(state: State, e: ev.Escalated, _seq: int) -> None:
    task = state.task
    if state.subtask and task:
        state.subtask.status = StepStatus.BLOCKED
        state.subtask.last_failure = state.subtask.last_failure or e.reason
        if e.replan_failed_task:
            task.failed_replans += 1
        task.status = StepStatus.IN_PROGRESS if e.to == "task" else StepStatus.BLOCKED
        state.goal.note_progress()
    if e.replan_failed_goal:
        state.goal.failed_replans += 1
        state.goal.replanned = False
    state.replan_required = e.to
    settle(state, "attempt_ended")
    state.attention.raised.clear()
