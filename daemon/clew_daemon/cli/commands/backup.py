"""`clew backup` and `clew restore`: a verified copy of the ledger, maybe in use, and back again, under its locks."""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import apsw
import click

from clew_daemon.cli import parameters
from clew_daemon.cli.commands.verify import check_ledger, place
from clew_daemon.host.folders import FolderError, make_private
from clew_daemon.ledger.lock import RESTORE, LockError, acquire, beside
from clew_daemon.ledger.verify import copy, remove
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import show
from clew_daemon.reading.sanitize import clean
from clew_daemon.record import home, lost_record
from clew_shared.files import sync
from clew_shared.ledger.errors import LedgerCorrupt, LedgerError
from clew_shared.ledger.reader import Reader
from clew_shared.ledger.schema import APPLICATION_ID
from clew_shared.text.words import counted

MB = 1 << 20


@dataclass
class Verified:
    """What a ledger holds; after a restore where the one before it is, whose it was, and which goals are lost."""

    events: int
    goals: int
    seq: int
    file: str | None = None
    aside: str | None = None
    note: str = ""
    goals_lost: list[Mapping[str, str | None]] = field(default_factory=list)
    home: str | None = None

    def __str__(self) -> str:
        events, goals = counted(self.events, "event"), counted(self.goals, "goal")
        return f"{events} of {goals}, up to number {self.seq}"


BACKUP_FILE = click.argument(
    "file", metavar="FILE", type=click.Path(path_type=Path), help="The file to write."
)
FORCE = parameters.flag("--force", "Replace FILE if it is an earlier backup, or empty.")


@parameters.reading(BACKUP_FILE, FORCE)
def backup(instance: Instance, file: Path, force: bool) -> parameters.Shown:
    """Copy the ledger to FILE, with or without a running daemon, and verify the copy."""
    _refuse_target(file, instance, force=force)
    with temporary(file.absolute()) as part:
        found = verified_copy(instance.ledger, part)
        size = part.stat().st_size
        _refuse_target(file, instance, force=force)  # it may be something else by now
        part.replace(file)
        sync(file.absolute().parent)
    done = {"file": str(file.absolute()), "bytes": size}
    done |= {"events": found.events, "goals": found.goals, "seq": found.seq}
    return done, [f"{file}: {found}, {size / MB:.1f} MB; verified"]


def verified_copy(source: Path, target: Path) -> Verified:
    """Copy a ledger and verify the copy; return what it holds, or raise CliError."""
    if not source.exists():
        raise CliError(f"there is no ledger at {source}")
    try:
        copy(source, target)
        return _verified(target, source, "nothing was changed")
    except LedgerCorrupt as error:  # its own advice, to move the file away, is for the one in use
        tail = "nothing was changed; `clew verify` checks the ledger in use"
        raise CliError(f"{error.path}: {error.what}; {tail}") from None
    except LedgerError as error:
        raise CliError(str(error)) from None


def _verified(ledger: Path, named: Path, advice: str) -> Verified:
    """Return what a ledger holds; raise CliError about the one that is `named` where it is damaged."""
    with Reader.open(ledger) as reader:
        last = reader.last_seq()
    report = check_ledger(ledger)
    if fault := report.fault:
        raise CliError(f"{named} is damaged{place(fault)}: {fault.message}; {advice}")
    return Verified(report.events, report.goals, last)


