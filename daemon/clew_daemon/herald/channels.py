"""The channels of the herald: each is a thread with a cursor of its own, so that a slow one holds up no other.

The cursors and counters are in `herald.json` in the state folder. The ledger is the spool: it is read in batches
after a cursor, in short transactions, and a cursor moves on only after what the events before it lead to was delivered.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel

from clew_daemon.backoff import backoff_s
from clew_daemon.herald.notices import DAEMON, Notice, Sender, Situation, UndeliveredError, of_end
from clew_daemon.reading import queries
from clew_daemon.reading.errors import CliError
from clew_daemon.record.store import load_state
from clew_shared.config.tables import NotifySettings
from clew_shared.files import write_whole
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.reader import Cursor, EventRow, Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import decode

log = structlog.get_logger()

BATCH_ROWS = 500
SAVE_S = 5.0  # how far, at most, a cursor in the file is behind while nothing is to be delivered


class UnknownEventError(CliError):
    """An event of a later clew; it is not passed over, and waits for the herald of that version."""


class ChannelRecord(BaseModel):
    """How far a channel has got; `told` has what it was told of what is so now, by topic. Times in s since 1970."""

    label: str = ""
    cursor: str | None = None
    told: dict[str, str] = {}
    failing_since: float | None = None
    error: str = ""


class Contents(BaseModel):
    """The file: `counters` are counted up to the cursor `counted`, with the `agents` of goals at work there."""

    version: Literal[1] = 1
    counted: str | None = None
    counters: dict[str, int] = {}
    agents: dict[str, str] = {}
    channels: dict[str, ChannelRecord] = {}


class Book:
    """The file and its contents, changed by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Read the file if there is one; raises CliError."""
        self._path = path
        self._lock = threading.Lock()
        self._trouble = ""
        self._save_at = 0.0
        try:
            self.contents = Contents.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            self.contents = Contents()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not a file of this clew herald"
            hint = "move it away: the herald then counts from the ledger again"
            raise CliError(f"{path} cannot be used: {why}; {hint}") from None

    @contextmanager
    def changing(self, *, at_once: bool = True) -> Iterator[Contents]:
        """Change the contents, and the file `at_once` or with a change after SAVE_S; a full disk is only logged."""
        with self._lock:
            yield self.contents
            if not at_once and time.monotonic() < self._save_at:
                return
            self._save_at = time.monotonic() + SAVE_S
            trouble, self._trouble = self._trouble, ""
            try:
                write_whole(self._path, self.contents.model_dump_json(), 0o600)
            except OSError as error:
                self._trouble = str(error)
                if self._trouble != trouble:
                    log.error("herald.unsaved", reason=self._trouble)  # noqa: TRY400 - a reason


@contextmanager
def opened(path: Path) -> Iterator[Reader | None]:
    """Open the ledger, None where there is none yet; raises LedgerError, UnknownEventError for what is read of it."""
    try:
        with queries.opened(path) as reader:
            yield reader
    except ValueError:
        later = "another version of clew has recorded this: start clew herald again"
        raise UnknownEventError(later) from None


def batches(reader: Reader, after: Cursor) -> Iterator[tuple[list[EventRow], Cursor]]:
    """Yield the next events, each time with the cursor behind them, until there are none."""
    while rows := list(islice(reader.read_all(after.seq), BATCH_ROWS)):
        after = Cursor(rows[-1].seq, rows[-1].hash)
        yield rows, after


LOOK_S, BACKOFF_S, BACKOFF_MAX_S = 60.0, 1.0, 300.0


class Channel(ABC):
    """What is common to channels: the thread, the cursor in the book, and the pauses after failures."""

    def __init__(self, key: str, label: str, book: Book, ledger: Path) -> None:
        self.key, self.label = key, label
        self._book, self._ledger = book, ledger
        self._wake = threading.Event()
        self._failures = 0
        with book.changing() as contents:
            self.record = contents.channels.setdefault(key, ChannelRecord())
            self.record.label = label

    def begin(self) -> None:
        def run() -> None:
            while True:
                self._wake.wait(self.step())
                self._wake.clear()

        threading.Thread(target=run, name=self.key, daemon=True).start()

    def wake(self) -> None:
        if not self._failures:
            self._wake.set()

    def step(self) -> float:
        """Deliver what waits; return for how many seconds there is nothing to do."""
        try:
            with opened(self._ledger) as reader:
                self._deliver(reader)
        except UnknownEventError:  # the herald ends over it
            return BACKOFF_MAX_S
        except (UndeliveredError, LedgerError) as error:
            if str(error) != self.record.error:
                log.warning("delivery.failed", channel=self.label, reason=str(error))
                with self._book.changing():
                    self._note(str(error))
            self._failures += 1
            return backoff_s(self._failures - 1, BACKOFF_S, BACKOFF_MAX_S)
        self._failures = 0
        return LOOK_S

    @abstractmethod
    def _deliver(self, reader: Reader | None) -> None: ...

    def _move(self, after: Cursor, *, delivered: bool) -> None:
        """Move the cursor; what was `delivered` is on record at once, and that the channel works."""
        if delivered or self.record.cursor != str(after):
            with self._book.changing(at_once=delivered):
                self.record.cursor = str(after)
                self._note("" if delivered else self.record.error)

    def _note(self, error: str) -> None:
        since = self.record.failing_since or time.time()
        self.record.error, self.record.failing_since = error, since if error else None


class Messages(Channel):
    """Messages to one address: of goals that have ended, and of what is so that a person should know."""

    def __init__(
        self, sender: Sender, book: Book, ledger: Path, notify: NotifySettings, situation: Situation
    ) -> None:
        super().__init__(sender.key, sender.label, book, ledger)
        self._send = sender.send
        self._notify, self._situation = notify, situation

    def _deliver(self, reader: Reader | None) -> None:
        if is_quiet(time.strftime("%H:%M"), self._notify.quiet):
            return
        after = None if self.record.cursor is None else Cursor.parse(self.record.cursor)
        if after is not None and reader is not None and reader.holds(after.seq, after.hash):
            self._tell_ends(reader, after)
        elif after is None or reader is not None:
            self._move(Cursor.at_end(reader) if reader else Cursor(), delivered=True)
        self._tell_conditions()

    def _tell_ends(self, reader: Reader, after: Cursor) -> None:
        """Send the goals that have ended since, and move the cursor behind each."""
        for rows, end in batches(reader, after):
            for row in rows:
                ended = decode(row.body) if row.kind == "goal_ended" else None
                if isinstance(ended, ev.GoalEnded):
                    notice = of_end(load_state(reader, row.goal), ended)
                    with self._telling(notice, at_once=False):
                        self.record.cursor = str(Cursor(row.seq, row.hash))
            self._move(end, delivered=False)

    def _tell_conditions(self) -> None:
        """Send the situation once; that the daemon is down only to a channel that has seen it up."""
        told, conditions = self.record.told, self._situation.conditions
        for topic, one in conditions.items():
            if told.get(topic) != one.key:
                with self._telling(one.notice if topic != DAEMON or topic in told else None):
                    told[topic] = one.key
        if gone := told.keys() - conditions.keys() - {DAEMON}:
            with self._book.changing():
                for topic in gone:
                    del told[topic]

    @contextmanager
    def _telling(self, notice: Notice | None, *, at_once: bool = True) -> Iterator[None]:
        """Send a message if it is wanted; what the block changes is then on record, without one only if `at_once`."""
        wanted = notice if notice and notice.kind in self._notify.on else None
        if wanted:
            self._send(wanted)
        with self._book.changing(at_once=at_once or wanted is not None):
            yield
            self._note("" if wanted else self.record.error)
        if wanted:  # a herald that is killed now does not send it again
            about = {"goal": wanted.goal} if wanted.goal else {}
            log.info("message.sent", channel=self.label, kind=wanted.kind, **about)


def is_quiet(now: str, quiet: str) -> bool:
    """Return whether a time HH:MM is in the quiet hours, HH:MM-HH:MM, which may go over midnight, or "" for none."""
    begin, _, end = quiet.partition("-")
    if begin < end:
        return begin <= now < end
    return bool(quiet) and (now >= begin or now < end)
