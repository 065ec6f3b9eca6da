"""Which goal a request is about, whether the request applies to it, and what a request has to look like."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypedDict, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from clew_daemon.control.requests import ControlRequest
from clew_daemon.control.server import Answer, ControlError, Handler
from clew_daemon.record.dependencies import ambiguous, called, meant
from clew_daemon.record.goals import GoalStore
from clew_shared.core.core import Core
from clew_shared.ledger import Ledger, LedgerState
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

ANSWER_S = 20.0
"""How long a request may take before it is answered that it is still being carried out; clients wait for 30 s."""


def objection(verb: str, state: State, *, runbook: bool) -> str:
    """Return why a request does not apply to a goal, "" if it does; a completed runbook is never reopened.

    `pause --now` does not wait for the action that is carried out.
    """
    status, goal, shown = GoalStatus(state.goal.status), called(state), shown_status(state)
    why, applies = "", False
    match verb:
        case "pause" | "pause --now" if state.paused and state.in_flight:
            applies = verb == "pause --now"
            why = "pausing already; --now interrupts its running action"
        case "pause" | "pause --now":
            applies = not (state.ended or status is GoalStatus.BLOCKED or state.paused)
            why = f"{shown}; there is nothing to pause"
        case "cancel":
            applies, why = not state.ended, f"already {status}"
        case "rm":
            applies = state.ended and not state.removed
            why = f"{shown}, not ended: `clew cancel {goal}` first"
            why = "removed already" if state.removed else why
        case "edit" if state.in_flight:
            why = "at work until its running action ends: wait, or `clew pause --now`"
        case "edit" if status is GoalStatus.IN_PROGRESS:
            why = f"at work: `clew pause {goal}` first, then edit it, and `clew continue {goal}`"
        case "edit":
            applies = status is not GoalStatus.COMPLETED
            why = "completed: submit another goal, or say what is missing (`clew feedback`)"
        case _ if status is not GoalStatus.COMPLETED or verb == "resume":
            applies = status in _GOES_ON[verb]
            why = f"{shown}; there is nothing to {verb}"
        case _ if runbook:
            why = f"completed. {RUNBOOK_DONE}"
        case _:
            applies = has_follow_up(state)
            why = f"completed; say first what is missing (`clew feedback {goal} …`), then `clew {verb} {goal}`"
    return "" if applies else why


_CUT_SHORT = {GoalStatus.BLOCKED, GoalStatus.FAILED, GoalStatus.CANCELLED}
_GOES_ON = {
    "resume": {GoalStatus.BLOCKED, GoalStatus.WAITING},
    "continue": {*_CUT_SHORT, GoalStatus.WAITING},
    "retry": _CUT_SHORT,
}


def shown_status(state: State) -> str:
    return "paused" if state.paused else str(state.goal.status)


class GoalAnswer(TypedDict):
    """The answer to a request on one goal; `said` is what it has done."""

    id: str
    status: str
    said: str


def answer(state: State, effect: str) -> GoalAnswer:
    return {"id": state.goal_id, "status": str(state.goal.status), "said": effect}


def handler(
    kind: type[R], answer: Callable[[R], Awaitable[Answer]], record: Ledger | None = None
) -> dict[str, Handler]:
    """Return the handler of one method, by its name: it reads the request and answers it.

    One whose answer waits for the `record` of it raises ControlError while there is no room for that.
    """
    adapter = TypeAdapter(kind)

    async def handle(params: Mapping[str, object]) -> Answer:
        try:  # as JSON, in which a list is a tuple although nothing is coerced
            request = adapter.validate_json(to_json(params), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise ControlError(f"{kind.method}: `{first['loc'][0]}`: {first['msg']}") from None
        if record is None:
            return await answer(request)
        if not record.has_room:
            raise ControlError("the disk is full: free some space and try again; nothing was done")
        work = asyncio.ensure_future(answer(request))
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([work], timeout=ANSWER_S)
        if work.done():
            return work.result()
        if record.state is LedgerState.FULL:
            raise ControlError("the disk is full: this is done as soon as there is space")
        raise ControlError("this takes long: it is still being done")

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
