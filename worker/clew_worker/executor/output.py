"""Keeps a bounded part of an output of any size, as text without control characters or lone surrogates."""

import re

_CONTROL = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]")
_CONTINUATION = 0b1000_0000
_TAIL_BYTES = 1_000


def clean(text: str) -> str:
    """Replace control characters (except white space and colours) and lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _is_continuation(byte: int) -> bool:
    return byte & 0b1100_0000 == _CONTINUATION


def _without_torn_end(data: bytes) -> bytes:
    """Drop the character that a cut has torn at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if not _is_continuation(byte):
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data


def _without_torn_start(data: bytes) -> bytes:
    """Drop what a cut has left of a character at the start."""
    start = 0
    while start < min(3, len(data)) and _is_continuation(data[start]):
        start += 1
    return data[start:]


class Capture:
    """The head and the tail of a stream, at most `limit` bytes of it in memory and in the text."""

    def __init__(self, limit: int) -> None:
        self._head_max = max(limit // 2, 1)
        self._tail_max = max(limit - self._head_max, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Add the next piece."""
        self._total += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * self._tail_max:
            del self._tail[: -self._tail_max]

    def tail(self) -> str:
        """Return the last lines so far."""
        end = bytes((self._head + self._tail)[-_TAIL_BYTES:])
        return clean(_without_torn_start(_without_torn_end(end)).decode(errors="replace"))

    def text(self) -> str:
        """Return the head and the tail, with a line between them that states how much was left out."""
        if self._total <= self._head_max + self._tail_max:
            return clean((self._head + self._tail).decode(errors="replace"))
        head = _without_torn_end(bytes(self._head))
        tail = _without_torn_start(bytes(self._tail[-self._tail_max :]))
        left_out = self._total - len(head) - len(tail)
        marker = f"\n[... {left_out} bytes left out ...]\n"
        return clean(head.decode(errors="replace") + marker + tail.decode(errors="replace"))


def cut(text: str, limit: int) -> str:
    """Cut a text in the middle so that about `limit` bytes of it are left."""
    capture = Capture(limit)
    capture.add(text.encode(errors="replace"))
    return capture.text()
