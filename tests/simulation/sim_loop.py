"""An event loop without a machine: time is a number, one callback runs at a time, and no thread or socket exists.

The daemon's own coroutines run on it unchanged. Callbacks run in the order in which asyncio promises them; when
none is ready, time leaps to the next timer. It can be stopped for good between any two callbacks, as by SIGKILL.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EPOCH_S = 1_790_000_000.0
CLEANUP_STEPS_MAX = 100_000


@dataclass(slots=True)
class Clock:
    """The simulated machine's clocks, in seconds; it has the calls of `time` that the daemon uses."""

    now: float = 1_000.0
    wall: float = EPOCH_S

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + self.wall

    def jump(self, by_s: float) -> None:
        """Set the wall clock, as a person or NTP would; durations do not feel it."""
        self.wall += by_s


class StuckError(Exception):
    """Nothing is left to do, and what was waited for has not come."""


class Loop(asyncio.AbstractEventLoop):
    """The event loop of one incarnation of the simulated daemon."""

    def __init__(self, clock: Clock, thread_s: Callable[[], float]) -> None:
        self.clock = clock
        self.steps = 0
        self.unexpected: list[dict[str, Any]] = []
        self.halted: Callable[[], bool] = lambda: False
        self._thread_s = thread_s
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0

    def run(self, main: asyncio.Task[Any], steps: int | None = None) -> bool:
        """Run until `main` is done, or for so many callbacks; True where `main` is done."""
        end = None if steps is None else self.steps + steps
        asyncio._set_running_loop(self)
        try:
            while not main.done() and (end is None or self.steps < end) and not self.halted():
                self._step()
        finally:
            asyncio._set_running_loop(None)
        return main.done()

    def bury(self) -> None:
        """End every task after a death; what they still do reaches nobody."""
        asyncio._set_running_loop(self)
        try:
            for task in asyncio.all_tasks(self):
                task.cancel()
            for _ in range(CLEANUP_STEPS_MAX):
                tasks = asyncio.all_tasks(self)
                if not tasks and not self._ready:
                    break
                if not self._ready and not self._timers:
                    for task in tasks:
                        task.cancel()
                self._step()
        finally:
            asyncio._set_running_loop(None)
        self._ready.clear()
        self._timers.clear()

    def _step(self) -> None:
        self._due()
        if not self._ready:
            if not self._timers:
                raise StuckError
            self.clock.now = max(self.clock.now, self._timers[0][0])
            self._due()
        handle = self._ready.popleft()
        if not handle.cancelled():
            self.steps += 1
            handle._run()

    def _due(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].cancelled() or timers[0][0] <= self.clock.now):
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)

    # -- what asyncio asks of a loop -----------------------------------------------------------------

    def time(self) -> float:
        return self.clock.now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self.clock.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1  # equal moments keep their order
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Dropped when its moment comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        """Let a thread do it: a little later, whole, whether or not somebody still waits for it."""
        future = self.create_future()
        self.call_later(self._thread_s(), _in_thread, future, func, args)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unexpected.append(context)


def _in_thread(future: asyncio.Future[Any], func: Any, args: tuple[Any, ...]) -> None:
    try:
        result = func(*args)
    except Exception as error:  # noqa: BLE001 - a thread hands on whatever comes
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)
