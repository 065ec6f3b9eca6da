"""The request to undo what a goal has changed; docs/snapshots.md has its rules."""

from __future__ import annotations

import asyncio
from typing import Any

from clew_daemon.control.goal_lookup import GoalLookup, fault
from clew_daemon.control.requests import UndoRequest
from clew_daemon.control.server import ControlError
from clew_daemon.supervision.supervisor import Supervisor
from clew_daemon.undo.planning import UndoRefused
from clew_daemon.undo.undo import Undo, UndoResult
from clew_daemon.undo.view import undo_view
from clew_daemon.undo.visit import VisitFailed
from clew_shared.core.core import Core
from clew_shared.record.state import State
from clew_shared.snapshots.store import StoreError

END_S = 60.0
"""How long an undo waits for the end of a worker whose goal is no longer at work."""


class UndoRequests:
    """Shows and performs an undo, one at a time for each goal, and only while the goal has no worker."""

    def __init__(self, undo: Undo, supervisor: Supervisor, lookup: GoalLookup) -> None:
        self._undo = undo
        self._supervisor = supervisor
        self._lookup = lookup

    async def answer(self, request: UndoRequest) -> dict[str, Any]:
        """Return what the undo would do or has done, as `undo_view` has it."""
        core = await self._lookup.whole(request.goal)
        _check_subtask(core.state, request.subtask)
        if not core.state.workable:  # its last worker may still be ending
            await self._supervisor.finished(core.state.goal_id, END_S)
            core = await self._lookup.whole(request.goal)
        self._refuse_busy(core.state)
        with self._supervisor.hold(core.state.goal_id):  # nothing was awaited since it was not busy
            try:
                result = await self._result(core, request)
            except (UndoRefused, VisitFailed, StoreError) as error:
                raise ControlError(f"{core.state.goal_id}: {error}{_half(core.state)}") from None
        return await asyncio.to_thread(undo_view, core.state, result)

    async def _result(self, core: Core, request: UndoRequest) -> UndoResult:
        if not request.perform:
            return await self._undo.preview(core, request.subtask, theirs=request.theirs)
        return await self._undo.perform(
            core, request.subtask, theirs=request.theirs, expected=request.expected
        )

    def _refuse_busy(self, state: State) -> None:
        goal = state.goal_id
        if goal in self._supervisor.running:
            raise ControlError(
                f"{goal} is at work: stop it first, with `clew pause {goal}` or `clew cancel {goal}`"
            )
        if self._supervisor.uses(goal):
            raise ControlError(f"another undo of {goal} is in progress: try again when it is done")
        if other := self._supervisor.at_work_in(state.spec.workspace):
            raise ControlError(
                f"{goal}: {other} is at work in the same folder, or in one below or above it:"
                f" wait until it has ended, or stop it first, with `clew pause {other}`"
            )


def _half(state: State) -> str:
    """Return that an undo has begun and is not complete, if it is so."""
    if not state.snapshots.undoing:
        return ""
    return f"\nThe workspace is half undone: `clew undo {state.goal_id}` completes it."


def _check_subtask(state: State, subtask: tuple[int, int] | None) -> None:
    """Raise ControlError if the goal has no such subtask."""
    if subtask is None:
        return
    tasks, (task, index) = state.goal.tasks, subtask
    if not (0 <= task < len(tasks) and 0 <= index < len(tasks[task].subtasks)):
        raise fault("subtask", list(subtask))
