"""`clew backup` and `clew restore`: a verified copy of the ledger, which may be in use meanwhile, and back again.

`restore` holds the locks of a daemon until it has ended, so that nothing else writes to the ledger.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import show
from clew_daemon.reading.sanitize import clean, counted
from clew_shared.files.durable import sync, unused_name

if TYPE_CHECKING:
    from clew_shared.ledger import Reader

DEADLINE_S = 600.0
MB = 1 << 20


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--force", is_flag=True, help="Replace FILE if it is an earlier backup, or empty.")
@parameters.as_json
@click.pass_obj
def backup(instance: Instance, file: Path, force: bool, as_json: bool) -> None:
    """Copy the ledger to FILE, with or without a running daemon, and verify the copy."""
    _refuse_target(file, instance, force=force)
    with temporary(file.absolute()) as part:
        found = verified_copy(instance.ledger, part)
        size = part.stat().st_size
        _refuse_target(file, instance, force=force)  # it may be something else by now
        part.replace(file)
        sync(file.absolute().parent)
    done = {"file": str(file.absolute()), "bytes": size, **found}
    show(done, [f"{file}: {contents(found)}, {size / MB:.1f} MB; verified"], as_json=as_json)


def verified_copy(source: Path, target: Path) -> dict[str, Any]:
    """Copy a ledger and verify the copy; return {events, goals, seq} of it, or raise CliError."""
    from clew_daemon.cli.ledger_check import check_ledger
    from clew_shared.ledger import LedgerCorrupt, LedgerError, Reader, copy

    if not source.exists():
        raise CliError(f"there is no ledger at {source}")
    deadline = time.monotonic() + DEADLINE_S

    def refuse_late() -> None:
        if time.monotonic() > deadline:
            raise CliError(f"the copy took longer than {DEADLINE_S:g} s: use a faster disk")

    try:
        copy(source, target, refuse_late)
        with Reader.open(target) as reader:
            last = reader.last_seq()
    except LedgerCorrupt as error:  # its own advice, to move the file away, is for the one in use
        tail = "nothing was changed; `clew verify` checks the ledger in use"
        raise CliError(f"{error.path}: {error.what}; {tail}") from None
    except LedgerError as error:
        raise CliError(str(error)) from None
    report = check_ledger(target)
    if fault := report["fault"]:
        at = "" if fault["seq"] is None else f" at event {fault['seq']}"
        raise CliError(f"{source} is damaged{at}: {fault['message']}; nothing was changed")
    return {"events": report["events"], "goals": report["goals"], "seq": last}


@contextmanager
def temporary(target: Path) -> Iterator[Path]:
    """Yield a hidden path beside `target` for an unfinished copy, and remove that copy afterwards."""
    from clew_shared.ledger import remove

    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        with suppress(OSError):
            remove(part)


def contents(found: dict[str, Any]) -> str:
    """Return what a ledger holds, as in `7 events of 1 goal, up to number 9`."""
    events, goals = counted(found["events"], "event"), counted(found["goals"], "goal")
    return f"{events} of {goals}, up to number {found['seq']}"


def _refuse_target(file: Path, instance: Instance, *, force: bool) -> None:
    """Raise CliError if the backup must not be written to `file`."""
    folder = file.absolute().parent
    if not folder.is_dir():
        raise CliError(f"{folder} does not exist; create that folder first")
    if folder.resolve().is_relative_to(instance.ledger.parent.resolve()):
        raise CliError(f"{folder} belongs to clew itself; name a file in another folder")
    if not os.path.lexists(file):
        return
    if not force:
        raise CliError(f"{file} exists; name another file, or replace it with --force")
    if file.is_symlink() or not file.is_file() or not _is_backup(file):
        what = "is neither an earlier backup nor empty, so --force does not replace it"
        raise CliError(f"{file} {what}; remove it first, or name another file")


def _is_backup(file: Path) -> bool:
    from clew_shared.ledger.schema import APPLICATION_ID

    with file.open("rb") as found:
        head = found.read(100)
    own = APPLICATION_ID.to_bytes(4, "big")
    return not head or (head.startswith(b"SQLite format 3\0") and head[68:72] == own)


# -- restore

DATABASE = ("", "-wal", "-shm")
BUSY_MS = 5_000
UNFINISHED = ("in_progress", "queued", "waiting", "blocked")
NOTHING_LOST: dict[str, Any] = {"note": "", "goals_lost": [], "goals_set_back": []}


@click.command()
@parameters.optional_file("A backup of a ledger.")
@click.option(
    "--keep", is_flag=True, help="Continue with the ledger as it is, without what it lacks."
)
@click.option("--yes", is_flag=True, help="Do not ask, for scripts.")
@parameters.as_json
@click.pass_obj
def restore(instance: Instance, file: Path | None, keep: bool, yes: bool, as_json: bool) -> None:
    """Replace the ledger with a backup, while no daemon runs; the present ledger is kept beside it.

    It asks first if the present ledger has more than the backup; with --json it does not ask.
    """
    if (file is None) != keep:
        raise click.UsageError(
            "name a FILE to restore, or use --keep to continue with the ledger as it is"
        )
    with _daemon_locks(instance):
        found = (
            _keep(instance) if file is None else _replace(instance, file, ask=not (yes or as_json))
        )
        done = {**found, **_accept(instance, found)}
    show(done, _done_lines(done), as_json=as_json)


@contextmanager
def _daemon_locks(instance: Instance) -> Iterator[None]:
    """Hold the locks of a daemon, so that none is running and none starts."""
    from clew_daemon.host.folders import FolderError, make_private
    from clew_shared.ledger.lock import RESTORE, LockError, acquire, beside

    instance.refuse_broken()
    with ExitStack() as locks:
        try:
            make_private(instance.places.state)
            instance.ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            locks.enter_context(acquire(beside(instance.ledger), role=RESTORE))
        except (LockError, FolderError) as error:
            raise CliError(str(error)) from None
        yield


def _keep(instance: Instance) -> dict[str, Any]:
    """Verify the present ledger, which is to be continued with as it is."""
    from clew_daemon.cli.ledger_check import check_ledger
    from clew_shared.ledger import Reader

    ledger = instance.ledger
    if not ledger.exists():
        raise CliError(f"there is no ledger at {ledger} to keep; name a backup to restore")
    report = check_ledger(ledger)
    if fault := report["fault"]:
        how = "restore a backup (`clew restore FILE`)"
        raise CliError(f"{ledger} is damaged: {fault['message']}; {how}")
    with Reader.open(ledger) as reader:
        found = {"events": report["events"], "goals": report["goals"], "seq": reader.last_seq()}
    return {"file": None, **found, "aside": None, **NOTHING_LOST}


def _replace(instance: Instance, file: Path, *, ask: bool) -> dict[str, Any]:
    """Put a verified copy of the backup in the place of the ledger; `ask` before anything is taken off the record."""
    ledger = instance.ledger
    if ledger.exists() and file.exists() and ledger.samefile(file):
        raise CliError(f"{file} is the ledger itself; name a backup of it")
    with temporary(ledger) as part:
        found = verified_copy(file, part)
        lost = _compare(instance, part)
        if ask and (lost["goals_lost"] or lost["goals_set_back"]):
            _ask(lost)
        aside = _put_in_place(
            part, ledger
        )  # killed after this, the next start asks what is missing
    return {"file": str(file.absolute()), **found, "aside": aside and str(aside), **lost}


def _ask(lost: dict[str, Any]) -> None:
    for line in _lost_lines(lost):
        print(clean(line))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("nothing was changed: there is no terminal to ask on; --yes restores it")
    with suppress(click.Abort):  # Ctrl-C or Ctrl-D at the prompt
        if click.confirm("Restore the backup? The present ledger is kept beside it."):
            return
    raise CliError("nothing was changed")


def _compare(instance: Instance, backup: Path) -> dict[str, Any]:
    from clew_shared.ledger import LedgerError, Reader

    if not instance.ledger.exists():
        return NOTHING_LOST
    try:
        with Reader.open(instance.ledger) as present, Reader.open(backup) as restored:
            return _difference(instance, present, restored)
    except LedgerError as error:
        return NOTHING_LOST | {"note": f"what is lost is unknown: {error.what}"}


def _difference(instance: Instance, present: Reader, restored: Reader) -> dict[str, Any]:
    from clew_daemon.record.store import load_state

    def status(reader: Reader, goal: str) -> str:
        return str(load_state(reader, goal).goal.status)

    now, then, purged = present.heads(), restored.heads(), set(restored.purged())
    missing = present.last_seq() - restored.last_seq()
    note = f"recorded after the backup: {counted(missing, 'event')}" if missing > 0 else ""
    if not any(present.hash_at(seq) == tip for seq, tip in then.values()):
        note = "the backup comes from a different ledger than the one that was here"
    lost, back = [], []
    for goal in filter(None, sorted(now)):
        if goal in then and now[goal][0] > then[goal][0]:
            events = sum(1 for _ in present.read(goal, then[goal][0]))
            back.append({"id": goal, "events": events, "status": status(restored, goal)})
        elif goal not in then and goal not in purged:
            file = _goal_file(instance.places.state / "goals" / goal)
            lost.append({"id": goal, "file": file, "status": status(present, goal)})
    return {"note": note, "goals_lost": lost, "goals_set_back": back}


def _goal_file(folder: Path) -> str | None:
    path = folder / "goal.md"
    return str(path) if path.exists() else None


def _put_in_place(part: Path, ledger: Path) -> Path | None:
    """Make the copy the ledger; return the new path of the old one, None if there was none.

    The old WAL is moved into the old file first, so that a crash at any point leaves a whole ledger, the old one or
    the new one. If the old one is too damaged for that, its file and its WAL stay side by side.
    """
    aside = None
    if ledger.exists():
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = unused_name(ledger.with_name(f"{ledger.name}.{stamp}"))
        _checkpoint(ledger)
        for end in DATABASE:
            with suppress(FileNotFoundError):
                os.link(f"{ledger}{end}", f"{aside}{end}")
        sync(ledger.parent)
    for end in DATABASE[1:]:
        ledger.with_name(f"{ledger.name}{end}").unlink(missing_ok=True)
    part.replace(ledger)
    sync(ledger.parent)
    return aside


def _checkpoint(ledger: Path) -> None:
    import apsw

    try:
        with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READWRITE)) as con:
            con.set_busy_timeout(BUSY_MS)
            con.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # this opens the WAL
            con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        what = "is being read by another program, which must end first"
        raise CliError(f"the ledger {ledger} {what}; nothing was changed") from None
    except apsw.Error:  # damaged, which may be why it is replaced; the files are kept as they are
        return


def _accept(instance: Instance, lost: dict[str, Any]) -> dict[str, Any]:
    """Let the next start continue with the ledger; return {note, goals_lost, home}.

    The folders of goals that the ledger lacks are moved away. `home` is the home that the ledger comes from if it is
    another one: the next start blocks its unfinished goals.
    """
    from clew_daemon.record import home, lost_record
    from clew_shared.ledger import LedgerError, Reader

    ledger, state = instance.ledger, instance.places.state
    try:
        missing = lost_record.lacking(ledger, state)
        moved = lost_record.accept(ledger, state, missing)
        with Reader.open(ledger) as reader:
            before = home.last(reader)
    except LedgerError as error:
        raise CliError(str(error)) from None
    gone = {goal["id"]: goal for goal in lost["goals_lost"]}
    for goal, folder in moved.items():
        status = gone.get(goal, {}).get("status")
        gone[goal] = {"id": goal, "file": _goal_file(folder), "status": status}
    other = before if home.is_other(before, home.here(state)) else None
    return {
        "note": lost["note"] or "; ".join(missing.faults if missing else ()),
        "goals_lost": [gone[goal] for goal in sorted(gone)],
        "home": f"{other.path} (on {other.host})" if other else None,
    }


def _done_lines(done: dict[str, Any]) -> list[str]:
    what = f"restored {done['file']}" if done["file"] else "kept the ledger as it is"
    lines = [f"{what}: {contents(done)}; verified"]
    if done["aside"]:
        lines.append(f"the ledger that was there is kept as {done['aside']}")
    lines += map(clean, _lost_lines(done))
    if done["home"]:
        lines.append(
            f"it comes from {clean(done['home'])}, whose daemon may still be working on it: the next start blocks its "
            "unfinished goals until you resume or cancel them"
        )
    return lines


def _lost_lines(lost: dict[str, Any]) -> list[str]:
    """Return lines on what is not on record after the restore: by status, and with the files of unfinished goals."""
    by_status: dict[str, list[dict[str, Any]]] = {}
    for goal in lost["goals_lost"]:
        by_status.setdefault(goal["status"] or "their status is unknown", []).append(goal)
    lines = [lost["note"]] if lost["note"] else []
    for status, goals in sorted(by_status.items()):
        names = ", ".join(goal["id"] for goal in goals)
        lines.append(f"no longer on record, {status.replace('_', ' ')}: {names}")
        lines += [
            f"  to run it again: clew submit {shlex.quote(goal['file'])}"
            for goal in goals
            if goal["file"] and status in UNFINISHED
        ]
    for goal in lost["goals_set_back"]:
        back = counted(goal["events"], "event")
        lines.append(f"set back by {back}: {goal['id']}, then {goal['status'].replace('_', ' ')}")
    return lines
