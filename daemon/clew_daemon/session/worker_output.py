"""What an agent prints: its lines for the log, and the end of it for a person; both without secret keys.

It does not log itself. Keys are looked for in whole lines, several at a time, because a key
that arrived in two pieces would be recognised in neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.files.pipes import PipeReader
from clew_shared.text.redact import redact

if TYPE_CHECKING:
    from collections.abc import Callable

LINES_MAX = 200
LINE_CHARS = 500
LINE_BYTES_MAX = 1 << 16
TAIL_CHARS = 2_000


class WorkerOutput:
    """Takes bytes as they arrive; passes the first LINES_MAX lines to `log`, and drops the rest."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._passed = 0
        self._rest = b""
        self._tail = ""

    def take(self, data: bytes) -> None:
        """Take the next piece; a line is passed on when it is whole, or longer than a line should be."""
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            whole, newline, self._rest = whole + newline + self._rest, b"\n", b""
        self._take_lines(whole + newline)

    def end(self) -> None:
        """Pass on the last line, which had no line end."""
        rest, self._rest = self._rest, b""
        self._take_lines(rest)

    @property
    def tail(self) -> str:
        """The end of everything that was printed."""
        return (self._tail + _text(self._rest))[-TAIL_CHARS:].strip()

    def _take_lines(self, data: bytes) -> None:
        text = _text(data)
        self._tail = (self._tail + text)[-TAIL_CHARS:]
        for line in text.splitlines():
            if self._passed >= LINES_MAX:
                return
            if line.strip():
                self._passed += 1
                self._log(line[:LINE_CHARS])


async def drain(fd: int, into: WorkerOutput) -> None:
    """Read a pipe to its end, pass on what it has, and close it."""
    async with PipeReader(fd) as pipe:
        try:
            while data := await pipe.read(1 << 14):
                into.take(data)
        finally:
            into.end()


def _text(data: bytes) -> str:
    return redact(data.decode("utf-8", "replace"))
