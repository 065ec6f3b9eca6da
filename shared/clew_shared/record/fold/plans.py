"""From a plan to the tree of work: new tasks, and what a replan replaces, continues, and leaves to do.

A replan gives up what was tried and is not done. Work that is pending stays: where the plan continues it, in its
place in the plan; otherwise after the plan. Only what the plan covers is replaced (docs/loops.md, Escalation).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from clew_shared.record.model import StepStatus, Subtask, Task

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from clew_shared.record import events as ev
    from clew_shared.record.spec import PlannedSubtask, PlannedTask
    from clew_shared.record.state import State

SET_ASIDE_KEPT = 200


def new_task(planned: PlannedTask) -> Task:
    """Return a planned task as a task of the tree."""
    return Task(planned.description, [_new_subtask(s) for s in planned.subtasks])


def _new_subtask(planned: PlannedSubtask) -> Subtask:
    steps = [{"tool": s.tool, "args": s.args} for s in planned.steps]
    status = StepStatus.COMPLETED if planned.done else StepStatus.PENDING
    return Subtask(planned.description, status, steps=steps)


def replan(state: State, e: ev.Planned) -> None:
    """Put a new plan in the place of what is not done in the current task, or in the whole goal."""
    level = "task" if e.replan == "task" and state.task else "goal"
    pending = [] if e.covers is None else state.replaceable(level)
    new = [_brought(planned, pending) for planned in e.tasks]
    brought = {id(s) for task in new for s in task.subtasks}
    left: list[Subtask] = []
    for number, subtask in enumerate(pending, start=1):
        if id(subtask) in brought:
            continue
        if number in (e.covers or ()):
            state.covered.append(subtask.description)
        else:
            left.append(subtask)
    del state.covered[:-SET_ASIDE_KEPT]
    _give_up_the_rest(state, level, {id(s) for s in pending})
    if level == "task":
        _replan_task(state, new[0], left)
    else:
        _replan_goal(state, new, {id(s) for s in left})


def _brought(planned: PlannedTask, pending: Sequence[Subtask]) -> Task:
    """Return a task of a replan: its subtasks inherit the scope of the blocked one, and pending ones are continued."""
    task = new_task(planned)
    for n, one in enumerate(planned.subtasks):
        if 0 < one.continues <= len(pending):
            task.subtasks[n] = pending[one.continues - 1]
        task.subtasks[n].inherits = True
    return task


def _give_up_the_rest(state: State, level: str, pending: Container[int]) -> None:
    """Note each subtask that is neither done nor pending as one line."""
    tasks = [state.task] if level == "task" and state.task else state.goal.tasks
    for subtask in chain.from_iterable(task.subtasks for task in tasks):
        if id(subtask) not in pending and not _is_done(subtask):
            state.set_aside.append(given_up_line(subtask))
    del state.set_aside[:-SET_ASIDE_KEPT]


def note_edited(state: State, e: ev.TreeEdited) -> None:
    """Note what a replan in place gave up and what it covers, as for any other replan."""
    state.set_aside += e.given_up
    state.covered += e.covered
    del state.set_aside[:-SET_ASIDE_KEPT], state.covered[:-SET_ASIDE_KEPT]


def given_up_line(subtask: Subtask) -> str:
    """Return the line of a subtask that a replan gave up."""
    failure = f": {subtask.last_failure}" if subtask.last_failure else ""
    return f"{subtask.description} ({subtask.status}{failure})"


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
