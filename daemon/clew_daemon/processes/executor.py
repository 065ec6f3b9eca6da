"""The daemon's side of an executor: sends allowed actions, receives outcomes, and notices when it dies.

One request at a time runs there. It decides nothing.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Self, TypeVar

from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.children import exit_words
from clew_daemon.processes.lines import CutLineError, LineChannel, LineError
from clew_daemon.processes.nursery import Cell, Nursery
from clew_shared.text.plain import plain
from clew_shared.text.redact import redact
from clew_shared.text.words import ending
from clew_shared.wire import executor as wire
from clew_shared.wire.framing import OversizedMessageError
from clew_shared.wire.nursery import CellSpec

AnswerT = TypeVar("AnswerT", bound=wire.Numbered)

READY_TIMEOUT_S = 60.0
ANSWER_MARGIN_S = 30.0  # An executor that is later than its own deadline by more than this hangs

DIGEST_TIMEOUT_S = SNAPSHOT_TIMEOUT_S = LOOK_TIMEOUT_S = 120.0
RESTORE_TIMEOUT_S = VIEW_TIMEOUT_S = 300.0


class ExecutorDied(Exception):
    """The executor ended, or hung and was killed, before it answered."""


class OutOfResources(ExecutorDied):
    """No executor could be started for lack of descriptors, processes or memory: nothing began."""


class WorkspaceMissingError(ExecutorDied):
    """The folder that the executor works in is not what stands there: nothing began."""


class ExecutorProcess:
    """One executor process."""

    def __init__(self, cell: Cell, channel: LineChannel) -> None:
        self.cell = cell
        self._channel = channel
        self._next = 0
        self._said: Callable[[str], None] = lambda _tail: None
        self._lock = asyncio.Lock()

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
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await executor._read()
        except (TimeoutError, asyncio.CancelledError) as error:
            await executor.end()
            if isinstance(error, TimeoutError):
                raise ExecutorDied("no answer in time") from None
            raise
        return executor

    @property
    def alive(self) -> bool:
        """It has not ended, as far as is known."""
        return not self.cell.guard.ended.done()

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

    async def digest(self, request: wire.DigestRequest) -> wire.DigestDone:
        return await self._ask(wire.DigestDone, request, DIGEST_TIMEOUT_S)

    async def snapshot(self, request: wire.SnapshotRequest) -> wire.SnapshotDone:
        return await self._ask(wire.SnapshotDone, request, SNAPSHOT_TIMEOUT_S)

    async def restore(self, request: wire.RestoreRequest) -> wire.RestoreDone:
        """Restore at most RESTORE_MAX entries. Safe to repeat."""
        return await self._ask(wire.RestoreDone, request, RESTORE_TIMEOUT_S)

    async def look(self, request: wire.LookRequest) -> wire.LookDone:
        return await self._ask(wire.LookDone, request, LOOK_TIMEOUT_S)

    async def prepare(self, request: wire.ViewRequest) -> wire.LookDone:
        """Make the view that this executor runs in ready for checks."""
        return await self._ask(wire.LookDone, request, VIEW_TIMEOUT_S)

    async def end(self) -> None:
        """End the executor and everything that it started."""
        self._channel.close()
        await self.cell.kill()

    async def _ask(
        self, kind: type[AnswerT], request: wire.ExecutorRequest, timeout_s: float
    ) -> AnswerT:
        """Send one request and wait for its answer; one of another kind is a broken executor."""
        async with self._lock:
            if self._channel.closed:  # it was ended while this request waited
                raise ExecutorDied("it was ended")
            self._next += 1
            line = wire.to_line(request.model_copy(update={"id": self._next}))
            try:
                async with asyncio.timeout(timeout_s):
                    await self._channel.send(line)  # one that is gone has ended: it is read below
                    while True:
                        answer = await self._read()
                        if isinstance(answer, kind) and answer.id == self._next:
                            return answer
                        if isinstance(answer, wire.ActionSaid) and answer.id == self._next:
                            self._said(answer.tail)
            except (OSError, TimeoutError) as error:
                await self.end()
                raise ExecutorDied(plain(error) or "no answer in time") from None
            except asyncio.CancelledError:
                # its answer would be taken for the next one's
                self.cell.kill_nowait()
                raise

    async def _read(self) -> Any:
        try:
            line = await self._channel.receive()
            answer = wire.read_answer(line) if line else None
        except CutLineError:
            answer = None
        except (LineError, ValueError):
            await self.cell.kill()
            raise ExecutorDied("it sent an invalid message") from None
        if answer is None or isinstance(answer, wire.ExecutorFailed):
            code = await self.cell.kill()
            failed = f"an error in clew: {redact(answer.error)}" if answer else ""
            raise ExecutorDied(failed or ending(exit_words(code)))
        return answer
