"""Durable events from wherever they can be had: from the daemon's stream, and from the ledger while no daemon runs.

Both have the same cursor, so nothing is missed or seen twice when one takes the place of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_daemon.cli.stream.client import StreamClient
from clew_daemon.cli.stream.messages import StreamBatch, StreamBegin, StreamEvent
from clew_shared.ledger import Cursor, Follower

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clew_daemon.cli.client import Address
    from clew_daemon.cli.stream.messages import StreamNews

LOOK_S = 0.1
"""How long a call waits, at most, between two looks into the ledger."""


class EventSource:
    """Yields all events of a home; `find` returns where its daemon listens, `ledger` is its file."""

    def __init__(self, find: Callable[[], Address], ledger: Path, after: str | None = None) -> None:
        self._client = StreamClient(find, after=after)
        self._path = ledger
        self._follower: Follower | None = None

    @property
    def after(self) -> str | None:
        """The cursor after the last events that `poll` returned."""
        return self._client.after

    @property
    def is_streaming(self) -> bool:
        """Whether the events come from a daemon."""
        return self._client.is_following

    def poll(self, wait_s: float) -> list[StreamNews]:
        """Return what is new, after at most `wait_s` if nothing is; raises LedgerError."""
        news = self._client.poll(wait_s if self.is_streaming else min(wait_s, LOOK_S))
        if self.is_streaming:
            self._close_ledger()
            return news
        if self._client.fileno() >= 0:
            return news  # it has not answered yet
        return news + self._look()

    def close(self) -> None:
        """Close the connection and the ledger."""
        self._client.close()
        self._close_ledger()

    def _look(self) -> list[StreamNews]:
        """Read the next events from the ledger."""
        before = self.after
        if self._follower is None:
            self._follower = Follower(self._path, Cursor.parse(before) if before else None)
        rows = self._follower.look()
        if self._follower.reader is None:
            return []
        after = self._client.after = str(self._follower.after)
        found: list[StreamNews] = []
        if self._follower.was_reset or before is None:
            found.append(StreamBegin(after, reset=self._follower.was_reset))
        if rows:
            events = tuple(StreamEvent(row.seq, row.goal, row.kind, row.body) for row in rows)
            found.append(StreamBatch(after, events))
        return found

    def _close_ledger(self) -> None:
        if self._follower is not None:
            self._follower.close()
            self._follower = None
