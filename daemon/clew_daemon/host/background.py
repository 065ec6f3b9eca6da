"""Tasks that run as long as the daemon: a transient error does not end them, and none ends silently."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from clew_shared.ledger import LedgerError, LedgerFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

log = structlog.get_logger()


def start(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task; an error that ends it is logged as a bug."""
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(_ended)
    return task


async def repeat(
    name: str, every_s: float, work: Callable[[], Awaitable[Any]], *, first_s: float = 0.0
) -> None:
    """Do some work after `first_s` and then every `every_s` seconds; an error of disk or ledger is only logged."""
    await asyncio.sleep(first_s)
    while True:
        try:
            await work()
        except LedgerFailed:
            return  # the daemon is about to stop
        except (OSError, LedgerError) as error:
            log.warning("housekeeping.deferred", what=name, reason=str(error), again_s=every_s)
        await asyncio.sleep(every_s)


def _ended(task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None or isinstance(error, LedgerFailed):
        return
    log.error("daemon.bug", error=repr(error), exc_info=error)
