"""A pool of connections that read a ledger, from any thread."""

from __future__ import annotations

import struct
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clew_shared.ledger.errors import corrupt
from clew_shared.ledger.opening import explained, open_reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import apsw


class ReadPool:
    """Read-only connections to one ledger, one per call at a time."""

    def __init__(self, path: Path, *, immutable: bool = False) -> None:
        self.path = path
        self._immutable = immutable
        self._idle: deque[apsw.Connection] = deque()

    @contextmanager
    def connection(self) -> Iterator[apsw.Connection]:
        """Borrow a read-only connection; its errors are raised as the ledger's own."""
        with explained(self.path):
            try:
                con = self._idle.pop()
            except IndexError:
                con = self._opened()
            try:
                yield con
            except BaseException:
                con.close()
                raise
            self._idle.append(con)

    def _opened(self) -> apsw.Connection:
        return open_reading(self.path, immutable=self._immutable)

    def _rows(self, sql: str, *bindings: Any) -> list[tuple[Any, ...]]:
        with self.connection() as con:
            return con.execute(sql, bindings).fetchall()

    @contextmanager
    def _decoding(self, what: str) -> Iterator[None]:
        """Treat a value of a type that was never written as damage."""
        try:
            yield
        except (TypeError, AttributeError, ValueError, struct.error) as error:
            raise corrupt(self.path, f"damaged: {what} cannot be read: {error}") from error

    def _close_readers(self) -> None:
        while self._idle:
            self._idle.pop().close()
