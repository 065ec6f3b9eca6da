"""How a plan takes the place of another: what is pending and not covered stays to do (docs/loops.md, Escalation)."""

from collections.abc import Container, Iterable, Sequence

from clew_shared.record.model import StepStatus, Subtask, Task
from clew_shared.record.spec import PlannedTask
from clew_shared.record.state import State

NOWHERE = (-1, -1)


def replan(
    state: State, level: str, tasks: Iterable[PlannedTask], covers: Container[int] | None
) -> None:
    """Replace what is not done of the task or goal; `covers` numbers the pending subtasks to replace, None: all."""
    level = "task" if level == "task" and state.task else "goal"
    pending = [] if covers is None else state.replaceable(level)
    new = [_brought(planned, pending) for planned in tasks]
    brought = {id(s) for task in new for s in task.subtasks}
    rest = [(n in (covers or ()), s) for n, s in enumerate(pending, 1) if id(s) not in brought]
    left = [s for is_covered, s in rest if not is_covered]
    old = [state.task] if level == "task" and state.task else state.goal.tasks
    waiting = set(map(id, pending))
    over = [s for task in old for s in task.subtasks if id(s) not in waiting and not s.done]
    state.plan.give_up(
        map(given_up_line, over), [s.description for is_covered, s in rest if is_covered]
    )
    if level == "task":
        _replan_task(state, new[0], left)
    else:
        _replan_goal(state, new, set(map(id, left)))


def _brought(planned: PlannedTask, pending: Sequence[Subtask]) -> Task:
    task = Task.of(planned)
    for n, one in enumerate(planned.subtasks):
        if 0 < one.continues <= len(pending):
            task.subtasks[n] = pending[one.continues - 1]
        task.subtasks[n].inherits = True
    return task


def given_up_line(subtask: Subtask) -> str:
    failure = f": {subtask.last_failure}" if subtask.last_failure else ""
    return f"{subtask.description} ({subtask.status}{failure})"


def _replan_task(state: State, new: Task, left: list[Subtask]) -> None:
    task = state.goal.tasks[state.current_task_idx]
    done = [s for s in task.subtasks if s.done]
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
        if done := [s for s in task.subtasks if s.done]:
            task.subtasks, task.status = done, StepStatus.COMPLETED
            over.append(task)
    state.goal.tasks, state.goal.replanned = [*over, *new, *later], True
    state.current_task_idx, state.current_subtask_idx = len(over), 0


def change_plan(state: State, tasks: Iterable[PlannedTask]) -> None:
    """Put a changed file's tasks, known by their texts, in the place of the tree; only what is done stays besides."""
    current = state.subtask
    left = [(task, list(task.subtasks)) for task in state.goal.tasks]
    new = [_changed_task(planned, left) for planned in tasks]
    kept: list[Task] = []
    for task, rest in left:
        if done := [s for s in rest if s.done]:
            same = next((one for one in new if one.description == task.description), None)
            if same:
                same.subtasks = [*done, *same.subtasks]
            else:
                kept.append(Task(task.description, done))
    gone = [s for _, rest in left for s in rest if not s.done]
    untried = [s.description for s in gone if s.status == StepStatus.PENDING]
    state.plan.give_up([given_up_line(s) for s in gone if s.status != StepStatus.PENDING], untried)
    state.goal.tasks = [*kept, *new]
    places = [(t, s) for t, task in enumerate(state.goal.tasks) for s in range(len(task.subtasks))]
    here = (at for at in places if state.subtask_at(*at) is current)
    state.current_task_idx, state.current_subtask_idx = next(here, NOWHERE)


def _changed_task(planned: PlannedTask, left: list[tuple[Task, list[Subtask]]]) -> Task:
    """Return a task of a changed file with the subtasks of the tree that it still has, which are taken from `left`."""
    task = Task.of(planned)
    own = [rest for old, rest in left if old.description == task.description]
    for n, one in enumerate(task.subtasks):
        for rest in (*own, *(others for _, others in left)):
            known = next((s for s in rest if s.description == one.description), None)
            if known:
                rest.remove(known)
                if not known.done:
                    known.steps = one.steps
                    known.status = one.status if one.done else known.status
                task.subtasks[n] = known
                break
    return task
