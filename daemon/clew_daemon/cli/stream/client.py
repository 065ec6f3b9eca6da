"""Durable events from wherever they can be had: from the daemon's stream, and from the ledger while no daemon runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from clew_daemon.cli.client import connected
from clew_daemon.cli.errors import CliError
from clew_daemon.cli.stream.following import Follower
from clew_daemon.cli.stream.messages import (
    ANSWER_S,
    LINE_BYTES_MAX,
    RETRY_MAX_S,
    RETRY_S,
    SILENT_S,
    StreamBatch,
    StreamBegin,
    StreamError,
    StreamEvent,
    StreamGone,
    follow_line,
    read_line,
)
from clew_shared.backoff import backoff_s
from clew_shared.ledger import Cursor

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from clew_daemon.cli.client import Address
    from clew_daemon.cli.stream.messages import StreamNews


# Durable events from wherever they can be had: from the daemon's stream, and from the ledger while no daemon runs.
#
# Both have the same cursor, so nothing is missed or seen twice when one takes the place of the other.

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


_READ_BYTES = 1 << 18
ENDED = "the daemon has ended"


class StreamClient:
    """Follows one goal or all; `find` returns where the daemon listens, which may change with each daemon.

    `after` is the cursor after the last events that `poll` returned, None before the first answer.
    """

    def __init__(
        self, find: Callable[[], Address], goal: str | None = None, after: str | None = None
    ) -> None:
        self._find = find
        self._goal = goal
        self.after = after
        self._channel: socket.socket | None = None
        self._rest = bytearray()
        self._heard_at = 0.0
        self._retry_at = 0.0
        self._failures = 0
        self._was_told = False
        self.is_following = False
        """Whether the daemon has answered, and its connection is open."""

    def poll(self, wait_s: float) -> list[StreamNews]:
        """Return what is new, after at most `wait_s` if nothing is.

        A daemon that cannot be followed is reported once, until it is back.
        """
        try:
            if self._channel is None and not self._connect(wait_s):
                return []
            return self._received(wait_s)
        except (OSError, EOFError, CliError, StreamError) as error:
            return self._gone(StreamGone(str(error) or ENDED))

    def fileno(self) -> int:
        """Return the connection's file descriptor, -1 while there is none."""
        return -1 if self._channel is None else self._channel.fileno()

    def close(self) -> None:
        """Close the connection; `poll` would make another one."""
        self.is_following = False
        self._rest.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _connect(self, wait_s: float) -> bool:
        """Connect if it is time to, and ask to follow; return whether there is a connection."""
        pause_s = self._retry_at - time.monotonic()
        if pause_s > wait_s:
            time.sleep(wait_s)
            return False
        time.sleep(max(0.0, pause_s))
        self._channel = connected(self._find())
        self._heard_at = time.monotonic()
        self._channel.sendall(follow_line(self._goal, self.after))
        return True

    def _received(self, wait_s: float) -> list[StreamNews]:
        channel = self._channel
        assert channel is not None  # noqa: S101 - connected before
        channel.settimeout(max(wait_s, 0.001))
        try:
            part = channel.recv(_READ_BYTES)
        except TimeoutError:
            silent_s = SILENT_S if self.is_following else ANSWER_S
            if time.monotonic() - self._heard_at > silent_s:
                raise StreamError(f"the daemon has sent nothing for {silent_s:g} s") from None
            return []
        if not part:
            raise EOFError
        self._heard_at = time.monotonic()
        self._rest += part
        if len(self._rest) > LINE_BYTES_MAX:
            raise StreamError(f"a line of more than {LINE_BYTES_MAX} bytes")
        return self._news() if b"\n" in part else []

    def _news(self) -> list[StreamNews]:
        """Take the whole lines that were received."""
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        found: list[StreamNews] = []
        for line in lines:
            news = read_line(bytes(line))
            if isinstance(news, StreamGone):
                return found + self._gone(news)
            self._take(news)
            found.append(news)
        return found

    def _take(self, news: StreamBegin | StreamBatch) -> None:
        self.after = news.after
        if isinstance(news, StreamBegin):
            self.is_following, self._was_told, self._failures = True, False, 0

    def _gone(self, news: StreamGone) -> list[StreamNews]:
        self.close()
        self._retry_at = time.monotonic() + backoff_s(self._failures, RETRY_S, RETRY_MAX_S)
        self._failures += 1
        was_told, self._was_told = self._was_told, True
        return [] if was_told else [news]
