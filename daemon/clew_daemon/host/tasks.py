"""Work beside the event loop's own: tasks that run as long as the daemon, queues of goals, and threads."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from clew_shared.ledger.errors import LedgerCorrupt, LedgerError, LedgerFailed

log = structlog.get_logger()

RETRY_S = STOP_S = 5.0
THREADS = 6
THREADS_START_S = 30.0
WITHIN_S = 0.3

T = TypeVar("T")


async def within(seconds: float | None, work: Awaitable[T]) -> T | None:
    """Return the result of `work`; if it takes longer than `seconds` (None: no limit), cancel it and return None."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await work
    return None


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


async def to_its_end(work: Coroutine[Any, Any, T], within_s: float) -> T:
    """Carry out work that has begun, for `within_s` at most once the caller is cancelled; then that goes on."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=within_s)
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _ended(task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None or isinstance(error, LedgerFailed):
        return
    log.error("daemon.bug", error=repr(error), exc_info=error)


@dataclass(eq=False)
class GoalQueue:
    """Calls `_work` with each goal that is due, again RETRY_S after an error, unless its record is damaged."""

    _work: Callable[[str], Awaitable[None]]
    _log_failure: Callable[[str, Exception], None]
    _due: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    _task: asyncio.Task[None] | None = None

    def due(self, goal: str) -> None:
        """Work on a goal as soon as possible; once more if it is due already."""
        self._due.put_nowait(goal)

    def start(self) -> None:
        self._task = start(self._run())

    async def stop(self) -> None:
        """Finish what is due within STOP_S, then stop."""
        if self._task is None:
            return
        await within(STOP_S, self._due.join())
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            goal = await self._due.get()
            try:
                await self._work(goal)
            except LedgerFailed:
                return  # it is still due at the next start
            except (OSError, LedgerError) as error:
                self._log_failure(goal, error)
                if not isinstance(error, LedgerCorrupt):
                    asyncio.get_running_loop().call_later(RETRY_S, self.due, goal)
            finally:
                self._due.task_done()


@dataclass(eq=False)
class LastKnown(Generic[T]):
    """The last known result of a look at the disk, in a thread, for requests that cannot wait for a stalled one."""

    _look: Callable[[], T]
    _found: T
    _task: asyncio.Task[None] | None = None

    async def now(self, within_s: float = WITHIN_S) -> T:
        """Return what is there now, or was at the last look if this one takes longer than `within_s` seconds."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._update())
        await asyncio.wait({self._task}, timeout=within_s)
        if self._task.done():
            self._task.result()  # raises what the look raised
        return self._found

    async def _update(self) -> None:
        self._found = await asyncio.to_thread(self._look)


class ThreadsError(Exception):
    """No thread can be started: the user has as many processes as it may have."""

    def __init__(self) -> None:
        hint = "raise TasksMax= or LimitNPROC= of the unit (`ulimit -u` in a shell)"
        super().__init__(f"cannot start threads, too many processes: {hint}, or end other programs")


def pool(count: int, name: str) -> ThreadPoolExecutor:
    """Make a pool whose threads all run already: one that fails to start later would lose work. Raises ThreadsError."""
    made = ThreadPoolExecutor(count, name)
    met = threading.Barrier(count)
    try:
        wait([made.submit(met.wait, THREADS_START_S) for _ in range(count)])
    except RuntimeError:
        met.abort()
        made.shutdown(wait=False, cancel_futures=True)
        raise ThreadsError from None
    return made
