"""Whether the ledger lacks what was once recorded: it is gone, blank, or an older one.

A goal's folder in `<state>/goals` is made after its acceptance is durable, so it proves that there was a record. A
note beside the ledger has the last event: it is written after durable commits only, so it is never ahead of them. After
a crash or a power cut it may be old, or missing: then it only proves less.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clew_shared.files.durable import sync
from clew_shared.ledger import LedgerBehindError, LedgerCorrupt, LedgerEmpty, LedgerError, Reader
from clew_shared.ledger.opening import refuse_remains

GOALS = "goals"
NAMED_MAX = 5
_NOTE = ".head"  # follows the ledger's name in that of the note
_NOTE_BYTES_MAX = 4_096
_ID = re.compile(r"[a-z0-9-]+-[0-9a-f]{4}")  # other folders, such as lost+found, are no goals


@dataclass(frozen=True, slots=True)
class Lacking:
    """What a ledger lacks: `faults` for people, and the goals that only have a folder.

    `is_copied`: the ledger comes from another home, where the rest may be, or from clew 0.1.0.
    """

    faults: tuple[str, ...]
    goals: tuple[str, ...]
    is_copied: bool

    def error(self, ledger: Path) -> LedgerBehindError:
        """Return the error that refuses the ledger, with the ways to go on."""
        hint = (
            "nothing was changed: put the newer file back (with its -wal), or restore one (`clew restore FILE`), "
            "or, to continue without what is missing, run `clew restore --keep`"
        )
        return LedgerBehindError(ledger, f"is incomplete: {'; '.join(self.faults)}", hint)


def lost(ledger: Path, state: Path) -> LedgerCorrupt | None:
    """Return the error for a ledger that is gone or a remnant; None if it exists, or never did."""
    try:
        refuse_remains(ledger)
    except LedgerCorrupt as error:
        return error
    goals, noted = _accepted(state), read_note(ledger)
    if not (goals or noted) or not _is_blank(ledger):
        return None
    what = "is empty" if ledger.exists() else "is gone"
    if goals:
        count = "1 goal was" if len(goals) == 1 else f"{len(goals)} goals were"
        what += f", but {count} accepted: {_named(goals)}"
    elif noted:
        what += f", but {noted[0]} events were recorded"
    hint = (
        "nothing was changed: restore a backup (`clew restore FILE`), or, to start with an empty ledger, "
        f"move the whole folder {state} away and keep it"
    )
    return LedgerCorrupt(ledger, what, hint)


def lacking(ledger: Path, state: Path) -> Lacking | None:
    """Return what a ledger lacks; None if it has everything that is known to have been recorded, or is blank.

    What it is compared with is read first, so that a daemon may write meanwhile. Raises LedgerError, OSError.
    """
    from clew_daemon.record import home  # imports the models of events, needed only here

    goals, noted = _accepted(state), read_note(ledger)
    if not (goals or noted) or _is_blank(ledger):
        return None
    with Reader.open(ledger) as reader:
        known = {*reader.goals(), *reader.purged()}
        unknown = tuple(goal for goal in goals if goal not in known)
        faults = _behind(reader, *noted) if noted else []
        if unknown:
            faults.append(f"accepted goals are missing from it: {_named(unknown)}")
        if not faults:
            return None
        before = home.last(reader)
        # clew 0.1.0 wrote no note, and left the folders of goals that a restore had taken from the record
        copied = home.is_other(before, home.here(state)) or (before is None and noted is None)
        return Lacking(tuple(faults), unknown, copied)


def accept(ledger: Path, state: Path, missing: Lacking | None) -> dict[str, Path]:
    """Accept the ledger as it is: set aside the goals that it does not know, and write a new note of its last event.

    Returns where the folders of unknown goals are now. Raises LedgerError, OSError.
    """
    aside = state / f"{GOALS}.{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    moved = {}
    for goal in missing.goals if missing else ():
        aside.mkdir(mode=0o700, exist_ok=True)
        (state / GOALS / goal).rename(aside / goal)
        moved[goal] = aside / goal
    with Reader.open(ledger) as reader:
        found = reader.last_event()
    drop_note(ledger)
    if found:
        write_note(ledger, found)
    sync(state)
    return moved


def read_note(ledger: Path) -> tuple[int, str] | None:
    """Return the number of the last event in the note, and its hash; None if there is no note that can be read."""
    try:
        with ledger.with_name(ledger.name + _NOTE).open("rb") as file:
            found = json.loads(file.read(_NOTE_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    match found:
        case {"seq": int(seq), "hash": str(tip)}:
            return seq, tip
        case _:
            return None


def write_note(ledger: Path, last: tuple[int, bytes]) -> None:
    """Note number and hash of the ledger's last event, at once or not at all; raises OSError."""
    part = ledger.with_name(f".{ledger.name}{_NOTE}.part")
    part.write_text(f"{json.dumps({'seq': last[0], 'hash': last[1].hex()})}\n")
    part.replace(ledger.with_name(ledger.name + _NOTE))


def drop_note(ledger: Path) -> None:
    """Remove the note, if there is one."""
    with suppress(FileNotFoundError):
        ledger.with_name(ledger.name + _NOTE).unlink()


def _behind(reader: Reader, noted: int, tip: str) -> list[str]:
    """Return what the note knows and the ledger does not."""
    last, found = reader.last_seq(), reader.hash_at(noted)
    if last < noted:
        lack = noted - last
        what = "last event is" if lack == 1 else f"last {lack} events are"
        return [f"its {what} missing (it ends at {last}, {noted} were recorded)"]
    if found is None and reader.was_purged(noted):
        return []
    if found is None or found.hex() != tip:
        return [f"event {noted} is not the one that was recorded: this is another ledger"]
    return []


def _accepted(state: Path) -> tuple[str, ...]:
    try:
        found = [p.name for p in (state / GOALS).iterdir() if _ID.fullmatch(p.name) and p.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(found))


def _named(goals: tuple[str, ...]) -> str:
    return ", ".join(goals[:NAMED_MAX]) + (", …" if goals[NAMED_MAX:] else "")


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
