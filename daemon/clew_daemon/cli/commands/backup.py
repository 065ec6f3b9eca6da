"""`clew backup`: a verified copy of the ledger, which may be in use meanwhile."""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import print_json
from clew_daemon.reading.sanitize import counted
from clew_shared.files.durable import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clew_daemon.reading.instance import Instance

DEADLINE_S = 600.0
PROGRESS_S = 0.2
MB = 1 << 20


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--force", is_flag=True, help="Replace FILE if it is an earlier backup, or empty.")
@click.option(
    "--deadline",
    "deadline_s",
    metavar="SECONDS",
    type=click.FloatRange(1),
    default=DEADLINE_S,
    show_default=True,
    help="Give up if the copy takes longer.",
)
@parameters.as_json
@click.pass_obj
def backup(instance: Instance, file: Path, force: bool, deadline_s: float, as_json: bool) -> None:
    """Copy the ledger to FILE, with or without a running daemon, and verify the copy."""
    ledger = instance.ledger
    _refuse_target(file, instance, force=force)
    with temporary(file.absolute()) as part:
        found = verified_copy(ledger, part, deadline_s)
        size = part.stat().st_size
        if force:
            _refuse_kind(file)  # it may be something else by now
        _publish(part, file, force=force)
    if as_json:
        print_json({"file": str(file.absolute()), "bytes": size, **found})
    else:
        print(f"{file}: {contents(found)}, {size / MB:.1f} MB; verified")


def verified_copy(source: Path, target: Path, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
    """Copy a ledger and verify the copy; return {events, goals, seq} of it, or raise CliError."""
    from clew_daemon.cli.ledger_check import check_ledger
    from clew_shared.ledger import LedgerCorrupt, LedgerError, Reader, copy

    if not source.exists():
        raise CliError(f"there is no ledger at {source}")
    try:
        copy(source, target, _progress(deadline_s))
        with Reader.open(target) as reader:
            last = reader.last_seq()
    except (
        LedgerCorrupt
    ) as error:  # its own advice, to move the file away, is for the ledger in use
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
    ledger, state = instance.ledger, instance.ledger.parent.resolve()
    folder = file.absolute().parent
    if file.is_dir():
        raise CliError(f"{file} is a folder; name a file in it")
    if not folder.is_dir():
        raise CliError(f"{folder} does not exist; create that folder first")
    names = {ledger.name + end for end in ("", "-wal", "-shm", ".lock", ".head")}
    if ledger.exists() and folder.resolve() == state and file.name in names:
        raise CliError(f"{file} is the ledger itself or belongs to it; name another file")
    if not os.path.lexists(file):
        return
    if folder.resolve().is_relative_to(state) or file.absolute() == instance.config.absolute():
        raise CliError(f"{file} belongs to clew itself; name another file")
    if not force:
        raise CliError(f"{file} exists; name another file, or replace it with --force")
    _refuse_kind(file)


def _refuse_kind(file: Path) -> None:
    """Raise CliError if there is something else at `file` than an earlier backup, or an empty file."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise CliError(f"{file} is a link; name the file itself: {os.path.realpath(file)}")
    if not stat.S_ISREG(mode):
        raise CliError(f"{file} is no regular file; name another file")
    if not _is_backup(file):
        what = "is neither an earlier backup nor empty, so --force does not replace it"
        raise CliError(f"{file} {what}; remove it first, or name another file")


def _is_backup(file: Path) -> bool:
    from clew_shared.ledger.schema import APPLICATION_ID

    with file.open("rb") as found:
        head = found.read(100)
    own = APPLICATION_ID.to_bytes(4, "big")
    return not head or (head.startswith(b"SQLite format 3\0") and head[68:72] == own)


def _publish(part: Path, file: Path, *, force: bool) -> None:
    """Rename the finished copy to its name, atomically and durably."""
    try:
        if force:
            part.replace(file)
        else:
            os.link(part, file)
    except FileExistsError:
        raise CliError(f"{file} was created in the meantime; name another file") from None
    except OSError:
        if os.path.lexists(file):
            raise
        part.replace(file)  # a file system without links
    sync(file.absolute().parent)


def _progress(deadline_s: float) -> Callable[[int, int], None]:
    """Return a callback that shows the progress of a copy on a terminal, and raises CliError after the deadline."""
    deadline, shown_at = time.monotonic() + deadline_s, 0.0

    def show(left: int, total: int) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if now > deadline:
            how = "use a faster disk, or a longer --deadline"
            raise CliError(f"the copy took longer than {deadline_s:g} s; {how}")
        if sys.stderr.isatty() and now - shown_at > PROGRESS_S:
            shown_at = now
            print(f"\rcopied {100 * (total - left) // max(total, 1)}%\r", end="", file=sys.stderr)

    return show
