"""Asks a person about a runbook's step that must not run again by itself: what ran, and what is known of its effect."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from clew_daemon.host.git import program
from clew_daemon.record.changed_files import changed_by
from clew_daemon.record.store import end_of, output_of
from clew_shared.core import questions
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.model import Result
from clew_shared.snapshots.store import StoreError, at
from clew_shared.text.plain import plain
from clew_shared.text.words import ending
from clew_shared.views.publish import plain_paths

if TYPE_CHECKING:
    from clew_daemon.session.desk import GoalDesk
    from clew_shared.record.model import Action

log = structlog.get_logger()

CHANGED_S = 20.0
"""How long a question waits for the names of the files that a step has changed."""


async def ask_about_step(desk: GoalDesk, ran: Action, refused: str = "") -> None:
    """Hand the goal to a person with what is known of a step's last run; `refused` is the rule that refuses it now."""
    ledger, goal = desk.parts.goals.ledger, desk.goal_id
    end = end_of(ledger, goal, ran.seq)
    event = decode(end.body) if end else None
    cause = ""
    if isinstance(event, ev.ActionInterrupted):
        stopped = event.reason == "stopped"
        cause = "its worker was stopped" if stopped else ending(event.reason)
        cause += f": {event.detail}" if event.detail else ""
    said = output_of(ledger, goal, ran.seq) or ""
    is_cut_off = ran.result == Result.INTERRUPTED
    changed = await _changed(desk, ran) if is_cut_off else _recorded(ran)
    asked = questions.step(
        desk.core.state, ran, refused=refused, cause=cause, said=said, changed=changed
    )
    await desk.record(lambda core: core.ask_about_step(ran, asked, time.time()))


def _recorded(ran: Action) -> list[str] | None:
    return None if ran.changed is None else plain_paths(ran.paths)


async def _changed(desk: GoalDesk, ran: Action) -> list[str] | None:
    """Return what an action that was cut off has changed, by the snapshots around it; None where that is not known."""
    await desk.snapshots.settled()
    if not desk.core.state.snapshots.first:
        return None
    parts, goal = desk.parts, desk.goal_id
    store = at(parts.places.snapshots / goal, program(parts.keys.env))
    try:
        with parts.children.starting_own():
            async with asyncio.timeout(CHANGED_S):
                return await asyncio.to_thread(changed_by, parts.goals.ledger, goal, store, ran.seq)
    except (StoreError, OSError, TimeoutError) as error:
        log.warning("step.changes_unknown", goal=goal, action=ran.seq, reason=plain(error))
        return None
