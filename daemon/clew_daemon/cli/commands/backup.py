"""`clew backup`: a verified copy of the ledger, which may be in use meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import print_json
from clew_daemon.reading.sanitize import counted
from clew_shared.files.durable import sync

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
    if as_json:
        print_json({"file": str(file.absolute()), "bytes": size, **found})
    else:
        print(f"{file}: {contents(found)}, {size / MB:.1f} MB; verified")


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
