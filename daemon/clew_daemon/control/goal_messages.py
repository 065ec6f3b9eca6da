"""What a person says to a goal: feedback for its agent, and that a blocked action is allowed again (docs/cli.md)."""

from __future__ import annotations

import time
from typing import Any

from clew_daemon.control.goal_lookup import (
    RUNBOOK_DONE,
    SHOWN_MAX,
    GoalLookup,
    answer,
    fault,
    is_runbook,
    shown_status,
)
from clew_daemon.control.requests import FeedbackRequest, UnblockRequest
from clew_daemon.control.server import ControlError, refuse_abandoned
from clew_daemon.parts import DaemonParts
from clew_daemon.record.dependencies import called
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State
from clew_shared.text.redact import redact

FEEDBACK_CHARS_MAX = 20_000


class GoalMessages:
    """`feedback` and `unblock`, each recorded before it has any effect."""

    def __init__(self, daemon: DaemonParts, supervisor: Supervisor, lookup: GoalLookup) -> None:
        self._d = daemon
        self._supervisor = supervisor
        self._lookup = lookup

    async def feedback(self, request: FeedbackRequest) -> dict[str, Any]:
        """Record feedback: the agent is shown it, a blocked goal continues, an ended goal can be retried with it."""
        core = await self._lookup.whole(request.goal)
        if not request.text.strip():
            raise fault("text")
        if len(request.text) > FEEDBACK_CHARS_MAX:
            raise ControlError(
                f"the feedback has more than {FEEDBACK_CHARS_MAX:,} characters: put it in a file of the workspace"
            )
        text, before = redact(request.text), core.state.goal.status
        if before == GoalStatus.BLOCKED:
            await self._supervisor.halt(core.state.goal_id, "feedback")
            core = await self._d.goals.whole(core.state.goal_id)
            if core.state.ended:  # it was cancelled while its worker stopped
                raise ControlError(
                    f"{core.state.goal_id} is {core.state.goal.status} now; the feedback was not recorded"
                )
        refuse_abandoned()
        at = time.time()
        with self._d.goals.entering(core):
            seq = core.emit(ev.FeedbackGiven(at=at, text=text))
            if core.state.goal.status == GoalStatus.BLOCKED:
                core.emit(ev.GoalRequeued(at=at, by="feedback", reopen=True))
        await self._d.goals.commit(core)
        if session := self._supervisor.session(core.state.goal_id):
            session.send_feedback(seq, text)
        return answer(core.state, self._effect(core.state, before))

    def _effect(self, state: State, before: str) -> str:
        """Return what becomes of feedback."""
        if before == GoalStatus.BLOCKED:
            return "recorded; the goal continues with it"
        if not state.ended:
            return "recorded; the agent is shown it"
        if state.goal.status == GoalStatus.COMPLETED and is_runbook(self._d.settings, state):
            return f"recorded. {RUNBOOK_DONE}"
        return f"recorded; `clew continue {called(state)}` continues it"

    async def unblock(self, request: UnblockRequest) -> dict[str, Any]:
        """Lift the blocks of a signature, and go on with a goal that was stopped by a refusal."""
        core, signature = await self._lookup.whole(request.goal), request.signature
        blocked = core.state.blocked_actions
        if signature not in blocked:
            there = "; ".join(blocked[:SHOWN_MAX]) or "none"
            raise ControlError(f"{signature!r} is not blocked; blocked actions: {there}")
        goes_on = bool(core.state.replan_required or core.state.asked_step)
        if goes_on:
            await self._supervisor.halt(core.state.goal_id, "unblock")
            core = await self._d.goals.whole(core.state.goal_id)
        refuse_abandoned()
        at, before = time.time(), core.state.goal.status
        with self._d.goals.entering(core):
            core.emit(ev.Unblocked(at=at, signature=signature))
            if goes_on and before == GoalStatus.BLOCKED:
                core.emit(ev.GoalRequeued(at=at, by="unblock", reopen=True))
        await self._d.goals.commit(core)
        return answer(core.state, f"allowed again: {signature}{_then(core.state, before)}")


def _then(state: State, before: str) -> str:
    """Return what is to be done after a block was lifted, to follow that."""
    if state.goal.status == GoalStatus.QUEUED and before == GoalStatus.BLOCKED:
        return "; the goal continues"
    if state.goal.status in (GoalStatus.QUEUED, GoalStatus.IN_PROGRESS):
        return ""
    return f"; the goal is {shown_status(state)}: `clew continue {called(state)}` continues it"
