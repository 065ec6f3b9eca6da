"""The requests of a person that start or end work on goals: pause, continue, cancel (docs/cli.md).

`resume` and `retry` are `continue` for some of the goals only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from clew_daemon.control.goal_lookup import (
    GoalLookup,
    answer,
    fault,
    is_runbook,
    objection,
    shown_status,
)
from clew_daemon.control.requests import GOALS_MAX, GoalChangeRequest, PauseRequest
from clew_daemon.control.server import ControlError, refuse_abandoned
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import workspace_guard
from clew_daemon.record.dependencies import holder
from clew_daemon.record.doing import interrupted, running_action
from clew_daemon.record.goals import GoalStore
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.core.core import Core
from clew_shared.ledger import Ledger, LedgerError, LedgerState
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus, Result
from clew_shared.record.state import State
from clew_shared.record.transitions import follow_up

# What becomes of a request while the ledger takes nothing, because its disk is full or does not answer.
#
# It is refused, or answered that it is done as soon as there is space. Only `pause` and `cancel` end a worker all the
# same (`goal_changes`).

R = TypeVar("R")

RECORD_S = 2.0
"""How long a request waits for its record before the worker is ended without it."""
ANSWER_S = 20.0
"""How long a request may take before it is answered that it is still being carried out; clients wait for 30 s."""
LOOK_S = 1.0


def trouble(ledger: Ledger) -> str:
    """Return why the ledger does not record."""
    return "the disk does not answer" if ledger.has_room else "the disk is full"


async def is_recorded(goals: GoalStore, core: Core) -> bool:
    """Return whether all that a goal has emitted is durable, or is soon."""
    commit = asyncio.ensure_future(goals.commit(core))
    await asyncio.wait([commit], timeout=0 if goals.ledger.state is LedgerState.FULL else RECORD_S)
    if commit.done():
        commit.result()
        return True
    commit.cancel()
    return False


def with_room(
    ledger: Ledger, answer: Callable[[R], Coroutine[Any, Any, dict[str, Any]]]
) -> Callable[[R], Coroutine[Any, Any, dict[str, Any]]]:
    """Return what answers requests that are recorded; it raises ControlError while there is no room for that."""

    async def answered(request: R) -> dict[str, Any]:
        if not ledger.has_room:
            raise ControlError("the disk is full: free some space and try again; nothing was done")
        work = asyncio.ensure_future(answer(request))
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        until = time.monotonic() + ANSWER_S
        while not work.done():
            await asyncio.wait([work], timeout=LOOK_S)
            if not work.done() and ledger.state is LedgerState.FULL:
                raise ControlError("the disk is full: this is done as soon as there is space")
            if not work.done() and time.monotonic() > until:
                raise ControlError("this takes long: it is still being done")
        return work.result()

    return answered


CONTINUED = (GoalStatus.WAITING, GoalStatus.BLOCKED, GoalStatus.FAILED)
"""The goals that `continue --all` means."""


class GoalChanges:
    """`pause`, `continue`, `resume`, `cancel` and `retry`, each recorded before it has any effect."""

    def __init__(self, daemon: DaemonParts, supervisor: Supervisor, lookup: GoalLookup) -> None:
        self._d = daemon
        self._supervisor = supervisor
        self._lookup = lookup
        self._changes = {
            "pause": self._pause,
            "pause --now": self._pause_now,
            "continue": self._continue,
            "resume": self._resume,
            "cancel": self._cancel,
            "retry": self._retry,
            "rm": self._remove,
        }

    async def change(self, request: GoalChangeRequest) -> dict[str, Any]:
        """Change one goal, or several: then `{"results": [...]}` has the answer or the error of each."""
        verb = request.method
        if isinstance(request, PauseRequest) and request.now:
            verb = "pause --now"
        if request.all:
            return await self._change_each(verb, self._applicable(verb))
        if request.goals is None:
            return await self._change_one(verb, request.goal)
        if len(request.goals) > GOALS_MAX:
            raise fault("goals")
        return await self._change_each(verb, request.goals)

    def _applicable(self, verb: str) -> list[str]:
        states = self._d.goals.states().items()
        every = verb != "continue"  # which would reopen what a person has cancelled, too
        return [
            goal
            for goal, state in states
            if (every or state.goal.status in CONTINUED) and not self._objection(verb, state)
        ]

    async def _change_each(self, verb: str, names: Sequence[str]) -> dict[str, Any]:
        goals = dict.fromkeys(map(self._lookup.id_of, names))  # no goal is changed twice
        return {"results": await asyncio.gather(*(self._result(verb, goal) for goal in goals))}

    async def _result(self, verb: str, goal: str) -> dict[str, Any]:
        try:
            return await self._change_one(verb, goal)
        except (ControlError, LedgerError) as error:
            return {"id": goal, "error": str(error)}

    async def _change_one(self, verb: str, goal: str | None) -> dict[str, Any]:
        core = await self._lookup.whole(goal)
        if why := self._objection(verb, core.state):
            raise ControlError(f"{core.state.goal_id} is {why}")
        return answer(core.state, await self._changes[verb](core))

    def _objection(self, verb: str, state: State) -> str:
        return objection(verb, state, runbook=is_runbook(self._d.settings, state))

    async def _pause(self, core: Core) -> str:
        running = running_action(core.state, time.time())
        if not running:
            return await self._pause_now(core)
        return await self._stop(core, _paused(), "paused", after=running)

    async def _pause_now(self, core: Core) -> str:
        return await self._stop(core, None if core.state.paused else _paused(), "paused")

    async def _continue(self, core: Core) -> str:
        after = await self._requeue(core, "continue")
        return f"continues after {after}" if after else "continues"

    async def _resume(self, core: Core) -> str:
        after = await self._requeue(core, "resume")
        return f"resumed; continues after {after}" if after else "resumed"

    async def _cancel(self, core: Core) -> str:
        reason = "cancelled by you"
        event = ev.GoalEnded(at=time.time(), status="cancelled", reason=reason)
        return await self._stop(core, event, "cancelled")

    async def _retry(self, core: Core) -> str:
        await self._requeue(core, "retry")
        return "queued again"

    async def _remove(self, core: Core) -> str:
        await self._d.goals.emit(core, ev.GoalRemoved(at=time.time()))
        return "removed from the lists; its record stays"

    async def _stop(self, core: Core, event: ev.Event | None, done: str, *, after: str = "") -> str:
        """Record the event, after which every proposal is refused; then end the worker. Return what was done.

        `after`: the action that it may end first. On a full disk the worker is ended at once, recorded or not: it may
        be what fills the disk, and how it ends may have no room on record.
        """
        goal, goals = core.state.goal_id, self._d.goals
        if event:
            with goals.entering(core):
                core.emit(event)
        if not await is_recorded(goals, core):
            await self._supervisor.end(goal, done)
            return f"{done}; not yet on record: {trouble(goals.ledger)}"
        if not goals.ledger.has_room:
            await self._supervisor.end(goal, done)
            return f"{done}; nothing was waited for: the disk is full"
        if after:
            self._supervisor.tell_to_stop(goal, done, after_action=True)
            return f"pausing after {after}; --now interrupts it"
        flights = list(core.state.in_flight.values())
        await self._supervisor.halt(goal, done)
        cut_off = sum(one.action.result == Result.INTERRUPTED for one in flights)
        if not cut_off:
            return done
        then = "" if core.state.ended else f": {self._then(core.state)}"
        return f"{done}; {interrupted(cut_off)}{then}"

    def _then(self, state: State) -> str:
        """Return what follows for a goal whose running action was cut off, once it continues."""
        if not is_runbook(self._d.settings, state):
            return "the agent will be told"
        again = state.spec.on_interrupt == "retry"
        return "its step will run again" if again else "you are asked before its step runs again"

    async def _requeue(self, core: Core, by: str) -> str:
        """Queue a goal again once its last worker has ended; ControlError if another request came first.

        One that rests is reopened: what stopped it no longer counts, since a person has decided. Where a pause still
        waits for the running action, the next worker begins after that; returns which action.
        """
        before = request_basis(core)
        waits = core.state.goal.status == GoalStatus.WAITING
        reopen = not waits or core.state.replan_required == "person"
        running = running_action(core.state, time.time()) if core.state.paused else ""
        if not running:
            await self._supervisor.halt(core.state.goal_id, by)
        await self._d.goals.whole(core.state.goal_id)
        stranger, make = None, False
        if by != "retry":  # which is for what has ended, and accepts no other folder
            place = core.state.spec.workspace
            stranger, make = await asyncio.to_thread(workspace_guard.accepted, place, core.state)
        if request_basis(core) != before:  # another request was recorded while the worker stopped
            raise ControlError(
                f"{core.state.goal_id} is {shown_status(core.state)} now; `{by}` changed nothing"
            )
        self._refuse_namesake(core.state)
        refuse_abandoned()
        at, after = time.time(), core.state.rested_seq if core.state.ended else 0
        with self._d.goals.entering(core):
            if stranger:
                core.emit(ev.WorkspaceKnown(at=at, identity=stranger, by="person"))
            core.emit(
                ev.GoalRequeued(
                    at=at,
                    by=by,
                    reopen=reopen,
                    lifts=reopen,
                    after=after,
                    subtask=follow_up(core.state),
                    make=make,
                )
            )
        await self._d.goals.commit(core)
        return running

    def _refuse_namesake(self, state: State) -> None:
        """Raise ControlError if an ended goal would be resumed beside another goal of its name."""
        other = holder(state.spec.name, self._d.goals.states(), state.goal_id)
        if state.ended and other:
            raise ControlError(
                f"{state.goal_id} cannot go on: its name {state.spec.name} is in use by {other}, which has not ended"
            )


def _paused() -> ev.GoalWaiting:
    return ev.GoalWaiting(at=time.time(), reason="paused", paused=True)


def request_basis(core: Core) -> tuple[str, bool, int]:
    """Return what a request to go on refers to: the goal's status, and the event that stopped the goal."""
    return str(core.state.goal.status), core.state.paused, core.state.rested_seq
