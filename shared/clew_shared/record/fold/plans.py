"""From a plan to the tree of work: new tasks, and what a replan replaces, continues, and leaves to do.

A replan gives up what was tried and is not done. Work that is pending stays: where the plan continues it, in its
place in the plan; otherwise after the plan. Only what the plan covers is replaced (docs/loops.md, Escalation).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from clew_shared.record.model import StepStatus, Subtask, Task

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from clew_shared.record import events as ev
    from clew_shared.record.spec import PlannedSubtask, PlannedTask
    from clew_shared.record.state import State

SET_ASIDE_KEPT = 200
NOWHERE = (-1, -1)


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
    """Put the tasks of a goal file that a person changed in the place of the tree: subtasks are known by their texts.

    What is done stays, also where the file has it no more; what is not done and gone from the file is set aside.
    """
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
    """Return a line for each subtask that is neither done nor pending."""
    tasks = [state.task] if level == "task" and state.task else state.goal.tasks
    subtasks = chain.from_iterable(task.subtasks for task in tasks)
    return [given_up_line(s) for s in subtasks if id(s) not in pending and not _is_done(s)]


def given_up_line(subtask: Subtask) -> str:
    """Return a subtask that was given up as one line, with its failure."""
    failure = f": {subtask.last_failure}" if subtask.last_failure else ""
    return f"{subtask.description} ({subtask.status}{failure})"


def set_aside(state: State, given_up: Iterable[str], covered: Iterable[str]) -> None:
    """Note what was given up, and what was replaced before it was tried; the last ones are kept."""
    state.set_aside += given_up
    state.covered += covered
    del state.set_aside[:-SET_ASIDE_KEPT], state.covered[:-SET_ASIDE_KEPT]


def _replan_task(state: State, new: Task, left: list[Subtask]) -> None:
    task = state.goal.tasks[state.current_task_idx]
    done = [s for s in task.subtasks if _is_done(s)]
    task.description, task.subtasks = (
        new.description or task.description,
        [*done, *new.subtasks, *left],
    )
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
