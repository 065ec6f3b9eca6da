"""Which goal a request is about, whether the request applies to it, and what a request has to look like."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from clew_daemon.control.requests import ControlRequest
from clew_daemon.control.server import Answer, ControlError, Handler
from clew_daemon.record.dependencies import ambiguous, called, meant
from clew_daemon.record.goal_limits import has_runbook
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.core.core import Core
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State
from clew_shared.record.transitions import has_follow_up
from clew_shared.text.spelling import closest

RUNBOOK_DONE = (
    "Its agent is a runbook, which carries out the steps of the goal file and nothing else: "
    "submit another goal for what is missing"
)
WHICH_GOAL = "which goal? Give its name, its id, or the beginning of either"

R = TypeVar("R", bound=ControlRequest)


def objection(verb: str, state: State, *, runbook: bool) -> str:
    """Return why a request does not apply to a goal, "" if it does; a completed runbook is never reopened.

    `pause --now` does not wait for the action that is carried out.
    """
    if verb in ("resume", "continue", "retry"):
        return _to_go_on(verb, state, runbook=runbook)
    return _OBJECTIONS[verb](state)


def _to_go_on(verb: str, state: State, *, runbook: bool) -> str:
    status, goal = GoalStatus(state.goal.status), called(state)
    applies = status is GoalStatus.BLOCKED
    applies |= status is GoalStatus.WAITING and verb != "retry"
    applies |= status in (GoalStatus.FAILED, GoalStatus.CANCELLED) and verb != "resume"
    if applies:
        return ""
    if status is not GoalStatus.COMPLETED or verb == "resume":
        return f"{shown_status(state)}; there is nothing to {verb}"
    if runbook:
        return f"completed. {RUNBOOK_DONE}"
    if has_follow_up(state):
        return ""
    return f"completed; say first what is missing (`clew feedback {goal} …`), then `clew {verb} {goal}`"


def _to_pause(state: State, *, now: bool = False) -> str:
    if state.paused and state.in_flight:
        return "" if now else "pausing already; --now interrupts its running action"
    rests = state.ended or state.goal.status == GoalStatus.BLOCKED or state.paused
    return f"{shown_status(state)}; there is nothing to pause" if rests else ""


def _to_remove(state: State) -> str:
    if state.removed:
        return "removed already"
    how = f"not ended: `clew cancel {called(state)}` first"
    return "" if state.ended else f"{shown_status(state)}, {how}"


def _to_edit(state: State) -> str:
    goal = called(state)
    if state.in_flight:
        return "at work until its running action ends: wait, or `clew pause --now`"
    if state.goal.status == GoalStatus.IN_PROGRESS:
        return f"at work: `clew pause {goal}` first, then edit it, and `clew continue {goal}`"
    if state.goal.status == GoalStatus.COMPLETED:
        return "completed: submit another goal, or say what is missing (`clew feedback`)"
    return ""


_OBJECTIONS: dict[str, Callable[[State], str]] = {
    "pause": _to_pause,
    "pause --now": partial(_to_pause, now=True),
    "cancel": lambda state: f"already {state.goal.status}" if state.ended else "",
    "rm": _to_remove,
    "edit": _to_edit,
}


def is_runbook(settings: Settings, state: State) -> bool:
    return has_runbook(state, settings)


def shown_status(state: State) -> str:
    return "paused" if state.paused else str(state.goal.status)


def answer(state: State, effect: str) -> dict[str, Any]:
    """Return the answer to a request on one goal; `effect` says what it has done."""
    return {"id": state.goal_id, "status": str(state.goal.status), "said": effect}


def handler(kind: type[R], answer: Callable[[R], Awaitable[Answer]]) -> dict[str, Handler]:
    """Return the handler of one method, by its name: it reads the request and answers it."""
    adapter = TypeAdapter(kind)

    async def handle(params: dict[str, Any]) -> Answer:
        try:  # as JSON, in which a list is a tuple although nothing is coerced
            request = adapter.validate_json(to_json(params), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise ControlError(f"{kind.method}: `{first['loc'][0]}`: {first['msg']}") from None
        return await answer(request)

    return {kind.method: handle}


class GoalLookup:
    """Finds goals by a name, an id, or the beginning of either."""

    def __init__(self, goals: GoalStore) -> None:
        self._goals = goals

    def find(self, name: str | None) -> Core:
        cores = self._goals.cores
        if not name:
            raise ControlError(WHICH_GOAL)
        if name in cores:
            return cores[name]
        states = self._goals.states()
        names = {goal: state.spec.name for goal, state in states.items()}
        found = meant(
            name, names, lambda goal: states[goal].ended, lambda goal: states[goal].removed
        )
        if len(found) == 1:
            return cores[found[0]]
        if found:
            raise ControlError(ambiguous(name, (states[goal] for goal in found), time.time()))
        if name in self._goals.gone:
            raise ControlError(f"{name} was deleted: it ended more than `[ledger] keep_days` ago")
        listed = [(goal, s.spec.name) for goal, s in states.items() if not s.removed]
        near = closest(name, {one for both in listed for one in both if one})
        raise ControlError(f"no goal {name!r}" + (f"; did you mean {near}?" if near else ""))

    async def whole(self, name: str | None) -> Core:
        """Find a goal, with all of its state; raises ControlError."""
        goal = self.find(name).state.goal_id
        try:
            return await self._goals.whole(goal)
        except KeyError:  # it was removed while it was read
            return self.find(goal)
