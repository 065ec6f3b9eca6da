"""The herald's own record: where it has read to, what it has counted, and what it has yet to send.

One SQLite file in the state folder. What follows from events is stored in one transaction with the cursor after them,
so that each event counts once, wherever the process is killed. What is to be sent stays until it was acknowledged.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from clew_daemon.herald.counters import Counters, MetricSeries
from clew_daemon.herald.notes import GoalNote
from clew_daemon.herald.notices import Notice
from clew_daemon.herald.spans import Trace, TraceSpan
from clew_shared.ledger import Cursor

VERSION = 1
CREATE = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE goals (
  goal TEXT PRIMARY KEY, status TEXT NOT NULL, note TEXT NOT NULL, trace TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE counters (
  name TEXT NOT NULL, labels TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (name, labels)
) WITHOUT ROWID;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, channel TEXT NOT NULL, body TEXT NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, maybe_sent INTEGER NOT NULL DEFAULT 0,
  UNIQUE (key, channel)
);
CREATE TABLE spans (id INTEGER PRIMARY KEY, span TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE channels (
  channel TEXT PRIMARY KEY, label TEXT NOT NULL, failing_since REAL, error TEXT NOT NULL DEFAULT '',
  dropped INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
"""

FACT = "SELECT value FROM facts WHERE name = ?"
SET_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"

GOAL = "SELECT note, trace FROM goals WHERE goal = ?"
SET_GOAL = "INSERT OR REPLACE INTO goals VALUES (?, ?, ?, ?)"
FORGET_GOAL = "DELETE FROM goals WHERE goal = ?"
FORGET_GOALS = "DELETE FROM goals"
STATUSES = "SELECT status, count(*) FROM goals GROUP BY status"
UNSETTLED = """
SELECT goal, note, trace FROM goals WHERE status NOT IN ('completed', 'failed', 'cancelled')
"""

COUNTERS = "SELECT name, labels, value FROM counters"
SET_COUNTER = "INSERT OR REPLACE INTO counters VALUES (?, ?, ?)"

ADD_MESSAGE = "INSERT OR IGNORE INTO messages (key, channel, body) VALUES (?, ?, ?)"
DUE = """
SELECT id, channel, body, tries, maybe_sent FROM messages AS m
 WHERE due <= ? AND id = (SELECT min(id) FROM messages WHERE channel = m.channel) ORDER BY id
"""
NEXT_DUE = "SELECT due FROM messages WHERE channel = ? ORDER BY id LIMIT 1"
SENDING = "UPDATE messages SET tries = tries + 1, maybe_sent = 1 WHERE id = ?"
RETRY = "UPDATE messages SET due = ?, maybe_sent = ? WHERE id = ?"
HOLD = "UPDATE messages SET due = ? WHERE id = ?"
SENT = "DELETE FROM messages WHERE id = ?"
WAITING = "SELECT channel, count(*) FROM messages GROUP BY channel"
OLDEST = """
DELETE FROM messages WHERE channel = ? AND id NOT IN (
  SELECT id FROM messages WHERE channel = ? ORDER BY id DESC LIMIT ?)
"""
FORGET_MESSAGES = "DELETE FROM messages WHERE channel = ?"
MESSAGE_CHANNELS = "SELECT DISTINCT channel FROM messages"

ADD_SPAN = "INSERT OR IGNORE INTO spans (span, body) VALUES (?, ?)"
SPANS = "SELECT id, body FROM spans ORDER BY id LIMIT ?"
SPANS_SENT = "DELETE FROM spans WHERE id <= ?"
SPAN_COUNT = "SELECT count(*) FROM spans"
OLDEST_SPANS = """
DELETE FROM spans WHERE id <= (SELECT id FROM spans ORDER BY id DESC LIMIT 1 OFFSET ?)
"""

CHANNELS = "SELECT channel, label, failing_since, error, dropped FROM channels"
ADD_CHANNEL = """
INSERT INTO channels (channel, label) VALUES (?, ?)
    ON CONFLICT (channel) DO UPDATE SET label = excluded.label
"""
WORKS = "UPDATE channels SET failing_since = NULL, error = '' WHERE channel = ?"
FAILS = """
UPDATE channels SET failing_since = ifnull(failing_since, ?), error = ? WHERE channel = ?
"""
DROPPED = "UPDATE channels SET dropped = dropped + ? WHERE channel = ?"
FORGET_CHANNEL = "DELETE FROM channels WHERE channel = ?"

BUSY_MS = 5_000
CURSOR = "cursor"


class BookError(Exception):
    """The book cannot be used; the message says why, and what to do."""


@dataclass(slots=True)
class GoalEntry:
    """What is remembered of one goal."""

    note: GoalNote
    trace: Trace


@dataclass(slots=True)
class Page:
    """What some events lead to, to be stored at once; `after` is the cursor behind them."""

    after: Cursor
    goals: dict[str, GoalEntry] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    counters: dict[MetricSeries, int] = field(default_factory=dict)
    spans: list[TraceSpan] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    from_scratch: bool = False


