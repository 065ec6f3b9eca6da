"""Which goal a request is about, and why a request cannot be fulfilled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from clew_daemon.control.requests import GOALS_MAX, IMPORTED_AT_ONCE_MAX, ControlRequest
from clew_daemon.control.server import Answer, ControlError, Handler
from clew_daemon.record.dependencies import called
from clew_daemon.record.goal_limits import has_runbook
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.naming import ambiguous, meant
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


def objection(verb: str, state: State, *, runbook: bool) -> str:
    """Return why a request does not apply to a goal, "" if it does; a completed runbook is never reopened.

    `pause --now` does not wait for the action that is carried out.
    """
    status = GoalStatus(state.goal.status)
    match verb:
        case "pause" if state.paused and state.in_flight:
            return "pausing already; --now interrupts its running action"
        case "pause --now" if state.paused and state.in_flight:
            return ""
        case "pause" | "pause --now":
            may = not (status.ended or status is GoalStatus.BLOCKED or state.paused)
        case "resume":
            may = status in (GoalStatus.WAITING, GoalStatus.BLOCKED)
        case "continue" if status is GoalStatus.WAITING:
            may = True
        case "cancel":
            return f"already {status}" if status.ended else ""
        case "rm" | "edit":
            return _no_removal(state) if verb == "rm" else _no_edit(state)
        case _:
            return _no_retry(verb, state, runbook=runbook)
    return "" if may else f"{shown_status(state)}; there is nothing to {verb}"


def _no_removal(state: State) -> str:
    if state.removed:
        return "removed already"
    goal = called(state)
    ended = GoalStatus(state.goal.status).ended
    return "" if ended else f"{shown_status(state)}, not ended: `clew cancel {goal}` first"


def _no_edit(state: State) -> str:
    goal = called(state)
    if state.in_flight:
        return "at work until its running action ends: wait, or `clew pause --now`"
    match GoalStatus(state.goal.status):
        case GoalStatus.IN_PROGRESS:
            return f"at work: `clew pause {goal}` first, then edit it, and `clew continue {goal}`"
        case GoalStatus.COMPLETED:
            return "completed: submit another goal, or say what is missing (`clew feedback`)"
        case _:
            return ""


def _no_retry(verb: str, state: State, *, runbook: bool) -> str:
    match GoalStatus(state.goal.status):
        case GoalStatus.FAILED | GoalStatus.CANCELLED | GoalStatus.BLOCKED:
            return ""
        case GoalStatus.COMPLETED if runbook:
            return f"completed. {RUNBOOK_DONE}"
        case GoalStatus.COMPLETED if has_follow_up(state):
            return ""
        case GoalStatus.COMPLETED:
            goal = called(state)
            return f"completed; say first what is missing (`clew feedback {goal} …`), then `clew {verb} {goal}`"
        case _:
            return f"{shown_status(state)}; there is nothing to {verb}"


def is_runbook(settings: Settings, state: State) -> bool:
    """Return whether a goal's agent is a runbook."""
    return has_runbook(state, settings)


def shown_status(state: State) -> str:
    """Return a goal's status as a person is shown it."""
    return "paused" if state.paused else str(state.goal.status)


def answer(state: State, effect: str) -> dict[str, Any]:
    """Return the answer to a request on one goal; `effect` says what it has done."""
    return {"id": state.goal_id, "status": str(state.goal.status), "said": effect}


R = TypeVar("R", bound=ControlRequest)

WHICH_GOAL = "which goal? Give its name, its id, or the beginning of either"
FAULTS = {
    "goal": WHICH_GOAL,
    "before": WHICH_GOAL,
    "after": "`after` is {value!r}; it must be the cursor of an earlier answer",
    "limit": "`limit` is {value!r}; it must be a number of goals, or null for all",
    "text": "the feedback is empty",
    "signature": "which action? Give the signature of a blocked one, as `clew status GOAL` lists them",
    "goals": f"`goals` must be a list of at most {GOALS_MAX:,} names or ids",
    "all": "`all` must be true or false",
    "now": "`now` must be true or false",
    "subtask": "`subtask` is {value!r}; it must be the index of a task and that of a subtask in it, from 0",
    "theirs": "`theirs` must be true or false",
    "perform": "`perform` must be true or false",
    "expected": "`expected` must be the `plan` of an earlier answer",
    "id": "which strategy? give its id, as listed by `clew playbook list`",
    "below": "`below` is {value!r}; a score is between -1 and 1",
    "bullets": f"`bullets` must be a list of at most {IMPORTED_AT_ONCE_MAX}",
}
"""What a person reads if a parameter is missing or not of its type."""


def fault(name: str, value: Any = None) -> ControlError:
    """Return the error for a parameter with a wrong value."""
    return ControlError(FAULTS[name].format(value=value))


def handler(kind: type[R], answer: Callable[[R], Awaitable[Answer]]) -> dict[str, Handler]:
    """Return the handler of one method, by its name: it reads the request and answers it."""
    adapter = TypeAdapter(kind)

    async def handle(params: dict[str, Any]) -> Answer:
        try:  # as JSON, in which a list is a tuple although nothing is coerced
            request = adapter.validate_json(to_json(params), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise fault(str(first["loc"][0]), first["input"]) from None
        return await answer(request)

    return {kind.method: handle}


SHOWN_MAX = 10


class GoalLookup:
    """Finds goals by a name, an id, or the beginning of either."""

    def __init__(self, goals: GoalStore) -> None:
        self._goals = goals

    def find(self, name: str | None) -> Core:
        """Find a goal; raises ControlError."""
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

    def id_of(self, name: str) -> str:
        """Return the id for a name; the name itself if it matches no goal."""
        with contextlib.suppress(ControlError):
            return self.find(name).state.goal_id
        return name
