"""The fold of the tree of work: plans and replans, subtasks, failures, escalations, and attempts.

A replan gives up what was tried and is not done. Work that is pending stays: where the plan continues it, in its
place in the plan; otherwise after the plan. Only what the plan covers is replaced (docs/loops.md, Escalation).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain

from pydantic import TypeAdapter

from clew_shared.judge.memory import carry_debt
from clew_shared.record import events as ev
from clew_shared.record.fold.loops import settle
from clew_shared.record.model import Goal, StepStatus, Subtask, Task
from clew_shared.record.scope import EVERYWHERE, Scope
from clew_shared.record.spec import PlannedSubtask, PlannedTask
from clew_shared.record.state import FRESH_STARTS_KEPT, AttemptState, RefusedFinishes, State, taken
from clew_shared.record.worlds import UNKNOWN

SET_ASIDE_KEPT = 200
NOWHERE = (-1, -1)
_goals: TypeAdapter[Goal] = TypeAdapter(Goal)


def settle_task(task: Task) -> None:
    """Derive a task's status from its subtasks."""
    statuses = {StepStatus(s.status) for s in task.subtasks}
    done = {s for s in statuses if s.done}
    telling = (StepStatus.BLOCKED, StepStatus.IN_PROGRESS, StepStatus.FAILED)
    if statuses:
        other = StepStatus.IN_PROGRESS if done else StepStatus.PENDING
        found = next((status for status in telling if status in statuses), other)
        task.status = StepStatus.COMPLETED if done == statuses else found


def planned(state: State, e: ev.Planned, _seq: int) -> None:
    state.plan.replan_required = ""
    if e.replan is None:
        state.plan.planned = True
        state.goal.tasks = [new_task(t) for t in e.tasks]
        state.current_task_idx = state.current_subtask_idx = 0
        return
    state.loops.inherited = deepcopy(state.loops.scope)
    state.attempts.turn_at = NOWHERE
    replan(state, e)
    state.goal.note_progress()


def tree_edited(state: State, e: ev.TreeEdited, _seq: int) -> None:
    reached, counted = state.goal.reached, state.goal.counted
    state.goal = _goals.validate_python(e.goal)
    state.goal.reached, state.goal.counted = reached, counted
    state.goal.note_progress()
    set_aside(state, e.given_up, e.covered)
    state.current_task_idx, state.current_subtask_idx = e.task_idx, e.subtask_idx
    state.last_probe_state, state.plan.planned = dict(e.probes), True
    state.proofs.probes_seen = {name: seen for name, (seen, _) in state.probes().items()}
    if e.replan:
        state.plan.replan_required, state.loops.inherited = "", deepcopy(state.loops.scope)
    if e.loop_counts is not None:
        state.loops.scope.loop_counts = dict(e.loop_counts)
    if e.blocked_actions is not None:
        scope = state.loops.scope
        person = {EVERYWHERE: "person"}
        scope.blocks = {s: scope.blocks.get(s, dict(person)) for s in e.blocked_actions}


def subtask_started(state: State, e: ev.SubtaskStarted, seq: int) -> None:
    state.plan.subtask_seq = seq
    state.current_task_idx, state.current_subtask_idx = e.task_idx, e.subtask_idx
    state.guidance.there = () if state.actions_total else state.guidance.there
    task, subtask = state.task, state.subtask
    if task and subtask:
        task.status = subtask.status = StepStatus.IN_PROGRESS
    loops = state.loops
    scope, owed, before = loops.scope, loops.scope.memory, loops.attention
    if e.scope == "new":
        scope = Scope(worlds={loops.world: 1} if loops.world else {})
    elif e.scope == "inherit" and loops.inherited:
        scope = deepcopy(loops.inherited)
    loops.begin(scope)
    if e.idle:
        carry_debt(owed, scope.memory)
        loops.attention.iterations_without_facts = before.iterations_without_facts
        loops.attention.raised = {k: r for k, r in before.raised.items() if k == "no_progress"}
    state.attempt = AttemptState(seq=seq, from_iteration=state.iteration)


