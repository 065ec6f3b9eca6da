"""The requests of a person on goals: feedback, unblock, pause, resume, cancel, retry (docs/cli.md)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from clew_daemon.control.server import ControlError
from clew_daemon.processes import workspace_guard
from clew_daemon.record.dependencies import KnownGoals, called, holder
from clew_shared.config.settings import RunbookAgentSettings
from clew_shared.ledger import LedgerError
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.record.transitions import follow_up, has_follow_up
from clew_shared.text.redact import redact
from clew_shared.text.spelling import closest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clew_daemon.parts import DaemonParts
    from clew_daemon.supervision.supervisor import Supervisor
    from clew_shared.core.core import Core
    from clew_shared.record.state import State

FEEDBACK_CHARS_MAX = 20_000
GOALS_MAX = 1_000
"""How many goals one request may name."""
SHOWN_MAX = 10


class GoalRequests:
    """The requests of people, each recorded before it has any effect.

    `pause`, `resume`, `cancel` and `retry` take one `goal`, several `goals`, or `all` to which they apply.
    """

    def __init__(self, daemon: DaemonParts, supervisor: Supervisor) -> None:
        self._d = daemon
        self._supervisor = supervisor

    def find(self, params: dict[str, Any]) -> Core:
        """Find a goal by its name, its id, or a unique beginning of either; raises ControlError."""
        name, cores = params.get("goal"), self._d.goals.cores
        if not isinstance(name, str) or not name:
            raise ControlError("which goal? Give its name, its id, or a unique beginning of either")
        if name in cores:
            return cores[name]
        states = self._d.goals.states()
        found = KnownGoals(states).named(name)
        if len(found) == 1:
            return cores[found[0]]
        if found:
            more = ", …" if len(found) > SHOWN_MAX else ""
            raise ControlError(
                f"{name!r} matches {len(found)} goals: {', '.join(found[:SHOWN_MAX])}{more}"
            )
        if name in self._d.goals.gone:
            raise ControlError(f"{name} was deleted: it ended more than `[ledger] keep_days` ago")
        near = closest(name, {one for g, s in states.items() for one in (g, s.spec.name) if one})
        raise ControlError(f"no goal {name!r}" + (f"; did you mean {near}?" if near else ""))

    async def whole(self, params: dict[str, Any]) -> Core:
        """Find a goal, with all of its state; raises ControlError."""
        goal = self.find(params).state.goal_id
        try:
            return await self._d.goals.whole(goal)
        except KeyError:  # it was removed while it was read
            return self.find({"goal": goal})

    async def feedback(self, params: dict[str, Any]) -> dict[str, Any]:
        """Record feedback: the agent is shown it, a blocked goal continues, an ended goal can be retried with it."""
        core, text = await self.whole(params), params.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ControlError("the feedback is empty")
        if len(text) > FEEDBACK_CHARS_MAX:
            raise ControlError(
                f"the feedback has more than {FEEDBACK_CHARS_MAX:,} characters: put it in a file of the workspace"
            )
        text, before = redact(text), core.state.goal.status
        if before == GoalStatus.BLOCKED:
            await self._supervisor.halt(core.state.goal_id, "feedback")
            core = await self._d.goals.whole(core.state.goal_id)
            if core.state.ended:  # it was cancelled while its worker stopped
                raise ControlError(
                    f"{core.state.goal_id} is {core.state.goal.status} now; the feedback was not recorded"
                )
        at = time.time()
        with self._d.goals.entering(core):
            seq = core.emit(ev.FeedbackGiven(at=at, text=text))
            if core.state.goal.status == GoalStatus.BLOCKED:
                core.emit(ev.GoalRequeued(at=at, by="feedback", reopen=True))
        await self._d.goals.commit(core)
        if session := self._supervisor.session(core.state.goal_id):
            session.send_feedback(seq, text)
        return _answer(core, self._effect(core.state, before))

    def _effect(self, state: State, before: str) -> str:
        """Return what becomes of feedback."""
        if before == GoalStatus.BLOCKED:
            return "recorded; the goal continues with it"
        if not state.ended:
            return "recorded; the agent is shown it"
        if state.goal.status == GoalStatus.COMPLETED and self._is_runbook(state):
            return f"recorded. {RUNBOOK_DONE}"
        return f"recorded; `clew retry {called(state)}` continues with it"

    def _is_runbook(self, state: State) -> bool:
        agents, name = self._d.settings.agents, state.spec.agent
        return name in agents.names and isinstance(agents.get(name), RunbookAgentSettings)

    async def unblock(self, params: dict[str, Any]) -> dict[str, Any]:
        """Lift the blocks of a signature."""
        core, signature = await self.whole(params), params.get("signature")
        blocked = core.state.blocked_actions
        if signature not in blocked:
            there = "; ".join(blocked[:SHOWN_MAX]) or "none"
            raise ControlError(f"{signature!r} is not blocked; blocked actions: {there}")
        await self._d.goals.emit(core, ev.Unblocked(at=time.time(), signature=signature))
        return _answer(core, "unblocked")

    async def pause(self, params: dict[str, Any]) -> dict[str, Any]:
        """Stop a goal's worker until `resume`."""
        return await self._apply("pause", params, self._pause)

    async def resume(self, params: dict[str, Any]) -> dict[str, Any]:
        """Resume a paused, waiting or blocked goal."""
        return await self._apply("resume", params, self._resume)

    async def cancel(self, params: dict[str, Any]) -> dict[str, Any]:
        """End a goal, and its worker."""
        return await self._apply("cancel", params, self._cancel)

    async def retry(self, params: dict[str, Any]) -> dict[str, Any]:
        """Continue a goal that failed, was cancelled or is blocked; or a completed one with feedback."""
        return await self._apply("retry", params, self._retry)

    async def _apply(
        self, verb: str, params: dict[str, Any], act: Callable[[Core], Awaitable[str]]
    ) -> dict[str, Any]:
        """Apply a request to one goal, or to several: then `{"results": [...]}` has the answer or the error of each."""
        if "goals" not in params and not params.get("all"):
            return await self._once(verb, params, act)
        names = self._applicable(verb) if params.get("all") else params["goals"]
        if not isinstance(names, list) or (len(names) > GOALS_MAX and not params.get("all")):
            raise ControlError(f"`goals` must be a list of at most {GOALS_MAX:,} goals")
        if not all(isinstance(name, str) for name in names):
            raise ControlError("`goals` must be a list of names or ids")
        goals = dict.fromkeys(self._id_of(name) for name in names)
        results = [self._result(verb, goal, act) for goal in goals]
        return {"results": await asyncio.gather(*results)}

    def _id_of(self, name: str) -> str:
        """Return the id for a name, so that no goal is changed twice; the name itself if it matches no goal."""
        with contextlib.suppress(ControlError):
            return self.find({"goal": name}).state.goal_id
        return name

    def _applicable(self, verb: str) -> list[str]:
        states = self._d.goals.states().items()
        return [goal for goal, state in states if not self._objection(verb, state)]

    async def _result(
        self, verb: str, name: str, act: Callable[[Core], Awaitable[str]]
    ) -> dict[str, Any]:
        try:
            return await self._once(verb, {"goal": name}, act)
        except (ControlError, LedgerError) as error:
            return {"id": name, "error": str(error)}

    async def _once(
        self, verb: str, params: dict[str, Any], act: Callable[[Core], Awaitable[str]]
    ) -> dict[str, Any]:
        core = await self.whole(params)
        if why := self._objection(verb, core.state):
            raise ControlError(f"{core.state.goal_id} is {why}")
        return _answer(core, await act(core))

    def _objection(self, verb: str, state: State) -> str:
        """Return why a request does not apply to a goal, "" if it does; a completed runbook is never reopened."""
        done = state.goal.status == GoalStatus.COMPLETED
        if verb == "retry" and done and self._is_runbook(state):
            return f"completed. {RUNBOOK_DONE}"
        return objection(verb, state)

    async def _pause(self, core: Core) -> str:
        await self._rest(core, ev.GoalWaiting(at=time.time(), reason="paused", paused=True))
        return "paused"

    async def _resume(self, core: Core) -> str:
        is_blocked = core.state.goal.status == GoalStatus.BLOCKED
        await self._requeue(
            core, "resume", reopen=is_blocked or core.state.replan_required == "person"
        )
        return "resumed"

    async def _cancel(self, core: Core) -> str:
        await self._rest(
            core, ev.GoalEnded(at=time.time(), status="cancelled", reason="cancelled by you")
        )
        return "cancelled"

    async def _retry(self, core: Core) -> str:
        await self._requeue(core, "retry", reopen=True)
        return "queued again"

    async def _rest(self, core: Core, event: ev.Event) -> None:
        """Record the event, after which every proposal is refused; then end the worker."""
        await self._d.goals.emit(core, event)
        await self._supervisor.halt(core.state.goal_id, event.kind)

    async def _requeue(self, core: Core, by: str, *, reopen: bool) -> None:
        """Queue a goal again once its last worker has ended; ControlError if another request came first."""
        before = _request_basis(core)
        await self._supervisor.halt(core.state.goal_id, by)
        await self._d.goals.whole(core.state.goal_id)
        stranger, make = None, False
        if by == "resume":
            place = core.state.spec.workspace
            stranger, make = await asyncio.to_thread(workspace_guard.accepted, place, core.state)
        if _request_basis(core) != before:  # another request was recorded while the worker stopped
            raise ControlError(
                f"{core.state.goal_id} is {_status(core.state)} now; `{by}` changed nothing"
            )
        self._refuse_namesake(core.state)
        at, after = time.time(), core.state.rested_seq if core.state.ended else 0
        with self._d.goals.entering(core):
            if stranger:
                core.emit(ev.WorkspaceKnown(at=at, identity=stranger, by="person"))
            core.emit(
                ev.GoalRequeued(
                    at=at,
                    by=by,
                    reopen=reopen,
                    after=after,
                    subtask=follow_up(core.state),
                    make=make,
                )
            )
        await self._d.goals.commit(core)

    def _refuse_namesake(self, state: State) -> None:
        """Raise ControlError if an ended goal would be resumed beside another goal of its name."""
        other = holder(state.spec.name, self._d.goals.states(), state.goal_id)
        if state.ended and other:
            raise ControlError(
                f"{state.goal_id} cannot go on: its name {state.spec.name} is in use by {other}, which has not ended"
            )


