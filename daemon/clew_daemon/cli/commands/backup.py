"""`backup` of a ledger that may be in use, and `restore` of one while no daemon runs.

What the record means matters only to say what a copy holds, and what a restored one lacks.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.errors import CliError
from clew_shared.files.durable import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clew_daemon.cli.instance import Instance

DEADLINE_S = 600.0
TELL_EVERY_S = 0.2
MB = 1 << 20


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
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
    from clew_daemon.cli.display.output import print_json

    ledger = instance.ledger
    _may_be_written(file, ledger, force=force)
    part = file.absolute().with_name(f".{file.name}.{os.getpid()}.part")
    with removed(part):
        found = copied(ledger, part, deadline_s)
        size = part.stat().st_size
        _name(part, file, force=force)
    if as_json:
        print_json({"file": str(file.absolute()), "bytes": size, **found})
    else:
        print(f"{file}: {_holding(found)}, {size / MB:.1f} MB; verified")


@click.command()
@click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    type=click.Path(path_type=Path),
    help="A backup of a ledger, or a rescued copy.",
)
@click.option(
    "--keep", is_flag=True, help="Continue with the ledger as it is, without what it lacks."
)
@parameters.as_json
@click.pass_obj
def restore(instance: Instance, file: Path | None, keep: bool, as_json: bool) -> None:
    """Replace the ledger with a backup, while no daemon runs; the present ledger is kept beside it."""
    from clew_daemon.cli.display.output import print_json

    if (file is None) != keep:
        raise click.UsageError(
            "name a FILE to restore, or use --keep to continue with the ledger as it is"
        )
    with _alone(instance):
        done = _kept(instance) if file is None else _restored(instance, file)
    if as_json:
        print_json(done)
    else:
        _tell_restored(done)


def _restored(instance: Instance, file: Path) -> dict[str, Any]:
    from clew_daemon.cli.commands import restore as restoring
    from clew_shared.ledger import note

    ledger = instance.ledger
    if ledger.exists() and file.exists() and ledger.samefile(file):
        raise CliError(f"{file} is the ledger itself; name a backup of it")
    with removed(ledger.with_name(f".{ledger.name}.{os.getpid()}.part")) as part:
        found = copied(file, part, DEADLINE_S)
        lost = restoring.compared(instance, part)
        noted = note.read(ledger)
        note.drop(ledger)  # it is of the ledger that goes: a start after a kill must not ask for it
        try:
            aside = restoring.put_in_place(part, ledger)
        except CliError:  # nothing was changed
            if noted:
                note.write(ledger, noted, durable=True)
            raise
    lost = restoring.accepted(instance, lost)
    restoring.republish(ledger)
    aside_name = aside and str(aside)
    return {"file": str(file.absolute()), **found, "aside": aside_name, **lost}


def _kept(instance: Instance) -> dict[str, Any]:
    from clew_daemon.cli.commands import restore as restoring
    from clew_daemon.cli.ledger_check import checked
    from clew_shared.ledger import Reader

    ledger = instance.ledger
    if not ledger.exists():
        raise CliError(f"there is no ledger at {ledger} to keep; name a backup to restore")
    report = checked(ledger)
    if fault := report["fault"]:
        raise CliError(
            f"{ledger} is damaged: {fault['message']}; restore a backup (`clew restore FILE`)"
        )
    with Reader.open(ledger) as reader:
        found = {"events": report["events"], "goals": report["goals"], "seq": reader.last_seq()}
    lost = restoring.accepted(instance, {"note": "", "goals_lost": [], "goals_set_back": []})
    restoring.republish(ledger)
    return {"file": None, **found, "aside": None, **lost}


def copied(source: Path, target: Path, deadline_s: float) -> dict[str, Any]:
    """Copy a ledger and verify the copy; {events, goals, seq} of it, or CliError."""
    from clew_daemon.cli.ledger_check import checked
    from clew_shared.ledger import LedgerCorrupt, LedgerError, Reader, copy

    if not source.exists():
        raise CliError(f"there is no ledger at {source}")
    try:
        copy(source, target, _telling(deadline_s))
        with Reader.open(target) as reader:
            last = reader.last_seq()
    except LedgerCorrupt as error:  # whose own advice is for the ledger in use: to move it away
        tail = "nothing was changed; `clew verify` checks the ledger in use"
        raise CliError(f"{error.path}: {error.what}; {tail}") from None
    except LedgerError as error:
        raise CliError(str(error)) from None
    report = checked(target)
    if fault := report["fault"]:
        at = "" if fault["seq"] is None else f" at event {fault['seq']}"
        raise CliError(f"{source} is damaged{at}: {fault['message']}; nothing was changed")
    return {"events": report["events"], "goals": report["goals"], "seq": last}


@contextmanager
def removed(part: Path) -> Iterator[Path]:
    """Remove an unfinished copy afterwards, whatever happens."""
    from clew_shared.ledger import remove

    try:
        yield part
    finally:
        with suppress(OSError):
            remove(part)


def _may_be_written(file: Path, ledger: Path, *, force: bool) -> None:
    if file.is_dir():
        raise CliError(f"{file} is a folder; name a file in it")
    if not file.absolute().parent.is_dir():
        raise CliError(f"{file.absolute().parent} does not exist; create that folder first")
    names = {ledger.name + end for end in ("", "-wal", "-shm", ".lock", ".head")}
    if ledger.exists() and file.parent.resolve() == ledger.parent.resolve() and file.name in names:
        raise CliError(f"{file} is the ledger itself or belongs to it; name another file")
    if os.path.lexists(file) and not force:
        raise CliError(f"{file} exists; name another file, or replace it with --force")


def _name(part: Path, file: Path, *, force: bool) -> None:
    """Give the finished copy its name, at once or not at all, and durably."""
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


def _telling(deadline_s: float) -> Callable[[int, int], None]:
    """Show on a terminal how far a copy is, and stop one that takes too long."""
    ends, shown = time.monotonic() + deadline_s, [0.0]

    def told(left: int, total: int) -> None:
        now = time.monotonic()
        if now > ends:
            raise CliError(
                f"the copy took longer than {deadline_s:g} s; use a faster disk, or a longer --deadline"
            )
        if sys.stderr.isatty() and now - shown[0] > TELL_EVERY_S:
            shown[0] = now
            print(f"\rcopied {100 * (total - left) // max(total, 1)}%\r", end="", file=sys.stderr)

    return told


@contextmanager
def _alone(instance: Instance) -> Iterator[None]:
    """Hold the locks of a daemon, so that none is running and none starts."""
    from clew_daemon.host.folders import FolderError, make_private
    from clew_shared.ledger.lock import RESTORE, LockError, acquire, acquire_pid_file, beside

    instance.refuse_broken()
    with ExitStack() as held:
        try:
            make_private(instance.places.state)
            make_private(instance.places.run)
            instance.ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(acquire(beside(instance.ledger), role=RESTORE))
            held.enter_context(acquire_pid_file(instance.places.run))
        except (LockError, FolderError) as error:
            raise CliError(str(error)) from None
        yield


def _holding(found: dict[str, Any]) -> str:
    from clew_daemon.cli.display.output import counted_as

    counted = f"{counted_as(found['events'], 'event')} of {counted_as(found['goals'], 'goal')}"
    return f"{counted}, up to number {found['seq']}"


def _tell_restored(done: dict[str, Any]) -> None:
    from clew_daemon.cli.display.output import counted_as
    from clew_daemon.cli.display.sanitize import clean

    if done["file"]:
        print(f"restored {done['file']}: {_holding(done)}; verified")
    else:
        print(f"kept the ledger as it is: {_holding(done)}; verified")
    if done["aside"]:
        print(f"the ledger that was there is kept as {done['aside']}")
    if done["note"]:
        print(clean(done["note"]))
    for goal in done["goals_lost"]:
        file_kept = f"; to run it again: clew submit {goal['file']}" if goal["file"] else ""
        print(clean(f"no longer on record: {goal['id']}{file_kept}"))
    for goal in done["goals_set_back"]:
        back = counted_as(goal["events"], "event")
        print(f"set back by {back}: {clean(goal['id'])}, now {goal['status']}")
    if done["unfinished"]:
        unfinished = counted_as(len(done["unfinished"]), "unfinished goal")
        print(
            f"it comes from {clean(done['home'])}, whose daemon may still be working on it: the next start blocks "
            f"{unfinished} until you resume or cancel them"
        )
