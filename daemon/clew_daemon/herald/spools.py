"""What waits to be sent: messages and spans, bounded, and how each channel does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew_daemon.herald import book
from clew_daemon.herald.book import Database
from clew_daemon.herald.notices import Notice
from clew_daemon.herald.spans import TraceSpan
from clew_shared.backoff import backoff_s

MESSAGES_MAX = 1_000
"""Messages that wait for one channel; the oldest are dropped, and counted."""
SPANS_MAX = 50_000
SPANS_AT_ONCE = 500
OTLP = "otlp"
BACKOFF_S, BACKOFF_MAX_S = 1.0, 300.0


@dataclass(frozen=True, slots=True)
class Message:
    """A message that waits for a channel; `maybe_sent`: an earlier try at it was cut off."""

    id: int
    channel: str
    notice: Notice
    tries: int
    maybe_sent: bool


@dataclass(frozen=True, slots=True)
class ChannelHealth:
    """How a channel does: since when it fails (seconds since 1970) and why, and what waits and was dropped."""

    channel: str
    label: str
    failing_since: float | None
    error: str
    dropped: int
    waiting: int


class Channels:
    """The channels that are configured now; what waits for any other one is dropped."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def configure(self, labels: dict[str, str]) -> None:
        """Keep the channels of these names, with what people call them."""
        with self._database.transaction():
            for (channel,) in self._database.rows(book.MESSAGE_CHANNELS):
                if channel not in labels:
                    self._database.rows(book.FORGET_MESSAGES, channel)
            for channel, *_ in self._database.rows(book.CHANNELS):
                if channel not in labels:
                    self._database.rows(book.FORGET_CHANNEL, channel)
            for channel, label in labels.items():
                self._database.rows(book.ADD_CHANNEL, channel, label)

    def works(self, channel: str) -> None:
        """Note that a channel has taken something."""
        self._database.rows(book.WORKS, channel)

    def fails(self, channel: str, at: float, error: str) -> None:
        """Note that a channel has failed."""
        self._database.rows(book.FAILS, at, error, channel)

    def dropped(self, channel: str, count: int) -> None:
        """Count what was dropped."""
        if count:
            self._database.rows(book.DROPPED, count, channel)

    def health(self) -> list[ChannelHealth]:
        """Return how each channel does."""
        waiting = dict(self._database.rows(book.WAITING))
        waiting[OTLP] = self._database.rows(book.SPAN_COUNT)[0][0]
        found = self._database.rows(book.CHANNELS)
        return [
            ChannelHealth(channel, label, since, error, dropped, waiting.get(channel, 0))
            for channel, label, since, error, dropped in found
        ]


class MessageSpool:
    """Messages, one at a time for each channel, in order."""

    def __init__(self, database: Database, channels: Channels) -> None:
        self._database = database
        self._channels = channels

    def due(self, now: float) -> list[Message]:
        """Return the first message of each channel, where it is due."""
        found = self._database.rows(book.DUE, now)
        return [
            Message(number, channel, Notice.model_validate_json(body), tries, bool(maybe))
            for number, channel, body, tries, maybe in found
        ]

    def next_due(self, channel: str) -> float | None:
        """Return when a channel's first message is due, None if there is none."""
        found = self._database.rows(book.NEXT_DUE, channel)
        return found[0][0] if found else None

    def sending(self, message: Message) -> None:
        """Note that a message is about to be sent; after a power cut, too, it counts as possibly sent."""
        self._database.synced(book.SENDING, message.id)

    def sent(self, message: Message) -> None:
        """Remove a message that was acknowledged."""
        with self._database.transaction():
            self._database.rows(book.SENT, message.id)
            self._channels.works(message.channel)

    def dropped(self, message: Message) -> None:
        """Remove a message that no longer matters."""
        self._database.rows(book.SENT, message.id)

    def failed(self, message: Message, now: float, error: str, *, maybe_sent: bool) -> None:
        """Try a message again later; `maybe_sent`: it may have arrived all the same."""
        with self._database.transaction():
            due = now + backoff_s(message.tries, BACKOFF_S, BACKOFF_MAX_S)
            self._database.rows(book.RETRY, due, maybe_sent or message.maybe_sent, message.id)
            self._channels.fails(message.channel, now, error)
            self._trim(message.channel)

    def hold(self, message: Message, until: float) -> None:
        """Send a message no earlier than `until`."""
        with self._database.transaction():
            self._database.rows(book.HOLD, until, message.id)
            self._trim(message.channel)

    def _trim(self, channel: str) -> None:
        before = dict(self._database.rows(book.WAITING)).get(channel, 0)
        if before > MESSAGES_MAX:
            self._database.rows(book.OLDEST, channel, channel, MESSAGES_MAX)
            self._channels.dropped(channel, before - MESSAGES_MAX)


class SpanSpool:
    """Spans, in the order in which they were completed."""

    def __init__(self, database: Database, channels: Channels) -> None:
        self._database = database
        self._channels = channels

    def first(self) -> tuple[int, list[TraceSpan]]:
        """Return the next spans to send, with the number of the last one."""
        found = self._database.rows(book.SPANS, SPANS_AT_ONCE)
        last = found[-1][0] if found else 0
        return last, [TraceSpan.model_validate_json(body) for _, body in found]

    def sent(self, last: int) -> None:
        """Remove the spans up to this number, which were acknowledged."""
        with self._database.transaction():
            self._database.rows(book.SPANS_SENT, last)
            self._channels.works(OTLP)

    def refused(self, last: int, spans: Sequence[TraceSpan], now: float, error: str) -> None:
        """Remove the spans up to this number, which the collector will never take."""
        with self._database.transaction():
            self._database.rows(book.SPANS_SENT, last)
            self._channels.fails(OTLP, now, error)
            self._channels.dropped(OTLP, len(spans))

    def failed(self, now: float, error: str) -> None:
        """Keep the spans for later, but not more than `SPANS_MAX`."""
        with self._database.transaction():
            self._channels.fails(OTLP, now, error)
            beyond: int = self._database.rows(book.SPAN_COUNT)[0][0] - SPANS_MAX
            if beyond > 0:
                self._database.rows(book.OLDEST_SPANS, SPANS_MAX)
                self._channels.dropped(OTLP, beyond)
