"""The steps of `clew restore`: finding what a backup lacks, swapping the ledgers, and publishing the new state.

The caller holds the daemon's lock, so that nothing writes to the ledger in the meantime.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.errors import CliError
from clew_shared.files.durable import sync, unused_name

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance
    from clew_shared.ledger import Reader
    from clew_shared.record.state import State

DATABASE = ("", "-wal", "-shm")
BUSY_MS = 5_000


def compared(instance: Instance, backup: Path) -> dict[str, Any]:
    """Return what the present ledger has and the backup does not: {note, goals_lost, goals_set_back}."""
    from clew_shared.ledger import LedgerError, Reader

    none: dict[str, Any] = {"note": "", "goals_lost": [], "goals_set_back": []}
    if not instance.ledger.exists():
        return none
    try:
        with Reader.open(instance.ledger) as present, Reader.open(backup) as kept:
            return _compared(instance, present, kept)
    except LedgerError as error:
        return none | {"note": f"what is lost is unknown: {error.what}"}


def _compared(instance: Instance, present: Reader, kept: Reader) -> dict[str, Any]:
    from clew_daemon.cli.display.output import counted_as

    now, then, gone = present.heads(), kept.heads(), set(kept.purged())
    lost = [g for g in now if g and g not in then and g not in gone]
    back = [g for g in now if g in then and now[g][0] > then[g][0]]
    missing = present.last_seq() - kept.last_seq()
    related = any(present.hash_at(seq) == tip for seq, tip in then.values())
    if not related:
        note = "the backup comes from a different ledger than the one that was here"
    else:
        note = f"recorded after the backup: {counted_as(missing, 'event')}" if missing > 0 else ""
    return {
        "note": note,
        "goals_lost": [{"id": goal, "file": _goal_file(instance, goal)} for goal in sorted(lost)],
        "goals_set_back": [_set_back(present, kept, goal) for goal in sorted(back) if goal],
    }


def _goal_file(instance: Instance, goal: str) -> str | None:
    return _file_in(instance.places.state / "goals" / goal)


def _file_in(folder: Path) -> str | None:
    path = folder / "goal.md"
    return str(path) if path.exists() else None


def _set_back(present: Reader, kept: Reader, goal: str) -> dict[str, Any]:
    from clew_daemon.record.store import load_state

    after = kept.heads()[goal][0]
    events = sum(1 for _ in present.read(goal, after))
    return {"id": goal, "events": events, "status": str(load_state(kept, goal).goal.status)}


def put_in_place(part: Path, ledger: Path) -> Path | None:
    """Make the copy the ledger; return where the old one is kept, None where there was none.

    The old WAL is moved into the old file first, so that a crash at any point leaves a whole ledger, the old
    one or the new one. If the old one is too damaged for that, file and WAL are kept side by side.
    """
    aside = None
    if ledger.exists():
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = unused_name(ledger.with_name(f"{ledger.name}.{stamp}"))
        _settle(ledger)
        for end in DATABASE:
            with suppress(FileNotFoundError):
                os.link(_beside(ledger, end), _beside(aside, end))
        sync(ledger.parent)
    for end in DATABASE[1:]:
        _beside(ledger, end).unlink(missing_ok=True)
    part.replace(ledger)
    sync(ledger.parent)
    return aside


def _settle(ledger: Path) -> None:
    """Move the WAL into the file, if possible."""
    import apsw

    try:
        with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READWRITE)) as con:
            con.set_busy_timeout(BUSY_MS)
            con.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # else it knows of no WAL
            con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        what = "is being read by another program, which must end first"
        raise CliError(f"the ledger {ledger} {what}; nothing was changed") from None
    except apsw.Error:  # damaged: that may be why it is replaced, and what there is of it is kept
        return


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def accepted(instance: Instance, lost: dict[str, Any]) -> dict[str, Any]:
    """Let the next start continue with the ledger that is there; {note, goals_lost, goals_set_back, home, unfinished}.

    The folders of goals that it does not have are moved away. `home` is where it comes from, if that is another
    home; `unfinished` are then the goals that will be blocked.
    """
    from clew_daemon.record import home, lost_record
    from clew_daemon.record.store import load_states
    from clew_shared.ledger import LedgerError, Reader

    ledger, state = instance.ledger, instance.places.state
    try:
        missing = lost_record.lacking(ledger, state)
        moved = lost_record.accept(ledger, state, missing)
        with Reader.open(ledger) as reader:
            before = home.last(reader)
            other = before if home.is_other(before, home.here(state)) else None
            unfinished = [
                goal
                for goal, one in (load_states(reader).items() if other else ())
                if one.goal.status in home.UNFINISHED
            ]
    except LedgerError as error:
        raise CliError(str(error)) from None
    named = {goal["id"]: goal["file"] for goal in lost["goals_lost"]}
    named |= {goal: _file_in(folder) for goal, folder in moved.items()}
    note = lost["note"] or "; ".join(missing.faults if missing else ())
    return {
        "note": note,
        "goals_lost": [{"id": goal, "file": file} for goal, file in sorted(named.items())],
        "goals_set_back": lost["goals_set_back"],
        "home": f"{other.path} (on {other.host})" if other else None,
        "unfinished": unfinished,
    }


def republish(ledger: Path) -> None:
    """Write every `.agent_context/` again, so that none shows what was not restored."""
    from clew_daemon.record.shrink import published_state
    from clew_daemon.record.store import history_lines, load_states
    from clew_shared.ledger import Reader
    from clew_shared.views.contextdir import FOLDER, ContextDir
    from clew_shared.views.publish import HistoryFold, state_view

    with Reader.open(ledger) as reader:
        latest: dict[str, State] = {}
        for state in sorted(load_states(reader).values(), key=lambda s: s.updated_at):
            latest[state.spec.workspace] = state
        for workspace, state in latest.items():
            if Path(workspace, FOLDER).is_dir():
                fold = HistoryFold()
                lines = history_lines(reader, state.goal_id, fold)
                shown = published_state(state_view(state))
                with suppress(OSError):
                    ContextDir(workspace, state.workspace).rebuild(shown, lines, fold.loops)