def subtask_failed(state: State, e: ev.SubtaskFailed, _seq: int) -> None:
    if state.subtask:
        state.subtask.attempts += 1
        state.subtask.last_failure = e.failure
    state.loops.ignored_interventions = 0
    settle(state, "attempt_ended")
    state.loops.attention.raised.clear()
    state.attempt.from_iteration = state.iteration
    state.loops.refused = RefusedFinishes()


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
    state.plan.replan_required = e.to
    settle(state, "attempt_ended")
    state.loops.attention.raised.clear()


def attempt_ended(state: State, e: ev.AttemptEnded, _seq: int) -> None:
    now = state.attempt
    now.over, now.advancing, now.tried = e.reason, e.advancing, e.tried
    settle(state, "attempt_ended")


def attempt_started(state: State, e: ev.AttemptStarted, seq: int) -> None:
    settle(state, "attempt_ended")
    state.guidance.there = ()
    begun = taken(AttemptState, e, number=e.attempt, seq=seq, place=state.place)
    begun.epoch, begun.from_iteration = state.epoch + 1, state.iteration
    begun.from_actions = state.subtask.actions_total if state.subtask else 0
    state.attempt = replace(begun, tried=state.attempt.tried)
    state.attempts.total += 1
    state.attempts.fresh_starts.append(begun)
    del state.attempts.fresh_starts[:-FRESH_STARTS_KEPT]
    state.attempts.turn_at = state.place
    loops = state.loops
    known = afresh(loops.scope, "" if e.restored else loops.world) if e.scope == "new" else None
    loops.begin(known or loops.scope)


def afresh(old: Scope, world: str) -> Scope:
    """Return a scope with nothing counted, but for actions during which the worker died."""
    return Scope(
        worlds={world: 1} if world else {},
        crashes=old.crashes,
        died=old.died,
        blocks=crash_blocks(old),
    )


def crash_blocks(old: Scope) -> dict[str, dict[str, str]]:
    """Return the blocks of actions during which the worker died."""
    return {s: {EVERYWHERE: "crash"} for s, b in old.blocks.items() if b.get(EVERYWHERE) == "crash"}


def finish_refused(state: State, e: ev.FinishRefused, _seq: int) -> None:
    """Count refused finishes with the same files, or with no action in between that clew could see."""
    state.loops.claims += bool(e.failing)
    before, world = state.loops.refused, state.loops.world
    unseen = e.own_tools and world.startswith(UNKNOWN)
    same_files = before.world == world and not world.startswith(UNKNOWN)
    no_action = before.actions == state.actions_total and (unseen or not e.own_tools)
    same_checks = same_files and bool(e.failing) and before.failing == e.failing
    state.loops.refused = RefusedFinishes(
        world=world,
        actions=state.actions_total,
        failing=e.failing,
        count=before.count + 1 if same_files or no_action else 1,
        same_checks=before.same_checks + 1 if same_checks else 1,
        unseen=unseen,
    )


def new_task(planned: PlannedTask) -> Task:
    """Return a planned task as a task of the tree."""
    return Task(planned.description, [_new_subtask(s) for s in planned.subtasks])


def _new_subtask(planned: PlannedSubtask) -> Subtask:
    steps = [
        {"tool": s.tool, "args": s.args} | ({"timeout_s": s.timeout_s} if s.timeout_s else {})
        for s in planned.steps
    ]
    status = StepStatus.COMPLETED if planned.done else StepStatus.PENDING
    return Subtask(planned.description, status, steps=steps)


def replan(state: State, e: ev.Planned) -> None:
    """Put a new plan in the place of what is not done in the current task, or in the whole goal."""
    level = "task" if e.replan == "task" and state.task else "goal"
    pending = [] if e.covers is None else state.replaceable(level)
    new = [_brought(planned, pending) for planned in e.tasks]
    brought = {id(s) for task in new for s in task.subtasks}
    not_brought = [(n, s) for n, s in enumerate(pending, start=1) if id(s) not in brought]
    left = [s for n, s in not_brought if n not in (e.covers or ())]
    covered = [s.description for n, s in not_brought if n in (e.covers or ())]
    set_aside(state, _given_up(state, level, {id(s) for s in pending}), covered)
    if level == "task":
        _replan_task(state, new[0], left)
    else:
        _replan_goal(state, new, {id(s) for s in left})


