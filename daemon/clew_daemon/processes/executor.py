"""The daemon's side of an executor: sends allowed actions, receives outcomes, and notices when it dies.

One request at a time runs there. It decides nothing.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, Self, TypeVar

from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.children import exit_words
from clew_daemon.processes.lines import LineChannel, LineError
from clew_daemon.processes.nursery import Cell, Nursery
from clew_shared.text.redact import redact
from clew_shared.text.words import ending
from clew_shared.wire import executor as wire
from clew_shared.wire.framing import OversizedMessageError, WireMessage
from clew_shared.wire.nursery import CellSpec

AnswerT = TypeVar("AnswerT", bound=WireMessage)

READY_TIMEOUT_S = 60.0
ANSWER_MARGIN_S = 30.0  # An executor that is later than its own deadline by more than this hangs

INVALID = "it sent an invalid message"

DIGEST_TIMEOUT_S = SNAPSHOT_TIMEOUT_S = LOOK_TIMEOUT_S = 120.0
RESTORE_TIMEOUT_S = VIEW_TIMEOUT_S = 300.0


class ExecutorFault(Exception):
    """The executor could not carry something out, or not to its end."""


class ExecutorDied(ExecutorFault):
    """The executor ended, or hung and was killed, before it answered."""


class OutOfResources(ExecutorFault):
    """No executor could be started for lack of descriptors, processes or memory: nothing began."""


class NoView(ExecutorFault):
    """No view of the workspace could be made, or it could not be made ready."""


class WorkspaceMissingError(ExecutorDied):
    """The folder that the executor works in is not what stands there: nothing began."""


class _Ask(NamedTuple):
    """A request that was numbered and packed, and who waits for its answer, a message of this kind."""

    kind: type[WireMessage]
    number: int
    line: bytes
    timeout_s: float
    answer: asyncio.Future[Any]


class ExecutorProcess:
    """One executor process. It carries out the first of its asks; the others wait for that."""

    def __init__(self, cell: Cell, channel: LineChannel) -> None:
        self.cell = cell
        self._channel = channel
        self._asks: deque[_Ask] = deque()
        self._numbers = count()
        self._said: Callable[[str], None] = lambda _tail: None
        self._late: asyncio.TimerHandle
        self._failing: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, nursery: Nursery, spec: CellSpec, group: CellGroup | None) -> Self:
        """Spawn an executor and wait until it answers; raises SpawnError or ExecutorDied."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                cell = await nursery.spawn(spec, theirs.fileno(), None, group)
        except BaseException:
            ours.close()
            raise
        executor = cls(cell, await LineChannel.over(ours, wire.LINE_BYTES_MAX))
        ready = executor._ask(wire.ExecutorReady, None, READY_TIMEOUT_S)
        executor._channel.give(executor._take)
        try:
            await ready
        except BaseException:
            await executor.end()
            raise
        return executor

    @property
    def alive(self) -> bool:
        """It has not ended, nor been given up, as far as is known."""
        return not (self._channel.closed or self.cell.guard.ended.done())

    async def run(self, request: wire.RunRequest, said: Callable[[str], None]) -> wire.ActionDone:
        """Carry out an action; raises ExecutorDied where its effect is unknown. `said` is told what it has printed."""
        self._said = said
        return await self._carried_out(request, "not carried out, the arguments are too long")

    async def check(self, request: wire.CheckRequest) -> wire.ActionDone:
        return await self._carried_out(request, "not run, the check is too long")

    async def _carried_out(
        self, request: wire.RunRequest | wire.CheckRequest, too_long: str
    ) -> wire.ActionDone:
        try:
            return await self._ask(wire.ActionDone, request, request.timeout_s + ANSWER_MARGIN_S)
        except OversizedMessageError as error:  # nothing was begun
            text = f"{too_long}: {error}"
            return wire.ActionDone(result="error", output=text, duration_s=0.0, changed=False)

    def digest(self, request: wire.DigestRequest) -> asyncio.Future[wire.DigestDone]:
        return self._ask(wire.DigestDone, request, DIGEST_TIMEOUT_S)

    def snapshot(self, request: wire.SnapshotRequest) -> asyncio.Future[wire.SnapshotDone]:
        return self._ask(wire.SnapshotDone, request, SNAPSHOT_TIMEOUT_S)

    def restore(self, request: wire.RestoreRequest) -> asyncio.Future[wire.RestoreDone]:
        """Restore at most RESTORE_MAX entries. Safe to repeat."""
        return self._ask(wire.RestoreDone, request, RESTORE_TIMEOUT_S)

    def look(self, request: wire.LookRequest) -> asyncio.Future[wire.LookDone]:
        return self._ask(wire.LookDone, request, LOOK_TIMEOUT_S)

    def prepare(self, request: wire.ViewRequest) -> asyncio.Future[wire.LookDone]:
        """Make the view that this executor runs in ready for checks."""
        return self._ask(wire.LookDone, request, VIEW_TIMEOUT_S)

    async def end(self) -> None:
        """End the executor and everything that it started."""
        self._channel.close()
        await self.cell.kill()

    def _ask(
        self, kind: type[AnswerT], request: wire.ExecutorRequest | None, timeout_s: float
    ) -> asyncio.Future[AnswerT]:
        """Send a request, at once or when those before it are answered; the future may hold ExecutorDied."""
        number = next(self._numbers)
        line = wire.to_line(request, number) if request else b""
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        if self._channel.closed:
            answer.set_exception(ExecutorDied("it was ended"))
            answer.exception()  # or asyncio complains where nobody awaits it
            return answer
        answer.add_done_callback(self._settled)
        self._asks.append(_Ask(kind, number, line, timeout_s, answer))
        if len(self._asks) == 1:
            self._begin()
        return answer

    def _begin(self) -> None:
        """Send the first request that is still waited for; its time begins."""
        while self._asks and self._asks[0].answer.done():
            self._asks.popleft()
        if self._asks:
            first, loop = self._asks[0], asyncio.get_running_loop()
            self._late = loop.call_later(first.timeout_s, self._fail, "no answer in time")
            self._channel.write(first.line)
            if first.line and self._channel.ended:  # else what it has said is still to be taken
                self._fail()

    def _settled(self, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled() and self._asks and self._asks[0].answer is answer:
            self.cell.kill_nowait()  # its answer would be taken for the next one's

    def _take(self, line: bytes | None) -> None:
        """Take a message, None at the end of all; nothing comes from a sound executor that was not asked for."""
        first = self._asks[0] if self._asks else None
        if self._failing or not (first or line):
            return
        try:
            message = wire.read_answer(line) if line else None
        except ValueError:
            self._fail(INVALID)
            return
        if message is None:
            self._fail()
        elif isinstance(message, wire.ExecutorFailed):
            self._fail(f"an error in clew: {redact(message.error)}")
        elif not first or getattr(message, "id", 0) != first.number:
            self._fail(INVALID)
        elif isinstance(message, wire.ActionSaid):
            self._said(message.tail)
        elif isinstance(message, first.kind):
            self._late.cancel()
            self._asks.popleft()
            if not first.answer.done():
                first.answer.set_result(message)
            self._begin()
        else:
            self._fail(INVALID)

    def _fail(self, why: str = "") -> None:
        """End it, and all that is asked of it; `why`, where it has not just ended."""
        if not self._failing:
            self._failing = asyncio.ensure_future(self._failed(why))

    async def _failed(self, why: str) -> None:
        code = 255
        if type(self._channel.fault) is LineError:
            why = INVALID
        try:
            self._channel.close()
            code = await self.cell.kill()
        finally:
            self._late.cancel()
            for ask in self._asks:
                if not ask.answer.done():
                    ask.answer.set_exception(ExecutorDied(why or ending(exit_words(code))))
                    ask.answer.exception()  # marks it as retrieved, as above
            self._asks.clear()
