"""What a person may ask of a goal: feedback, unblock, pause, resume, cancel, retry. Served on the control socket."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from clew_daemon import ground
from clew_daemon.control import ControlError
from clew_shared import events as ev
from clew_shared.model import GoalStatus
from clew_shared.redact import redact
from clew_shared.spelling import closest

if TYPE_CHECKING:
    from clew_daemon.context import Daemon
    from clew_daemon.supervisor import Supervisor
    from clew_shared.core import Core

FEEDBACK_CHARS_MAX = 20_000
RETRIED = (GoalStatus.FAILED, GoalStatus.CANCELLED, GoalStatus.BLOCKED)


class People:
    """The requests of people, each recorded before it has any effect."""

    def __init__(self, daemon: Daemon, supervisor: Supervisor) -> None:
        self._d = daemon
        self._supervisor = supervisor

    def find(self, params: dict[str, Any]) -> Core:
        """Find a goal by its id or a unique beginning of it; raises ControlError."""
        name, cores = params.get("goal"), self._d.book.cores
        if not isinstance(name, str) or not name:
            raise ControlError("which goal? give its id, or a unique beginning of it")
        if name in cores:
            return cores[name]
        found = [goal for goal in cores if goal.startswith(name)]
        if len(found) == 1:
            return cores[found[0]]
        if found:
            raise ControlError(f"{name!r} could be any of: {', '.join(found[:10])}")
        if name in self._d.book.gone:
            raise ControlError(
                f"{name} was let go: it had ended more than `[ledger] keep_days` before"
            )
        hint = closest(name, list(cores))
        raise ControlError(f"no goal {name!r}" + (f"; did you mean {hint}?" if hint else ""))

    async def whole(self, params: dict[str, Any]) -> Core:
        """Find a goal, with all of its state; raises ControlError."""
        goal = self.find(params).state.goal_id
        try:
            return await self._d.book.whole(goal)
        except KeyError:  # while it was read
            return self.find({"goal": goal})

    async def feedback(self, params: dict[str, Any]) -> dict[str, Any]:
        """Record a correction; the agent is shown it, and a blocked goal goes on."""
        core, text = await self.whole(params), params.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ControlError("the feedback is empty")
        if len(text) > FEEDBACK_CHARS_MAX:
            raise ControlError(
                f"feedback of over {FEEDBACK_CHARS_MAX} characters; put it in a file"
            )
        text = redact(text)
        if core.state.goal.status == GoalStatus.BLOCKED:
            await self._supervisor.halt(core.state.goal_id, "feedback")
        if core.state.ended:  # also where it was cancelled while its worker stopped
            raise ControlError(
                f"{core.state.goal_id} is {core.state.goal.status}; `clew retry` it first"
            )
        at = time.time()
        with self._d.book.entering(core):
            core.emit(ev.FeedbackGiven(at=at, text=text))
            if core.state.goal.status == GoalStatus.BLOCKED:
                core.emit(ev.GoalRequeued(at=at, by="feedback", reopen=True))
        await self._d.book.commit(core)
        if session := self._supervisor.session(core.state.goal_id):
            session.notify("feedback", {"text": text})
        return _answer(core)

    async def unblock(self, params: dict[str, Any]) -> dict[str, Any]:
        """Lift the blocks of a signature."""
        core, signature = await self.whole(params), params.get("signature")
        blocked = core.state.blocked_actions
        if signature not in blocked:
            there = "; ".join(blocked[:10]) or "none"
            raise ControlError(f"{signature!r} is not blocked now; blocked are: {there}")
        await self._d.book.emit(core, ev.Unblocked(at=time.time(), signature=signature))
        return _answer(core)

    async def pause(self, params: dict[str, Any]) -> dict[str, Any]:
        """Stop a goal's worker until `resume`."""
        core = await self.whole(params)
        rests = core.state.ended or core.state.goal.status == GoalStatus.BLOCKED
        if rests or core.state.paused:
            raise ControlError(f"{core.state.goal_id} is {_status(core)}; nothing to pause")
        await self._rest(core, ev.GoalWaiting(at=time.time(), reason="paused", paused=True))
        return _answer(core)

    async def resume(self, params: dict[str, Any]) -> dict[str, Any]:
        """Let a paused, waiting or blocked goal go on."""
        core = await self.whole(params)
        status = core.state.goal.status
        if status not in (GoalStatus.WAITING, GoalStatus.BLOCKED):
            raise ControlError(f"{core.state.goal_id} is {status}; nothing to resume")
        asked = status == GoalStatus.BLOCKED or core.state.replan_required == "person"
        await self._requeue(core, "resume", reopen=asked)
        return _answer(core)

    async def cancel(self, params: dict[str, Any]) -> dict[str, Any]:
        """End a goal, and its worker."""
        core = await self.whole(params)
        if core.state.ended:
            raise ControlError(f"{core.state.goal_id} is already {core.state.goal.status}")
        ended = ev.GoalEnded(at=time.time(), status="cancelled", reason="cancelled by a person")
        await self._rest(core, ended)
        return _answer(core)

    async def retry(self, params: dict[str, Any]) -> dict[str, Any]:
        """Take up a goal that failed, was cancelled or is blocked, from where it was."""
        core = await self.whole(params)
        if core.state.goal.status not in RETRIED:
            raise ControlError(f"{core.state.goal_id} is {_status(core)}; nothing to retry")
        await self._requeue(core, "retry", reopen=True)
        return _answer(core)

    async def _rest(self, core: Core, event: ev.Event) -> None:
        """Record first: from then on every proposal is refused; then end the worker."""
        await self._d.book.emit(core, event)
        await self._supervisor.halt(core.state.goal_id, event.kind)

    async def _requeue(self, core: Core, by: str, *, reopen: bool) -> None:
        """Let a goal go on, once its last worker is gone; raises ControlError where it was overtaken meanwhile."""
        asked = _standing(core)
        await self._supervisor.halt(core.state.goal_id, by)
        await self._d.book.whole(core.state.goal_id)
        stranger, make = None, False
        if by == "resume":
            place = core.state.spec.workspace
            stranger, make = await asyncio.to_thread(ground.accepted, place, core.state)
        if (
            _standing(core) != asked
        ):  # somebody else's request was recorded while the worker stopped
            raise ControlError(
                f"{core.state.goal_id} is {_status(core)} by now; `{by}` changed nothing"
            )
        at, after = time.time(), core.state.rested_seq if core.state.ended else 0
        with self._d.book.entering(core):
            if stranger:
                core.emit(ev.WorkspaceKnown(at=at, identity=stranger, by="person"))
            core.emit(ev.GoalRequeued(at=at, by=by, reopen=reopen, after=after, make=make))
        await self._d.book.commit(core)


def _standing(core: Core) -> tuple[str, bool, int]:
    """Return what a request to go on is about: the goal's status, and the rest that it answers."""
    return str(core.state.goal.status), core.state.paused, core.state.rested_seq


def _status(core: Core) -> str:
    return "paused" if core.state.paused else str(core.state.goal.status)


def _answer(core: Core) -> dict[str, Any]:
    return {"id": core.state.goal_id, "status": str(core.state.goal.status)}
