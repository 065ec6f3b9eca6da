"""The answer to `hello` as the state and the tree that the library shows; the agent's own objects stay valid. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.model import Action, Goal, StepStatus, Subtask, Task
from clew_shared.record.signature import signature
from clew_shared.record.spec import Spec
from clew_shared.record.state import EVERYWHERE, ProbeSeen, Scope, State, Tally
from clew_shared.wire.hello import Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew_shared.wire.hello import FinishedSubtask, HelloAnswer, SentGoal, SentSubtask

_OVER = (StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.FAILED)


def state_of(hello: HelloAnswer) -> State:
    """Return the state in an answer to `hello`, as far as an agent is shown one."""
    sent = hello.state
    goal = _goal(sent.goal)
    goal.reached = sent.progress
    _add_summaries(goal, sent.finished)
    heads = {entry.seq: entry.output for entry in sent.transcript if isinstance(entry, Call)}
    scope = Scope(
        loop_counts=dict(sent.loop_counts),
        blocks={s: {EVERYWHERE: "blocked"} for s in sent.blocked_actions},
    )
    state = State(
        goal_id=hello.goal_id,
        goal=goal,
        spec=Spec(description=goal.description, notes=hello.notes),
        current_task_idx=sent.current_task_idx,
        current_subtask_idx=sent.current_subtask_idx,
        scope=scope,
        last_probe_state=sent.last_probe_state | {n: p.passed for n, p in sent.probes.items()},
        probes_seen={
            n: seen_probe(p.passed, p.after, current=p.current) for n, p in sent.probes.items()
        },
        last_action=max((a.seq for s in sent.subtasks for a in s.actions), default=0),
        iteration=sent.iteration,
        epoch=sent.epoch,
        restarts=sent.restarts,
        seq=sent.seq,
        feedback=list(hello.feedback),
        set_aside=list(sent.given_up),
        replan_required=sent.replan_required or "",
    )
    for action in state.subtask.actions if state.subtask else ():
        name = signature(action.name, action.args)
        tally = Tally(seq=action.seq, result=action.result, head=heads.get(action.seq, ""))
        scope.tallies.setdefault(name, {})[str(action.seq)] = tally
    return state


def seen_probe(passed: bool, after: int, *, current: bool) -> ProbeSeen:
    """Return a probe of a workspace whose state has no name here: what is current was seen in the same one."""
    return ProbeSeen(passed, "" if current else "before", after)


def changed_since(state: State, seq: int) -> bool:
    """Return whether an action after this one may have changed the workspace, as far as the tree shows it."""
    actions = (a for t in state.goal.tasks for s in t.subtasks for a in s.actions)
    return any(a.seq > seq and a.result != "blocked" and a.changed is not False for a in actions)


def _goal(sent: SentGoal) -> Goal:
    tasks = [Task(t.description, [*map(_subtask, t.subtasks)], t.status) for t in sent.tasks]
    return Goal(sent.description, tasks, sent.status)


def _subtask(sent: SentSubtask) -> Subtask:
    return Subtask(
        sent.description,
        sent.status,
        sent.attempts,
        sent.last_failure or "",
        sent.actions_total,
        actions=[Action(**action.model_dump()) for action in sent.actions],
        steps=[step.model_dump() for step in sent.steps],
    )


def _add_summaries(goal: Goal, finished: Iterable[FinishedSubtask]) -> None:
    """Add the summaries of the finished subtasks, which are sent beside the tree, to the tree."""
    over = (s for t in goal.tasks for s in t.subtasks if s.status in _OVER)
    for subtask, sent in zip(over, finished, strict=False):
        if sent.description == subtask.description:
            subtask.summary = sent.summary


def is_untouched(state: State) -> bool:
    """Return whether there is only the implicit subtask, without any work in it."""
    steps = [s for t in state.goal.tasks for s in t.subtasks]
    implicit = len(steps) == 1 and steps[0].description == state.goal.description
    return implicit and not steps[0].actions_total and not steps[0].attempts


def shape_of(goal: Goal) -> list[tuple[str, list[str]]]:
    """Return the descriptions in a tree, by which a manual change of it is noticed."""
    return [(t.description, [s.description for s in t.subtasks]) for t in goal.tasks]


def graft(old: Goal, new: Goal) -> Goal:
    """Update the agent's own objects in place, so that its references stay valid."""
    if old.description != new.description:
        old.description = new.description
    old.status, old.reached, tasks = new.status, new.reached, new.tasks
    before = dict(enumerate(old.tasks))
    old.tasks[:] = [_graft_task(before.get(i), task) for i, task in enumerate(tasks)]
    return old


def _graft_task(old: Task | None, new: Task) -> Task:
    if old is None or old.description != new.description:
        return new
    old.status = new.status
    before = dict(enumerate(old.subtasks))
    old.subtasks[:] = [_graft_subtask(before.get(i), s) for i, s in enumerate(new.subtasks)]
    return old


def _graft_subtask(old: Subtask | None, new: Subtask) -> Subtask:
    if old is None or old.description != new.description:
        return new
    for name in ("status", "attempts", "last_failure", "actions_total", "summary", "steps"):
        setattr(old, name, getattr(new, name))
    old.actions[:] = new.actions
    return old