def change_plan(state: State, tasks: Iterable[PlannedTask]) -> None:
    """Put a changed file's tasks, known by their texts, in the place of the tree; only what is done stays besides."""
    current, old = state.subtask, state.goal.tasks
    left = [(task, list(task.subtasks)) for task in old]
    new = [_changed_task(planned, left) for planned in tasks]
    kept: list[Task] = []
    for task, rest in left:
        if done := [s for s in rest if _is_done(s)]:
            same = next((one for one in new if one.description == task.description), None)
            if same:
                same.subtasks = [*done, *same.subtasks]
            else:
                kept.append(Task(task.description, done))
    gone = [s for _, rest in left for s in rest if not _is_done(s)]
    given_up = [given_up_line(s) for s in gone if s.status != StepStatus.PENDING]
    set_aside(state, given_up, [s.description for s in gone if s.status == StepStatus.PENDING])
    state.goal.tasks = [*kept, *new]
    places = [(t, s) for t, task in enumerate(state.goal.tasks) for s in range(len(task.subtasks))]
    here = (at for at in places if state.subtask_at(*at) is current)
    state.current_task_idx, state.current_subtask_idx = next(here, NOWHERE)


def _changed_task(planned: PlannedTask, left: list[tuple[Task, list[Subtask]]]) -> Task:
    """Return a task of a changed file with the subtasks of the tree that it still has, which are taken from `left`."""
    task = new_task(planned)
    own = [rest for old, rest in left if old.description == task.description]
    for n, one in enumerate(task.subtasks):
        for rest in (*own, *(others for _, others in left)):
            known = next((s for s in rest if s.description == one.description), None)
            if known:
                rest.remove(known)
                if not _is_done(known):
                    known.steps = one.steps
                    known.status = one.status if _is_done(one) else known.status
                task.subtasks[n] = known
                break
    return task


def _brought(planned: PlannedTask, pending: Sequence[Subtask]) -> Task:
    """Return a task of a replan: its subtasks inherit the scope of the blocked one, and pending ones are continued."""
    task = new_task(planned)
    for n, one in enumerate(planned.subtasks):
        if 0 < one.continues <= len(pending):
            task.subtasks[n] = pending[one.continues - 1]
        task.subtasks[n].inherits = True
    return task


def _given_up(state: State, level: str, pending: Container[int]) -> list[str]:
    tasks = [state.task] if level == "task" and state.task else state.goal.tasks
    subtasks = chain.from_iterable(task.subtasks for task in tasks)
    return [given_up_line(s) for s in subtasks if id(s) not in pending and not _is_done(s)]


def given_up_line(subtask: Subtask) -> str:
    """Return a subtask that was given up as one line, with its failure."""
    failure = f": {subtask.last_failure}" if subtask.last_failure else ""
    return f"{subtask.description} ({subtask.status}{failure})"


def set_aside(state: State, given_up: Iterable[str], covered: Iterable[str]) -> None:
    """Note what was given up, and what was replaced before it was tried; the last ones are kept."""
    state.plan.set_aside += given_up
    state.plan.covered += covered
    del state.plan.set_aside[:-SET_ASIDE_KEPT], state.plan.covered[:-SET_ASIDE_KEPT]


def _replan_task(state: State, new: Task, left: list[Subtask]) -> None:
    task = state.goal.tasks[state.current_task_idx]
    done = [s for s in task.subtasks if _is_done(s)]
    task.description = new.description or task.description
    task.subtasks = [*done, *new.subtasks, *left]
    task.status, task.replanned = StepStatus.IN_PROGRESS, True
    state.current_subtask_idx = len(done)


def _replan_goal(state: State, new: list[Task], left: Container[int]) -> None:
    """Put the new tasks after what is done, and what is left of each old task after them."""
    over: list[Task] = []
    later: list[Task] = []
    for task in state.goal.tasks:
        if rest := [s for s in task.subtasks if id(s) in left]:
            later.append(Task(task.description, rest))
        if done := [s for s in task.subtasks if _is_done(s)]:
            task.subtasks, task.status = done, StepStatus.COMPLETED
            over.append(task)
    state.goal.tasks, state.goal.replanned = [*over, *new, *later], True
    state.current_task_idx, state.current_subtask_idx = len(over), 0


def _is_done(subtask: Subtask) -> bool:
    return StepStatus(subtask.status).done
