"""The tree of a goal without a daemon: what the agent changed in it by hand becomes events. No I/O, no clock."""

from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus, StepStatus, Subtask
from clew_shared.record.plans import given_up_line
from clew_shared.record.spec import PlannedSubtask, PlannedTask
from clew_worker.library.open_goal import Edit, goals


def make_ready(core: Core, at: float) -> None:
    """Provide something to act on: a goal that is not over, and a subtask, if need be with the goal's description."""
    state, text = core.state, core.state.spec.description
    if state.ended:
        _reopen(core, at)
    if not state.goal.tasks:
        task = PlannedTask(description=text, subtasks=(PlannedSubtask(description=text),))
        core.emit(ev.Planned(at=at, tasks=(task,)))
        core.begin(0, 0, at)
    unplanned = [one.description for one in state.goal.subtasks] in ([], [text])
    if state.plan.replan_required in ("task", "goal") and unplanned:
        # Without a plan there is no replan: the blocks hold, other actions continue.
        if state.subtask:
            state.subtask.status, state.subtask.attempts = StepStatus.IN_PROGRESS, 0
        record_tree(core, at, replan=True)


def record_edit(core: Core, edit: Edit, at: float) -> None:
    """Record manual changes and their consequences."""
    state = core.state
    current, goal = state.subtask, state.goal
    begun = any(one.status == StepStatus.IN_PROGRESS for one in goal.subtasks)
    another_way = edit.new or begun or (current and current.open)
    replan = bool(state.plan.replan_required and another_way)
    if replan:  # the replacements of a blocked subtask inherit its counts and blocks
        new = {id(subtask) for subtask in edit.new}
        for task in goal.tasks:
            for subtask in (one for one in task.subtasks if id(one) in new):
                subtask.inherits = task.replanned = True
        goal.replanned = goal.replanned or state.plan.replan_required == "goal"
    probes = edit.now.probes
    record_tree(core, at, replan=replan, gone=edit.gone if replan else (), probes=probes)
    resting = state.goal.status == GoalStatus.BLOCKED or state.ended
    if resting and (replan or edit.new):
        _reopen(core, at)
    if not state.plan.replan_required:
        _find_place(core, edit, at)
    if replan:
        core.start(at)
    before, now = edit.before, edit.now
    counts = now.counts if now.counts != before.counts else None
    blocked = now.blocked if now.blocked != before.blocked else None
    if (counts, blocked) != (None, None):  # those of the subtask that is current now
        record_tree(core, at, counts=counts, blocked=blocked)
    for signature in dict.fromkeys([*before.blocked, *before.counts]):
        kept = now.counts.get(signature) and signature not in before.blocked
        if signature not in now.blocked and not kept:
            core.emit(ev.Unblocked(at=at, signature=signature))


def record_tree(
    core: Core,
    at: float,
    *,
    replan: bool = False,
    gone: tuple[Subtask, ...] = (),
    probes: dict[str, bool] | None = None,
    counts: dict[str, int] | None = None,
    blocked: tuple[str, ...] | None = None,
) -> None:
    """Record the tree as it is in the state; a replan may have removed subtasks, which are `gone`."""
    state, goal = core.state, core.state.goal
    # what a replan gives up: removed, or blocked and still in the tree
    blocked_ones = [s for s in goal.subtasks if s.status == StepStatus.BLOCKED]
    lines = [given_up_line(s) for s in (*gone, *blocked_ones) if s.status != StepStatus.PENDING]
    given_up = [line for line in dict.fromkeys(lines) if line not in state.plan.set_aside]
    event = ev.TreeEdited(
        at=at,
        goal=goals.dump_python(goal, mode="json"),
        task_idx=state.current_task_idx,
        subtask_idx=state.current_subtask_idx,
        probes=state.last_probe_state if probes is None else probes,
        loop_counts=counts,
        blocked_actions=blocked,
        replan=replan,
        given_up=tuple(given_up) if replan else (),
        covered=tuple(s.description for s in gone if s.status == StepStatus.PENDING),
    )
    core.emit(event)
    state.goal = goal  # equal to the folded one, and the agent's references stay valid


def _find_place(core: Core, edit: Edit, at: float) -> None:
    """Start the subtask that the indices select, else the one that is marked as in progress."""
    state = core.state
    status = state.subtask.status if state.subtask else ""
    moved = edit.now.place != edit.before.place
    if status == StepStatus.PENDING or (moved and status == StepStatus.IN_PROGRESS):
        core.begin(*state.place, at)
    elif status != StepStatus.IN_PROGRESS:
        for t, task in enumerate(state.goal.tasks):
            for s, subtask in enumerate(task.subtasks):
                if subtask.status == StepStatus.IN_PROGRESS:
                    core.begin(t, s, at)
                    return


def _reopen(core: Core, at: float) -> None:
    core.emit(ev.GoalRequeued(at=at, by="library", after=core.state.rested_seq))
    core.emit(ev.GoalStarted(at=at))
