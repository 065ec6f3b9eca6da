"""`clew verify`: replay the ledger and check it, with the snapshots that it names."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.host.git import program
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, print_json, print_lines
from clew_daemon.reading.sanitize import clean, counted
from clew_daemon.record import home
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger import LedgerFault, Reader
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.snapshots.plan import with_store
from clew_shared.snapshots.store import StoreError, StoreSlowError, at

CHECK_S = 300.0
"""How long the stores of all goals are checked."""

KINDS = ("snapshot_taken", "snapshots_missing")
NAMED_MAX = 5


@dataclass
class SnapshotCheck:
    """How many goals' snapshots are whole, which stores were left in another home, and what was not checked and why."""

    goals: int = 0
    missing: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    why: str = ""
    fault: LedgerFault | None = None

    def check(self, goal: str, folder: Path, trees: list[str], git: str | None, s: float) -> None:
        """Check the store of one goal, for so many seconds."""
        store = None
        try:
            store = at(folder, git)
            store.within(max(s, 0.1)).check(trees)
            self.goals += 1
        except StoreError as error:
            if store is None or isinstance(error, StoreSlowError):
                self.unchecked.append(goal)
                self.why = str(error)
            else:
                self.fault = LedgerFault(None, goal, f"its snapshots are damaged: {error}")


def check_snapshots(instance: Instance) -> SnapshotCheck:
    """Check the stores of all goals on record, until the first fault or for CHECK_S. Blocks; raises LedgerError."""
    found = SnapshotCheck()
    if not instance.ledger.exists():
        return found
    until, git = time.monotonic() + CHECK_S, program(instance.env)
    with Reader.open(instance.ledger) as reader:
        is_copied = home.is_other(home.last(reader), home.here(instance.places.state))
        for goal in reader.goals():
            trees, folder = _trees(reader, goal), instance.places.snapshots / goal
            if trees and (folder / "HEAD").exists():
                found.check(goal, folder, trees, git, until - time.monotonic())
            elif trees and is_copied:
                found.missing.append(goal)
            elif trees:
                found.fault = LedgerFault(None, goal, "its snapshots are gone")
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


@click.command()
@parameters.as_json
@click.pass_obj
def verify(instance: Instance, as_json: bool) -> None:
    """Replay the ledger and check it and the snapshots; exit 1 and name the first error, if there is one."""
    from clew_daemon.cli.ledger_check import check_ledger

    report = check_ledger(instance.ledger, instance.places.state)
    found = check_snapshots(instance) if report["ok"] else SnapshotCheck()
    if found.fault:
        report |= {"ok": False, "fault": asdict(found.fault)}
    if as_json:
        snapshots: dict[str, Any] = asdict(found)
        del snapshots["fault"]
        print_json(report | {"snapshots": snapshots})
    elif (fault := report["fault"]) is None:
        what = f": {counted(report['events'], 'event')} of {counted(report['goals'], 'goal')}"
        print_lines([[("ok", "green"), (what, "")], *_snapshot_lines(found)])
    else:
        where = "" if fault["seq"] is None else f" at event {fault['seq']}"
        of = "" if not fault["goal"] else f" of {fault['goal']}"
        print_lines([[("error", "bold red"), (clean(f"{where}{of}: {fault['message']}"), "")]])
    if not report["ok"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _snapshot_lines(found: SnapshotCheck) -> list[Line]:
    """Return what was found of the snapshots, where there are any."""
    lines: list[Line] = []
    if found.goals:
        what = f": the snapshots of {counted(found.goals, 'goal')}"
        lines.append([("ok", "green"), (what, "")])
    if found.missing:
        what = f": the snapshots of {_named(found.missing)} were left in another home"
        lines.append([("missing", "yellow"), (what, "")])
    if found.unchecked:
        what = f": the snapshots of {_named(found.unchecked)}: {found.why}"
        lines.append([("not checked", "yellow"), (clean(what), "")])
    return lines


def _named(goals: list[str]) -> str:
    more = f" and {len(goals) - NAMED_MAX} more" if len(goals) > NAMED_MAX else ""
    return clean(", ".join(goals[:NAMED_MAX]) + more)
