"""Which goal a request is about, whether the request applies to it, and how its parameters are read."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from clew_daemon.control.server import Answer, ControlError, Handler
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.record.dependencies import ambiguous, called, meant
from clew_daemon.record.goals import GoalStore
from clew_shared.core.core import Core
from clew_shared.ledger.errors import LedgerState
from clew_shared.record.state import State
from clew_shared.text.spelling import closest

RUNBOOK = "Its agent is a runbook, which carries out the steps of the goal file and nothing else"
RUNBOOK_DONE = f"{RUNBOOK}: submit another goal for what is missing"
WHICH_GOAL = "which goal? Give its name, its id, or the beginning of either"

FAULTS_SHOWN, FAULT_CHARS = 10, 100
ANSWER_S = 20.0  # after which a request is answered that it goes on; clients wait for 30 s


def objection(verb: str, state: State, *, runbook: bool) -> str:
    """Return why a request does not apply to a goal, "" if it does; a completed runbook is never reopened."""
    status, goal, shown = str(state.goal.status), called(state), shown_status(state)
    acts, done = bool(state.in_flight), status == "completed"
    at_work = f"at work: `clew pause {goal}` first, then edit it, and `clew continue {goal}`"
    rests = state.ended or status == "blocked" or (state.paused and not acts)
    nothing = f"{shown}; there is nothing to {verb.removesuffix(' --now')}"
    missing = f"say first what is missing (`clew feedback {goal} …`), then `clew {verb} {goal}`"
    refusals = (
        (("pause",), state.paused and acts, "pausing already; --now interrupts its running action"),
        (("pause", "pause --now"), rests, nothing),
        (("cancel",), state.ended, f"already {status}"),
        (("rm",), state.removed, "removed already"),
        (("rm",), not state.ended, f"{shown}, not ended: `clew cancel {goal}` first"),
        (("edit",), acts, "at work until its running action ends: wait, or `clew pause --now`"),
        (("edit",), status == "in_progress", at_work),
        (("edit",), done, "completed: submit another goal, or say what is missing (`clew feedback`)"),
        (("continue", "retry"), done and runbook, f"completed. {RUNBOOK_DONE}"),
        (("continue", "retry"), done and not state.has_follow_up, f"completed; {missing}"),
        (tuple(_GOES_ON), status not in _GOES_ON.get(verb, ()), nothing),
    )  # fmt: skip
    return next((why for verbs, holds, why in refusals if verb in verbs and holds), "")


_GOES_ON = {
    "resume": ("blocked", "waiting"),
    "continue": ("blocked", "failed", "cancelled", "waiting", "completed"),
    "retry": ("blocked", "failed", "cancelled", "completed"),
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
    method: str, answer: Callable[..., Awaitable[Answer]], record: Ledger | None = None
) -> Handler:
    """Return what answers a method: `answer`, by its signature; not without room for a `record` that it waits for."""
    adapter = TypeAdapter[Any](cast("Any", answer))  # a callable has a schema, too

    async def handle(params: Mapping[str, object]) -> Answer:
        if record and not record.has_room:
            raise ControlError("the disk is full: free some space and try again; nothing was done")
        try:  # as JSON, in which a list is a tuple although nothing is coerced
            answering: Awaitable[Answer] = adapter.validate_json(to_json(params), strict=True)
        except ValidationError as error:
            faults = {(str(one["loc"][0])[:FAULT_CHARS], one["msg"]) for one in error.errors()}
            shown = "; ".join(f"`{name}`: {what}" for name, what in sorted(faults)[:FAULTS_SHOWN])
            raise ControlError(f"{method}: {shown}") from None
        work = asyncio.ensure_future(answering)
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        if record is None:
            return await work
        await asyncio.wait([work], timeout=ANSWER_S)
        if work.done():
            return work.result()
        if record.state is LedgerState.FULL:
            raise ControlError("the disk is full: this is done as soon as there is space")
        raise ControlError("this takes long: it is still being done")

    return handle


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
        found = meant(name, names, states.__getitem__)
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
