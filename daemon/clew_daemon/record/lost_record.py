"""Whether the ledger lacks what was once recorded: it is gone, blank, an older one, or without its log.

A goal's folder in `<state>/goals` is made after its acceptance is durable, so it proves that there was a record. A
note beside the ledger has its last event, and a rescued copy is what a daemon saved when its ledger was removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clew_shared.files.durable import sync, unused_name
from clew_shared.ledger import (
    LedgerBehindError,
    LedgerCorrupt,
    LedgerEmpty,
    LedgerError,
    Reader,
    note,
)
from clew_shared.ledger.opening import refuse_remains
from clew_shared.ledger.rescue import RESCUED, copies

if TYPE_CHECKING:
    from pathlib import Path

GOALS = "goals"
NAMED_MAX = 5
_ID = re.compile(r"[a-z0-9-]+-[0-9a-f]{4}")  # other folders, such as lost+found, are no goals


@dataclass(frozen=True, slots=True)
class Lacking:
    """What a ledger lacks: `faults` for people, goals that only have a folder, rescued copies that contain more.

    `is_copied`: the ledger comes from another home, where the rest may be, or from clew 0.1.0.
    """

    faults: tuple[str, ...]
    goals: tuple[str, ...]
    rescued: tuple[Path, ...]
    is_copied: bool

    def error(self, ledger: Path) -> LedgerBehindError:
        """Return the error that refuses the ledger, with the ways to go on."""
        ways = [f"`clew restore {path}`" for path in self.rescued[:1]]
        hint = (
            "nothing was changed: put the newer file back (with its -wal), or restore one "
            f"({' or '.join([*ways, '`clew restore FILE`'])}), "
            "or, to continue without what is missing, run `clew restore --keep`"
        )
        return LedgerBehindError(ledger, f"is incomplete: {'; '.join(self.faults)}", hint)


def lost(ledger: Path, state: Path) -> LedgerCorrupt | None:
    """Return the error for a ledger that is gone or a remnant; None if it exists, or never did."""
    rescued = copies(ledger)
    try:
        refuse_remains(ledger)
    except LedgerCorrupt as error:
        return error
    goals, noted = _accepted(state), note.read(ledger)
    if not (goals or noted or rescued) or not _is_blank(ledger):
        return None
    what = "is empty" if ledger.exists() else "is gone"
    if goals:
        count = "1 goal was" if len(goals) == 1 else f"{len(goals)} goals were"
        what += f", but {count} accepted: {_named(goals)}"
    elif noted:
        what += f", but {noted.seq} events were recorded"
    else:
        what += f", but what it held was saved in {rescued[0]}"
    ways = f"`clew restore {rescued[0]}`" if rescued else "restore a backup (`clew restore FILE`)"
    hint = (
        f"nothing was changed: {ways}, or, to start with an empty ledger, move the whole folder {state} away "
        "and keep it"
    )
    return LedgerCorrupt(ledger, what, hint)


def lacking(ledger: Path, state: Path) -> Lacking | None:
    """Return what a ledger lacks; None if it has everything that is known to have been recorded, or is blank.

    What it is compared with is read first, so that a daemon may write meanwhile. Raises LedgerError, OSError.
    """
    from clew_daemon.record import home  # imports the models of events, needed only here

    goals, noted, rescued = _accepted(state), note.read(ledger), copies(ledger)
    log = _inode(ledger.with_name(ledger.name + "-wal"))
    if not (goals or noted or rescued) or _is_blank(ledger):
        return None
    with Reader.open(ledger) as reader:
        known = {*reader.goals(), *reader.purged()}
        unknown = tuple(goal for goal in goals if goal not in known)
        ahead = tuple(path for path in rescued if not _contains(reader, path))
        faults = _behind(reader, noted, log)
        if unknown:
            faults.append(f"accepted goals are missing from it: {_named(unknown)}")
        faults += [f"{path.name} has more events" for path in ahead[:1]]
        if not faults:
            return None
        before = home.last(reader)
        # clew 0.1.0 wrote no note, and left the folders of goals that a restore had taken from the record
        copied = home.is_other(before, home.here(state)) or (before is None and noted is None)
        return Lacking(tuple(faults), unknown, ahead, copied)


def accept(ledger: Path, state: Path, missing: Lacking | None) -> dict[str, Path]:
    """Accept the ledger as it is: set aside what it does not know, and write a new note of its last event.

    Returns where the folders of unknown goals are now. Raises LedgerError, OSError.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = state / f"{GOALS}.{stamp}"
    moved = {}
    for goal in missing.goals if missing else ():
        aside.mkdir(mode=0o700, exist_ok=True)
        (state / GOALS / goal).rename(aside / goal)
        moved[goal] = aside / goal
    for path in missing.rescued if missing else ():
        path.rename(unused_name(path.with_name(path.name.replace(RESCUED, ".", 1))))
    write_note(ledger)
    sync(state)
    return moved


def write_note(ledger: Path) -> None:
    """Write the note of a ledger's last event while no process writes the ledger; raises LedgerError, OSError."""
    with Reader.open(ledger) as reader:
        found = reader.last_event()
    if found is None:
        note.drop(ledger)
        return
    seq, tip = found
    note.write(ledger, note.Note(seq=seq, hash=tip.hex(), open=False), durable=True)


def _behind(reader: Reader, noted: note.Note | None, log: int) -> list[str]:
    """Return what the note knows and the ledger does not; `log` is the inode of its log, 0 if that is empty."""
    if noted is None:
        return []
    name, last, tip = f"{reader.path.name}-wal", reader.last_seq(), reader.hash_at(noted.seq)
    purged = tip is None and reader.was_purged(noted.seq)
    mixed = (log == noted.log) != (_inode(reader.path) == noted.file)
    needs_log = noted.open and noted.log != 0  # a log that was empty is not missed
    if needs_log and log and mixed:
        fault = f"it and {name} do not belong together: one of them was replaced"
    elif last < noted.seq:
        lack = noted.seq - last
        what = "last event is" if lack == 1 else f"last {lack} events are"
        fault = f"its {what} missing (it ends at {last}, {noted.seq} were recorded)"
    elif not purged and (tip is None or tip.hex() != noted.hash):
        fault = f"event {noted.seq} is not the one that was recorded: this is another ledger"
    elif needs_log and not log:
        fault = f"its log ({name}) is gone, and may have held events after {last}"
    else:
        return []
    return [fault]


def _contains(reader: Reader, copy: Path) -> bool:
    """Return whether a ledger has everything in a rescued copy of it, or the copy cannot be read."""
    try:
        with Reader.open(copy) as kept:
            found = kept.last_event()
    except LedgerError:
        return True
    if found is None:
        return True
    seq, tip = found
    return reader.hash_at(seq) == tip or reader.was_purged(seq)


def _accepted(state: Path) -> tuple[str, ...]:
    try:
        found = [p.name for p in (state / GOALS).iterdir() if _ID.fullmatch(p.name) and p.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(found))


def _named(goals: tuple[str, ...]) -> str:
    return ", ".join(goals[:NAMED_MAX]) + (", …" if goals[NAMED_MAX:] else "")


def _inode(path: Path) -> int:
    """Return the inode of a file, 0 for one that is empty or not there."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_ino if found.st_size else 0


def _is_blank(ledger: Path) -> bool:
    if not ledger.exists():
        return True
    try:
        Reader.open(ledger).close()
    except LedgerEmpty:
        return True
    except LedgerError:  # not blank: opening it for writing reports what is wrong
        return False
    return False