RUNBOOK_DONE = (
    "Its agent is a runbook, which carries out the steps of the goal file and nothing else: "
    "submit another goal for what is missing"
)


def objection(verb: str, state: State) -> str:
    """Return why `pause`, `resume`, `cancel` or `retry` does not apply to a goal, "" if it does; a pure rule."""
    status = GoalStatus(state.goal.status)
    match verb:
        case "pause":
            may = not (status.ended or status is GoalStatus.BLOCKED or state.paused)
        case "resume":
            may = status in (GoalStatus.WAITING, GoalStatus.BLOCKED)
        case "cancel":
            return f"already {status}" if status.ended else ""
        case _:
            return _no_retry(state)
    return "" if may else f"{_status(state)}; there is nothing to {verb}"


def _no_retry(state: State) -> str:
    match GoalStatus(state.goal.status):
        case GoalStatus.FAILED | GoalStatus.CANCELLED | GoalStatus.BLOCKED:
            return ""
        case GoalStatus.COMPLETED:
            goal = called(state)
            return (
                ""
                if has_follow_up(state)
                else f"completed; say first what is missing (`clew feedback {goal} …`), then `clew retry {goal}`"
            )
        case _:
            return f"{_status(state)}; there is nothing to retry"


def _request_basis(core: Core) -> tuple[str, bool, int]:
    """Return what a request to go on refers to: the goal's status, and the event that stopped the goal."""
    return str(core.state.goal.status), core.state.paused, core.state.rested_seq


def _status(state: State) -> str:
    return "paused" if state.paused else str(state.goal.status)


def _answer(core: Core, effect: str) -> dict[str, Any]:
    return {"id": core.state.goal_id, "status": str(core.state.goal.status), "said": effect}
