"""Durable events as they are recorded: from the daemon's stream, and from the ledger while no daemon runs.

Both have the same cursor, so nothing is missed or seen twice when one takes the place of the other.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from clew_daemon.reading.client import Address, connected
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import opened
from clew_shared.backoff import backoff_s
from clew_shared.ledger import Cursor, LedgerError

SILENT_S = 30.0
"""After this time without a line the daemon counts as gone: it sends one at least every 10 s."""

ANSWER_S = 5.0
"""How long the answer to `follow` may take; the ledger has the events in the meantime."""

LOOK_S = 0.1
"""How long a poll waits, at most, between two looks into the ledger."""

LOOK_ROWS = 500
LINE_BYTES_MAX = 64 << 20
READ_BYTES = 1 << 18
RETRY_S, RETRY_MAX_S = 0.1, 5.0
POLL_S = 1.0
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A durable event; `goal` is "" for the daemon's own, `body` its JSON, which `record.codec` decodes."""

    seq: int
    goal: str
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamBegin:
    """The stream begins, or begins again after an interruption.

    With `reset`, the earlier cursor is of another ledger, or events after it were purged. `goals` has the entries of
    `clew status --json` if the daemon does not continue from an earlier cursor.
    """

    after: str
    reset: bool
    goals: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """Events in the order in which they were recorded; none while nothing happens. `after` is the cursor after them."""

    after: str
    events: tuple[StreamEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamGone:
    """The daemon cannot be followed for now."""

    reason: str


StreamNews = StreamBegin | StreamBatch | StreamGone


def follow_line(after: str | None) -> bytes:
    """Return the request to follow all goals, as it is sent."""
    params = {} if after is None else {"after": after}
    request = {"jsonrpc": "2.0", "id": 1, "method": "follow", "params": params}
    return json.dumps(request).encode() + b"\n"


def read_line(line: bytes) -> StreamNews:
    """Return what a line of the stream says; raises ValueError."""
    try:
        message = json.loads(line)
        if "error" in message:
            return StreamGone(str(message["error"]["message"]))
        if "result" in message:
            found = message["result"]
            return StreamBegin(str(found["after"]), bool(found["reset"]), tuple(found["goals"]))
        params = message["params"]
        return StreamBatch(str(params["after"]), tuple(map(_event, params["events"])))
    except _UNREADABLE as error:
        raise ValueError(f"the daemon's answer cannot be read: {error}") from None


def _event(found: Mapping[str, Any]) -> StreamEvent:
    event = found["event"]
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    return StreamEvent(int(found["seq"]), str(found["goal"]), str(event["kind"]), body)


class EventSource:
    """All events of a home; `find` returns where its daemon listens, which may change with each daemon.

    `after` is the cursor after the last events that `poll` returned, `is_streaming` says that they come from a daemon.
    """

    def __init__(self, find: Callable[[], Address], ledger: Path, after: str | None = None) -> None:
        self._find = find
        self._ledger = ledger
        self.after = after
        self.is_streaming = False
        self._channel: socket.socket | None = None
        self._rest = b""
        self._heard_at = self._retry_at = 0.0
        self._failures = 0
        self._was_told = False

    def poll(self, wait_s: float) -> list[StreamNews]:
        """Return what is new, after at most `wait_s` if nothing is; raises LedgerError.

        A daemon that cannot be followed is reported once, until it is back.
        """
        wait_s = wait_s if self.is_streaming else min(wait_s, LOOK_S)
        try:
            channel = self._channel or self._connected(wait_s)
            news = self._received(channel, wait_s) if channel else []
        except (OSError, EOFError, CliError, ValueError) as error:
            news = self._gone(StreamGone(str(error) or "the daemon has ended"))
        return news if self._channel else [*news, *self._looked()]  # it may still answer

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
        self._channel, self.is_streaming, self._rest = None, False, b""

    def _connected(self, wait_s: float) -> socket.socket | None:
        """Connect if it is time to, and ask to follow; None if it is not."""
        pause_s = self._retry_at - time.monotonic()
        time.sleep(max(0.0, min(wait_s, pause_s)))
        if pause_s > wait_s:
            return None
        self._channel = connected(self._find())
        self._heard_at = time.monotonic()
        self._channel.sendall(follow_line(self.after))
        return self._channel

    def _received(self, channel: socket.socket, wait_s: float) -> list[StreamNews]:
        channel.settimeout(max(wait_s, 0.001))
        try:
            part = channel.recv(READ_BYTES)
        except TimeoutError:
            silent_s = SILENT_S if self.is_streaming else ANSWER_S
            if time.monotonic() - self._heard_at > silent_s:
                raise ValueError(f"the daemon has sent nothing for {silent_s:g} s") from None
            return []
        if not part:
            raise EOFError
        self._heard_at = time.monotonic()
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise ValueError(f"a line of more than {LINE_BYTES_MAX} bytes")
        found: list[StreamNews] = []
        for news in list(map(read_line, lines)):  # all are readable, or none is taken
            if isinstance(news, StreamGone):
                return [*found, *self._gone(news)]
            if isinstance(news, StreamBegin):
                self.is_streaming, self._was_told, self._failures = True, False, 0
            self.after = news.after
            found.append(news)
        return found

    def _gone(self, news: StreamGone) -> list[StreamNews]:
        self.close()
        self._retry_at = time.monotonic() + backoff_s(self._failures, RETRY_S, RETRY_MAX_S)
        self._failures += 1
        was_told, self._was_told = self._was_told, True
        return [] if was_told else [news]

    def _looked(self) -> list[StreamNews]:
        """Read the next events from the ledger, which may be replaced meanwhile; a first look begins at its end."""
        with opened(self._ledger) as reader:
            if reader is None:
                return []
            after = Cursor.parse(self.after) if self.after else None
            if after is None or not after.is_of(reader):
                self.after = str(Cursor.at_end(reader))
                return [StreamBegin(self.after, reset=after is not None)]
            rows = list(islice(reader.read_all(after.seq), LOOK_ROWS))
        if not rows:
            return []
        self.after = str(Cursor(rows[-1].seq, rows[-1].hash))
        events = (StreamEvent(row.seq, row.goal, row.kind, row.body) for row in rows)
        return [StreamBatch(self.after, tuple(events))]


class Following:
    """Follows all events of an instance in a thread, which calls `heard` with each piece of news."""

    def __init__(self, instance: Instance, heard: Callable[[StreamNews], None]) -> None:
        self.source = EventSource(lambda: instance.socket, instance.ledger)
        self._heard = heard
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)

    def begin(self) -> None:
        """Start following."""
        self._thread.start()

    def end(self) -> None:
        """Stop following, without waiting for the thread."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                for news in self.source.poll(POLL_S):
                    self._heard(news)
            except LedgerError as error:
                self._heard(StreamGone(str(error)))
                self._ended.wait(POLL_S)
        self.source.close()