@contextmanager
def temporary(target: Path) -> Iterator[Path]:
    """Yield a hidden path beside `target` for an unfinished copy, and remove that copy afterwards."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        with suppress(OSError):
            remove(part)


def _refuse_target(file: Path, instance: Instance, *, force: bool) -> None:
    folder = file.absolute().parent
    if not folder.is_dir():
        raise CliError(f"{folder} does not exist; create that folder first")
    if folder.resolve().is_relative_to(instance.ledger.parent.resolve()):
        raise CliError(f"{folder} belongs to clew itself; name a file in another folder")
    if not os.path.lexists(file):
        return
    if not force:
        raise CliError(f"{file} exists; name another file, or replace it with --force")
    is_backup = file.is_file() and not file.is_symlink()
    if is_backup:
        with file.open("rb") as found:
            head, own = found.read(100), APPLICATION_ID.to_bytes(4, "big")
        is_backup = not head or (head.startswith(b"SQLite format 3\0") and head[68:72] == own)
    if not is_backup:
        what = "is neither an earlier backup nor empty, so --force does not replace it"
        raise CliError(f"{file} {what}; remove it first, or name another file")


# -- restore

DATABASE = ("", "-wal", "-shm")
BUSY_MS = 5_000
OTHER_HOME = (
    "it is from {}, and may still be in use there: the next start blocks its unfinished goals, "
    "until you continue or cancel them"
)
OTHER_LEDGER = "the backup comes from a different ledger than the one that was here"
GOALS_SHOWN = 10
QUESTION = "Restore the backup? The present ledger is kept beside it."


FILE = click.argument(
    "file", metavar="[FILE]", required=False, type=click.Path(path_type=Path), help="A backup."
)


@parameters.command(
    FILE,
    parameters.flag("--keep", "Continue with the ledger as it is."),
    parameters.flag("--yes", "Do not ask, for scripts."),
    parameters.as_json,
)
def restore(instance: Instance, file: Path | None, keep: bool, yes: bool, as_json: bool) -> None:
    """Replace the ledger with a backup, while no daemon runs; the present ledger is kept beside it.

    It asks first if the present ledger has more than the backup; with --json it does not ask. A ledger that lacks what
    it once had stops the daemon: --keep continues without that.
    """
    if (file is None) != keep:
        raise click.UsageError("name a FILE to restore, or use --keep for the ledger as it is")
    instance.refuse_broken()
    with ExitStack() as locks:  # those of a daemon: none is running, and none starts
        try:
            make_private(instance.places.state)
            instance.ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            locks.enter_context(acquire(beside(instance.ledger), role=RESTORE))
        except (LockError, FolderError) as error:
            raise CliError(str(error)) from None
        if file is not None:
            done = _replaced(instance, file, yes or as_json)
        elif not instance.ledger.exists():
            raise CliError(f"there is no ledger at {instance.ledger}: name a backup to restore")
        else:
            advice = "restore a backup (`clew restore FILE`)"
            done = _verified(instance.ledger, instance.ledger, advice)
        _accept(instance, done)
    what = f"restored {done.file}" if done.file else "kept the ledger as it is"
    lines = [f"{what}: {done}; verified"]
    lines += [f"the ledger that was there is kept as {done.aside}"] if done.aside else []
    lines += map(clean, _lost_lines(done))
    lines += [OTHER_HOME.format(clean(done.home))] if done.home else []
    show(asdict(done), lines, as_json=as_json)


def _replaced(instance: Instance, file: Path, unasked: bool) -> Verified:
    """Put a verified copy of the backup in the place of the ledger; asks before anything is taken off the record."""
    ledger = instance.ledger
    if ledger.exists() and file.exists() and ledger.samefile(file):
        raise CliError(f"{file} is the ledger itself; name a backup of it")
    with temporary(ledger) as part:
        done = verified_copy(file, part)
        done.file = str(file.absolute())
        done.note, is_behind = _compared(ledger, part) if ledger.exists() else ("", False)
        asks = is_behind and not unasked
        if asks and not parameters.confirmed(f"{clean(done.note)}\n{QUESTION}"):
            raise CliError("nothing was changed")
        aside = _put_in_place(part, ledger)
        # killed after this, the next start asks what is missing
    done.aside = str(aside) if aside else None
    return done


def _compared(ledger: Path, backup: Path) -> tuple[str, bool]:
    """Return what the present ledger has more than the backup, in words, and whether that is known to be of a goal."""
    try:
        with Reader.open(ledger) as present, Reader.open(backup) as restored:
            now, then = present.heads(), restored.heads()
            behind = sorted(g for g, head in now.items() if g and not restored.holds(*head))
            more = present.last_seq() - restored.last_seq()
            is_other = not any(present.hash_at(seq) == tip for seq, tip in then.values())
    except LedgerError as error:
        return f"what is lost is unknown: {error.what}", False
    what = f"recorded after the backup: {counted(more, 'event')}" if more > 0 else ""
    said = [OTHER_LEDGER] if is_other else [what] if what else []
    if behind:
        names = f"{', '.join(behind[:GOALS_SHOWN])}{', …' if behind[GOALS_SHOWN:] else ''}"
        said.append(f"lost, or set back: {counted(len(behind), 'goal')} ({names})")
    return "; ".join(said), bool(behind)


def _put_in_place(part: Path, ledger: Path) -> Path | None:
    """Make the copy the ledger; return the new path of the old one, None if there was none.

    The old WAL is moved into the old file first, so that a crash at any point leaves a whole ledger, the old one or
    the new one. If the old one is too damaged for that, its file and its WAL stay side by side.
    """
    aside = None
    if ledger.exists():
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        names = (f"{ledger.name}.{stamp}{more}" for more in ("", *(f".{n}" for n in range(2, 100))))
        aside = next(p for name in names if not os.path.lexists(p := ledger.with_name(name)))
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


def _accept(instance: Instance, done: Verified) -> None:
    """Let the next start continue with the ledger; the folders of goals that it lacks are moved away."""
    ledger, state = instance.ledger, instance.places.state
    try:
        missing = lost_record.lacking(ledger, state)
        moved = lost_record.accept(ledger, state, missing)
        with Reader.open(ledger) as reader:
            before = home.last(reader)
    except LedgerError as error:
        raise CliError(str(error)) from None
    done.note = done.note or "; ".join(missing.faults if missing else ())
    for goal, folder in sorted(moved.items()):
        file = folder / "goal.md"
        done.goals_lost.append({"id": goal, "file": str(file) if file.exists() else None})
    if before and home.is_other(before, home.here(state)):  # its unfinished goals will be blocked
        done.home = f"{before.path} (on {before.host})"


def _lost_lines(done: Verified) -> Iterator[str]:
    if done.note:
        yield done.note
    for one in done.goals_lost:
        again = f"; to run it again: clew submit {shlex.quote(one['file'])}" if one["file"] else ""
        yield f"no longer on record: {one['id']}{again}"
