"""The check of the snapshots on record: each is in its goal's store, with all that it holds."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from clew_daemon.host.git import program
from clew_daemon.record import home
from clew_shared.ledger import LedgerFault, Reader
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.snapshots.steps import with_store
from clew_shared.snapshots.store import StoreError, StoreSlowError, at

if TYPE_CHECKING:
    from pathlib import Path

    from clew_daemon.cli.instance import Instance

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
        store.check(trees, max(left_s, 0.1))
        found.goals += 1
    except StoreSlowError as error:
        found.unchecked.append(goal)
        found.why = str(error)
    except StoreError as error:
        found.fault = LedgerFault(None, goal, f"its snapshots are damaged: {error}")
