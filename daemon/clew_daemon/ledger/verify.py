"""Checking a ledger from end to end (the record, not its meaning), and copying it as it stands at one moment."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from clew_shared.files import sync
from clew_shared.ledger import schema
from clew_shared.ledger.chain import genesis, link, unsealed, whole
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.opening import check_kind, explained, open_reading
from clew_shared.ledger.reader import Reader

STEP_PAGES, COPY_S = 256, 600.0  # 1 MB a step
_FORMATS = slice(18, 20)  # of the file's head
_READING = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)


@dataclass(frozen=True, slots=True)
class LedgerFault:
    """What is wrong and where; `seq` and `goal` are None if it is not one event."""

    seq: int | None
    goal: str | None
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a check: how much was read, and the first fault."""

    ok: bool
    events: int
    goals: int
    fault: LedgerFault | None


@dataclass(slots=True)
class _Walk:
    """The progress of the check: the last seq, and the seq, n and hash of each goal, or of its purged part."""

    seq: int = 0
    events: int = 0
    tips: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)
    purged: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)
    gaps: dict[int, int] = field(default_factory=dict)  # first seq → last seq of what was purged

    def skip_purged(self) -> None:
        while (last := self.gaps.pop(self.seq + 1, None)) is not None:
            self.seq = int.__index__(last)  # in a damaged file it may be a text


def verify(path: Path) -> VerifyReport:
    """Check the database, the sequence, the chains and the outputs; a bad file raises nothing."""
    walk = _Walk()
    try:
        with Reader.open(path) as reader, reader.connection() as con:
            con.execute("BEGIN")  # one view of the whole, whatever a daemon writes meanwhile
            fault = next(_faults(con, walk), None)
            con.execute("ROLLBACK")
        fault = fault or _odd_format(path)  # last: closing the file releases our locks on it
    except Exception as error:  # noqa: BLE001 - a damaged file can decode to anything
        fault = _unreadable(error, walk)
    return VerifyReport(fault is None, walk.events, len(walk.tips.keys() - {""}), fault)


def _unreadable(error: Exception, walk: _Walk) -> LedgerFault:
    what = error.what if isinstance(error, LedgerError) else f"{type(error).__name__}: {error}"
    if not walk.seq:
        return LedgerFault(None, None, what)
    return LedgerFault(walk.seq + 1, None, f"cannot be read after seq {walk.seq}: {what}")


def _odd_format(path: Path) -> LedgerFault | None:
    """Check the two bytes that let SQLite write the file: it refuses others without reporting damage."""
    with path.open("rb") as file:
        formats = file.read(_FORMATS.stop)[_FORMATS]
    if formats in (b"\1\1", b"\2\2"):  # as in a copy, as in use
        return None
    return LedgerFault(None, None, f"the file's header is damaged at byte 18: {formats.hex()}")


def _faults(con: apsw.Connection, walk: _Walk) -> Iterator[LedgerFault]:
    """Yield the faults in order: those of events first, because they name the place."""
    try:
        damage = " ".join(str(con.execute("PRAGMA integrity_check(1)").get).split())
    except apsw.Error as error:
        damage = str(error)
    try:
        walk.gaps = dict(con.execute(schema.PURGED_RANGES))
        walk.purged = {goal: (seq, n, tip) for goal, seq, n, tip in con.execute(schema.PURGED)}
        for row in con.execute(schema.EVENTS_WITH_OUTPUTS):
            walk.skip_purged()
            if row[0] != walk.seq + 1:
                message = f"the event is missing: seq {row[0]} follows seq {walk.seq}"
                yield LedgerFault(walk.seq + 1, None, message)
            if message := _event_fault(row, walk):
                yield LedgerFault(row[0], row[1], message)
            walk.seq = row[0]
            walk.events += 1
        walk.skip_purged()
    except apsw.CorruptError as error:
        yield _unreadable(error, walk)
    if damage != "ok":
        yield LedgerFault(None, None, f"the database is damaged: {damage}")
    yield from _end_faults(con, walk)


def _event_fault(row: tuple[Any, ...], walk: _Walk) -> str:
    """Return what is wrong with one event, "" for nothing, and move its goal's tip to it."""
    seq, goal, n, kind, body, digest, recorded, output = row
    before = walk.tips.get(goal) or walk.purged.get(goal) or (0, 0, genesis(goal))
    walk.tips[goal] = (seq, n, recorded)
    if n != before[1] + 1:
        return f"is number {n} of its goal, after number {before[1]}"
    if link(before[2], seq, n, goal, kind, body, digest) != recorded:
        return "its hash is wrong: it or the event before it was changed"
    if digest and output is None:
        return "its output is missing"
    is_changed = output is not None and whole(output, digest) is None
    return "its output was changed" if is_changed else ""


def _end_faults(con: apsw.Connection, walk: _Walk) -> Iterator[LedgerFault]:
    """Yield the faults of what is stored with the events: heads, purged ranges, snapshots, outputs without an event."""
    heads = {goal: (seq, n, tip) for goal, seq, n, tip in con.execute(schema.HEADS)}
    for goal in sorted(heads.keys() | walk.tips.keys()):
        found = {heads.get(goal), walk.tips.get(goal)}
        if len(found) > 1:
            what = "the goal's last event is not the one on record as its last"
            yield LedgerFault(max(at[0] for at in found if at), goal, what)
    if walk.gaps:
        yield LedgerFault(min(walk.gaps), None, "the list of purged events does not match the rest")
    for goal, count, seq, ranges, last in con.execute(schema.PURGED_COUNTS):
        if (count, seq) != (ranges, last):
            what = f"{count} events were purged up to seq {seq}"
            what += f", but the list of purged events has {ranges} up to {last}"
            yield LedgerFault(None, goal, what)
    for goal, seq, version, blob in con.execute(schema.SNAPSHOTS):
        if unsealed(goal, seq, version, blob) is None:
            yield LedgerFault(seq, goal, "its snapshot was changed")
    for (seq,) in con.execute(schema.STRAY_OUTPUT):
        yield LedgerFault(seq, None, "an output without an event")


def copy(source: Path, target: Path) -> None:
    """Copy the ledger at `source` into the new file `target` (mode 0600), durably and as one file alone.

    One read transaction spans the copy, so that it shows one moment: a writer continues, but can reuse its log only
    afterwards, and waits no longer than COPY_S. Raises LedgerError for either file; the caller removes what is then
    left of `target`.
    """
    with explained(source), closing(open_reading(source)) as con:
        con.execute("BEGIN")
        check_kind(con, source)
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            _copy_pages(con, target)
            sync(target)
        except (apsw.FullError, apsw.CantOpenError, apsw.IOError, OSError) as error:
            if getattr(error, "extendedresult", 0) in _READING:
                raise  # of the source
            what, hint = f"cannot be written: {error}", "free some space, or choose another place"
            raise LedgerError(target, what, hint) from error


def _copy_pages(con: apsw.Connection, target: Path) -> None:
    deadline = time.monotonic() + COPY_S
    with closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as into:
        into.pragma("synchronous", "off")  # it is synced as a whole, at the end
        with into.backup("main", con, "main") as backup:
            while not backup.done:
                if time.monotonic() > deadline:
                    late = f"the copy took longer than {COPY_S:g} s"
                    raise LedgerError(target, late, "use a faster disk")
                backup.step(STEP_PAGES)
        into.pragma("journal_mode", "delete")


def remove(path: Path) -> None:
    """Remove a database's file and what SQLite may have put beside it."""
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)
