"""Hands a goal to a person: it is blocked with a question, unless it has ended meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_daemon.processes.workspace_guard import Missing
    from clew_daemon.record.goals import GoalStore
    from clew_shared.core.core import Core


async def block_goal(goals: GoalStore, core: Core, reason: str, question: str) -> None:
    """Block a goal for this reason, and wait until that is durable."""
    with goals.entering(core):
        core.block_goal(reason, time.time(), question=question)
    await goals.commit(core)


async def block_missing(goals: GoalStore, core: Core, missing: Missing) -> None:
    """Block a goal whose workspace is missing, and wait until that is durable."""
    question, stranger = missing.question(core.state.goal_id), missing.stranger
    with goals.entering(core):
        core.block_goal(
            missing.reason, time.time(), question=question, stranger=stranger, gone=missing.gone
        )
    await goals.commit(core)
