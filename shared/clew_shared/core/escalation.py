"""Who must find another way when a subtask is blocked: task, goal or person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.events import Escalated

if TYPE_CHECKING:
    from clew_shared.record.model import Level
    from clew_shared.record.state import State


def escalation(state: State, reason: str, replan_limit: int) -> Escalated:
    """Return the escalation of a blocked subtask: one level up for every level whose replans are used up.

    A replan has failed when any subtask that it introduced is blocked. `replan_limit` failed replans of the task
    escalate to the goal, as many of the goal to a person (docs/loops.md, Escalation). Source: the escalation of
    restart intensities in a tree of OTP supervisors.
    """
    task, subtask = state.task, state.subtask
    inherits = bool(subtask and subtask.inherits)
    task_failed = bool(inherits and task and task.replanned)
    goal_failed = inherits and state.goal.replanned  # counted once, at its first blocked subtask
    task_count = (task.failed_replans if task else 0) + task_failed
    goal_count = state.goal.failed_replans + goal_failed
    to: Level = "task"
    if goal_count >= replan_limit:
        to = "person"
    elif task_count >= replan_limit:
        to = "goal"
    return Escalated(
        to=to,
        reason=reason,
        replan_failed_task=task_failed,
        replan_failed_goal=goal_failed,
    )
