"""Hands a goal to a person: it is blocked with a question, unless it has ended meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from clew_shared.record.model import Result

if TYPE_CHECKING:
    from clew_daemon.processes.workspace_guard import Missing
    from clew_daemon.record.goals import GoalStore
    from clew_shared.core.core import Core
    from clew_shared.core.questions import Question


async def block_goal(goals: GoalStore, core: Core, asked: Question) -> None:
    """Block a goal with this question, and wait until that is durable."""
    with goals.entering(core):
        core.ask(asked, time.time())
    await goals.commit(core)


async def block_missing(goals: GoalStore, core: Core, missing: Missing) -> None:
    """Block a goal whose workspace is missing, and wait until that is durable.

    A runbook's step that has found nothing to act in runs again with the same word.
    """
    asked, at = missing.question(core.state), time.time()
    subtask = core.state.subtask
    last = subtask.actions[-1] if subtask and subtask.actions else None
    step = last.seq if last and last.result == Result.ERROR else 0
    with goals.entering(core):
        core.block_goal(
            asked.reason,
            at,
            question=asked.text,
            stranger=missing.stranger,
            gone=missing.gone,
            step=step,
        )
    await goals.commit(core)