class Database:
    """The file, used by several threads, one at a time."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con
        self._lock = threading.RLock()

    def rows(self, sql: str, *bindings: Any) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows."""
        with self._lock:
            return self._con.execute(sql, bindings).fetchall()

    def synced(self, sql: str, *bindings: Any) -> None:
        """Execute a statement, and wait until the disk has it and all before it."""
        with self._lock:
            self._con.pragma("synchronous", "full")
            try:
                self._con.execute(sql, bindings)
            finally:
                self._con.pragma("synchronous", "normal")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the statements inside durable together."""
        with self._lock, self._con:
            yield

    def copy_from(self, source: apsw.Connection) -> None:
        """Replace everything by what another database holds."""
        with self._lock, self._con.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(1_000)

    def close(self) -> None:
        """Close the file; a thread that wants to use it afterwards waits until the process ends."""
        self._lock.acquire()  # noqa: SIM115, RUF100 - it stays locked
        self._con.close()


class Book:
    """The record, of which the spools of `messages` and `spans` are views in files of their own."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._unsettled = {
            goal: _entry(note, trace) for goal, note, trace in database.rows(UNSETTLED)
        }

    @classmethod
    def open(cls, path: Path | None) -> Book:
        """Open or make the book, in memory if there is no `path`; raises BookError."""
        try:
            con = apsw.Connection(str(path) if path else ":memory:")
            con.set_busy_timeout(BUSY_MS)
            if path:
                path.chmod(0o600)
                con.pragma("journal_mode", "wal")
                con.pragma(
                    "synchronous", "normal"
                )  # a power cut may take the end: it is read again
            version = con.pragma("user_version")
            if version == 0:
                with con:
                    con.execute(CREATE)
            elif version != VERSION:
                raise BookError(f"{path} is of version {version}: run the newer clew that wrote it")
            return cls(Database(con))
        except (apsw.Error, OSError, ValueError) as error:
            hint = "move it away: the herald then counts from the ledger again"
            raise BookError(f"{path} cannot be used: {error}; {hint}") from error

    @classmethod
    def copied(cls, path: Path) -> Book:
        """Return a copy, in memory, of the book at `path`, which a herald may use meanwhile; raises BookError."""
        copy = cls.open(None)
        try:
            con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            con.set_busy_timeout(BUSY_MS)
            copy.database.copy_from(con)
            con.close()
            return cls(copy.database)
        except (apsw.Error, ValueError) as error:
            copy.close()
            raise BookError(f"{path} cannot be read: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # -- what was read

    @property
    def cursor(self) -> Cursor | None:
        """Where reading goes on, None if nothing was read yet."""
        text = self.fact(CURSOR)
        return None if text is None else Cursor.parse(text)

    def fact(self, name: str) -> str | None:
        """Return what was stored under a name."""
        found = self.database.rows(FACT, name)
        return found[0][0] if found else None

    def set_fact(self, name: str, value: str) -> None:
        """Store something under a name."""
        self.database.rows(SET_FACT, name, value)

    def goal(self, goal: str, *, fresh: bool = False) -> GoalEntry:
        """Return a copy of what is remembered of a goal, empty for a new one, or if it is to be `fresh`."""
        if fresh:
            return GoalEntry(GoalNote(), Trace(goal=goal))
        if (known := self._unsettled.get(goal)) is not None:
            return GoalEntry(known.note.model_copy(), known.trace.model_copy(deep=True))
        found = self.database.rows(GOAL, goal)
        return _entry(*found[0]) if found else GoalEntry(GoalNote(), Trace(goal=goal))

    def unsettled(self) -> dict[str, GoalNote]:
        """Return the notes of the goals that have not ended."""
        return {goal: entry.note for goal, entry in list(self._unsettled.items())}

    def statuses(self) -> dict[str, int]:
        """Return how many goals have which status."""
        return dict(self.database.rows(STATUSES))

    def counters(self) -> Counters:
        """Return the counters as they are stored."""
        found = self.database.rows(COUNTERS)
        return Counters({MetricSeries(name, tuple(json.loads(lab))): n for name, lab, n in found})

    def store(self, page: Page, channels: Iterable[str], *, spans: bool) -> None:
        """Store what events lead to: a copy of each message for each channel, and the spans if they are wanted."""
        with self.database.transaction():
            if page.from_scratch:
                self.database.rows(FORGET_GOALS)
            for goal, entry in page.goals.items():
                self._set_goal(goal, entry)
            for goal in page.forgotten:
                self.database.rows(FORGET_GOAL, goal)
            for series, value in page.counters.items():
                labels = json.dumps(series.labels)
                self.database.rows(SET_COUNTER, series.name, labels, value)
            for notice in page.notices:
                self.add_message(notice, channels)
            for span in page.spans if spans else ():
                self.database.rows(ADD_SPAN, span.id, span.model_dump_json())
            self.set_fact(CURSOR, str(page.after))
        self._remember(page)

    def add_message(self, notice: Notice, channels: Iterable[str]) -> None:
        """Queue a message, once for each channel."""
        body = notice.model_dump_json()
        for channel in channels:
            self.database.rows(ADD_MESSAGE, notice.key, channel, body)

    def _set_goal(self, goal: str, entry: GoalEntry) -> None:
        trace = entry.trace.model_dump_json(exclude_defaults=True)
        note = entry.note.model_dump_json(exclude_defaults=True)
        self.database.rows(SET_GOAL, goal, str(entry.note.status), note, trace)

    def _remember(self, page: Page) -> None:
        if page.from_scratch:
            self._unsettled.clear()
        for goal, entry in page.goals.items():
            if entry.note.status.ended:
                self._unsettled.pop(goal, None)
            else:
                self._unsettled[goal] = entry
        for goal in page.forgotten:
            self._unsettled.pop(goal, None)


def _entry(note: str, trace: str) -> GoalEntry:
    return GoalEntry(GoalNote.model_validate_json(note), Trace.model_validate_json(trace))
