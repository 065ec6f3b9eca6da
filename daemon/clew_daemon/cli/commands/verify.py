"""`clew verify`: replay the ledger and check it, with the snapshots that it names."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.host.git import program
from clew_daemon.reading.output import print_json, print_lines
from clew_daemon.reading.sanitize import clean, counted
from clew_daemon.record import home
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger import LedgerFault, Reader
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.snapshots.plan import with_store
from clew_shared.snapshots.store import StoreError, StoreSlowError, at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clew_daemon.reading.instance import Instance
    from clew_daemon.reading.output import Line


CHECK_S = 300.0
"""How long the stores of all goals are checked."""

KINDS = ("snapshot_taken", "snapshots_missing")


@dataclass
class SnapshotCheck:
    """How many goals' snapshots are whole, which stores were left in another home, and what was not checked and why."""

    goals: int = 0
    missing: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    why: str = ""
    fault: LedgerFault | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what is found as JSON, without the fault."""
        found = asdict(self)
        del found["fault"]
        return found


def check_snapshots(instance: Instance) -> SnapshotCheck:
    """Check the stores of all goals on record, until the first fault or for CHECK_S. Blocks; raises LedgerError."""
    found = SnapshotCheck()
    if not instance.ledger.exists():
        return found
    until, git = time.monotonic() + CHECK_S, program(instance.env)
    with Reader.open(instance.ledger) as reader:
        is_copied = home.is_other(home.last(reader), home.here(instance.places.state))
        for goal in reader.goals():
            if trees := _trees(reader, goal):
                folder = instance.places.snapshots / goal
                left_s = until - time.monotonic()
                _check(found, goal, folder, trees, git, left_s=left_s, is_copied=is_copied)
            if found.fault and not _trees(reader, goal):
                found.fault = None  # the store was removed meanwhile, which is recorded first
            if found.fault:
                break
    return found


def _trees(reader: Reader, goal: str) -> list[str]:
    """Return the trees that a goal's store must have, each once."""
    rows = ((row.seq, decode(row.body)) for row in reader.read(goal) if row.kind in KINDS)
    events = (event for _, event in with_store(rows))
    return list(dict.fromkeys(e.tree for e in events if isinstance(e, snap.SnapshotTaken)))


def _check(
    found: SnapshotCheck,
    goal: str,
    folder: Path,
    trees: list[str],
    git: str | None,
    *,
    left_s: float,
    is_copied: bool,
) -> None:
    if not (folder / "HEAD").exists():
        if is_copied:
            found.missing.append(goal)
        else:
            found.fault = LedgerFault(None, goal, "its snapshots are gone")
        return
    try:
        store = at(folder, git)
    except StoreError as error:
        found.unchecked.append(goal)
        found.why = str(error)
        return
    try:
        store.within(max(left_s, 0.1)).check(trees)
        found.goals += 1
    except StoreSlowError as error:
        found.unchecked.append(goal)
        found.why = str(error)
    except StoreError as error:
        found.fault = LedgerFault(None, goal, f"its snapshots are damaged: {error}")


NAMED_MAX = 5


@click.command()
@parameters.as_json
@click.pass_obj
def verify(instance: Instance, as_json: bool) -> None:
    """Replay the ledger and check it and the snapshots; exit 1 and name the first error, if there is one."""
    report = _checked(instance)
    if as_json:
        print_json(report)
    elif (fault := report["fault"]) is None:
        found = f": {counted(report['events'], 'event')} of {counted(report['goals'], 'goal')}"
        print_lines([[("ok", "green"), (found, "")], *_snapshot_lines(report["snapshots"])])
    else:
        at = "" if fault["seq"] is None else f" at event {fault['seq']}"
        of = "" if not fault["goal"] else f" of {fault['goal']}"
        print_lines([[("error", "bold red"), (clean(f"{at}{of}: {fault['message']}"), "")]])
    if not report["ok"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _checked(instance: Instance) -> dict[str, Any]:
    """Return the report on the ledger, and on the snapshots where the ledger is whole."""
    from clew_daemon.cli.ledger_check import check_ledger

    report = check_ledger(instance.ledger, instance.places.state)
    found = check_snapshots(instance) if report["ok"] else SnapshotCheck()
    if found.fault:
        report |= {"ok": False, "fault": asdict(found.fault)}
    return report | {"snapshots": found.as_dict()}


def _snapshot_lines(found: Mapping[str, Any]) -> list[Line]:
    """Return what was found of the snapshots, where there are any."""
    lines: list[Line] = []
    if found["goals"]:
        lines.append(
            [("ok", "green"), (f": the snapshots of {counted(found['goals'], 'goal')}", "")]
        )
    if found["missing"]:
        what = f": the snapshots of {_named(found['missing'])} were left in another home"
        lines.append([("missing", "yellow"), (what, "")])
    if found["unchecked"]:
        what = f": the snapshots of {_named(found['unchecked'])}: {found['why']}"
        lines.append([("not checked", "yellow"), (clean(what), "")])
    return lines


def _named(goals: list[str]) -> str:
    more = f" and {len(goals) - NAMED_MAX} more" if len(goals) > NAMED_MAX else ""
    return clean(", ".join(goals[:NAMED_MAX]) + more)
