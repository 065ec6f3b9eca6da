"""Whether the ledger lacks what was once recorded: it is gone, blank, or an older one.

A goal's folder in `<state>/goals` is made after its acceptance is durable, so it proves that there was a record. A
note beside the ledger has the last event: it is written after durable commits only, so it is never ahead of them.
"""

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from clew_shared.files import sync
from clew_shared.ledger.errors import LedgerCorrupt, LedgerEmpty, LedgerError
from clew_shared.ledger.opening import refuse_remains
from clew_shared.ledger.reader import Reader

GOALS = "goals"
NAMED_MAX = 5
_ID = re.compile(r"[a-z0-9-]+-[0-9a-f]{4}")  # other folders, such as lost+found, are no goals


class Lacking(NamedTuple):
    """What a ledger lacks: `faults` for people, and the goals that only have a folder."""

    faults: tuple[str, ...]
    goals: tuple[str, ...]
    is_copied: bool  # from another home, where the rest may be

    def error(self, ledger: Path) -> LedgerError:
        """Return the error that refuses the ledger, with the ways to go on."""
        hint = (
            "nothing was changed: put the newer file back (with its -wal), or restore one (`clew restore FILE`), "
            "or, to continue without what is missing, run `clew restore --keep`"
        )
        return LedgerError(ledger, f"is incomplete: {'; '.join(self.faults)}", hint)


def lost(ledger: Path, state: Path) -> LedgerCorrupt | None:
    """Return the error for a ledger that is gone or a remnant; None if it exists, or never did."""
    try:
        refuse_remains(ledger)
    except LedgerCorrupt as error:
        return error
    goals, noted = _accepted(state), read_note(ledger)
    if not (goals or noted) or not _is_blank(ledger):
        return None
    events = f"{noted[0]} events were recorded" if noted else ""
    what = f"these goals were accepted: {_named(goals)}" if goals else events
    hint = (
        "nothing was changed: restore a backup (`clew restore FILE`), or, to start with an empty ledger, "
        f"move the whole folder {state} away and keep it"
    )
    is_there = "empty" if ledger.exists() else "gone"
    return LedgerCorrupt(ledger, f"is {is_there}, but {what}", hint)


def lacking(ledger: Path, state: Path) -> Lacking | None:
    """Return what a ledger lacks of what was recorded, None for nothing; raises LedgerError, OSError."""
    from clew_daemon.record import home  # imports the models of events, needed only here

    goals, noted = _accepted(state), read_note(ledger)  # first: a daemon may write meanwhile
    if not (goals or noted) or _is_blank(ledger):
        return None
    with Reader.open(ledger) as reader:
        unknown = tuple(sorted({*goals} - {*reader.goals(), *reader.purged()}))
        faults = [f"accepted goals are missing from it: {_named(unknown)}"] if unknown else []
        if noted and (last := reader.last_seq()) < noted[0]:
            faults.insert(0, f"it ends at event {last}, {noted[0]} were recorded")
        elif noted and not reader.holds(*noted):
            what = f"event {noted[0]} is not the one that was recorded: this is another ledger"
            faults.insert(0, what)
        copied = home.is_other(home.last(reader), home.here(state))
    return Lacking(tuple(faults), unknown, copied) if faults else None


def accept(ledger: Path, state: Path, missing: Lacking | None) -> dict[str, Path]:
    """Accept the ledger as it is: note its last event, and return where the folders of goals unknown to it are now."""
    aside = state / f"{GOALS}.{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    moved = {}
    for goal in missing.goals if missing else ():
        aside.mkdir(mode=0o700, exist_ok=True)
        (state / GOALS / goal).rename(aside / goal)
        moved[goal] = aside / goal
    with Reader.open(ledger) as reader:
        found = reader.tip()
    _note(ledger).unlink(missing_ok=True)
    if found:
        write_note(ledger, found)
    sync(state)
    return moved


def read_note(ledger: Path) -> tuple[int, bytes] | None:
    """Return the number of the last event in the note, and its hash; None if there is no note that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        found = json.loads(_note(ledger).read_bytes())
        return int(found["seq"]), bytes.fromhex(found["hash"])
    return None


def write_note(ledger: Path, last: tuple[int, bytes]) -> None:
    """Note number and hash of the ledger's last event, at once or not at all; raises OSError."""
    part = ledger.with_name(f".{ledger.name}.head.part")
    part.write_text(f"{json.dumps({'seq': last[0], 'hash': last[1].hex()})}\n")
    part.replace(_note(ledger))


def _note(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".head")


def _accepted(state: Path) -> tuple[str, ...]:
    with suppress(FileNotFoundError, NotADirectoryError):
        folders = (state / GOALS).iterdir()
        return tuple(sorted(p.name for p in folders if _ID.fullmatch(p.name) and p.is_dir()))
    return ()


def _named(goals: tuple[str, ...]) -> str:
    return ", ".join(goals[:NAMED_MAX]) + (", …" if goals[NAMED_MAX:] else "")


def _is_blank(ledger: Path) -> bool:
    if not ledger.exists():
        return True
    try:
        Reader.open(ledger).close()
    except LedgerError as error:  # opening it for writing reports what is wrong
        return isinstance(error, LedgerEmpty)
    return False
