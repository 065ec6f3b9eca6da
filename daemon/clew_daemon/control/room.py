"""What becomes of a request while the ledger takes nothing, because its disk is full or does not answer.

It is refused, or answered that it is done as soon as there is space. Only `pause` and `cancel` end a worker all the
same (`goal_changes`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from clew_daemon.control.server import ControlError
from clew_shared.ledger import LedgerState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from clew_daemon.record.goals import GoalStore
    from clew_shared.core.core import Core
    from clew_shared.ledger import Ledger

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
