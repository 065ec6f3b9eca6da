"""The check of a whole ledger: its own check of the record, then a fold of each goal's events.

The ledger checks sequence, hashes and outputs. This module checks that the events still fold into a state, and that
each snapshot equals the state that its events fold into.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clew_daemon.learning import deltas
from clew_daemon.record.lost_record import lacking, lost
from clew_shared.ledger import LedgerError, LedgerFault, Reader
from clew_shared.ledger import verify as verify_record
from clew_shared.playbook.playbook import VERSION, LearnedPlaybook
from clew_shared.record.codec import decode, decode_playbook
from clew_shared.record.fold import apply
from clew_shared.record.snapshot import OUTLINE_VERSION, STATE_VERSION, as_dict, decompress, outline
from clew_shared.record.state import State


def check_ledger(path: Path, state: Path | None = None) -> dict[str, Any]:
    """Check the ledger at `path`: {ok, events, goals, fault}; a missing one is valid and empty.

    The folder `state` shows what the ledger once held and has lost since.
    """
    if state and (gone := lost(path, state)):
        return _report(LedgerFault(None, None, f"the ledger {gone.what}"))
    if not path.exists():
        return _report(None)
    behind = _behind(path, state) if state else None  # first: a daemon may write meanwhile
    report = verify_record(path)
    return _report(report.fault or _fold_fault(path) or behind, report.events, report.goals)


def _report(fault: LedgerFault | None, events: int = 0, goals: int = 0) -> dict[str, Any]:
    found = None if fault is None else asdict(fault)
    return {"ok": fault is None, "events": events, "goals": goals, "fault": found}


def _behind(path: Path, state: Path) -> LedgerFault | None:
    """Return the fault that recorded events are missing; a copy of another home may lack some."""
    try:
        missing = lacking(path, state)
    except (LedgerError, OSError):
        return None  # the check of the record reports it
    if missing is None or missing.is_copied:
        return None
    return LedgerFault(None, None, f"the ledger is incomplete: {'; '.join(missing.faults)}")


def _fold_fault(path: Path) -> LedgerFault | None:
    try:
        with Reader.open(path) as reader:
            faults = (_goal_fault(reader, goal) for goal in reader.goals())
            return next(filter(None, faults), None) or _playbook_fault(reader)
    except LedgerError as error:
        return LedgerFault(None, None, error.what)


def _playbook_fault(reader: Reader) -> LedgerFault | None:
    """Fold the playbook from its first event, and compare it with its snapshot on the way."""
    playbook, snapshot = LearnedPlaybook(), reader.latest_snapshot("", VERSION)
    for row in reader.read(""):
        if not row.kind.startswith("bullet_"):
            continue
        try:
            deltas.apply(playbook, decode_playbook(row.body))
        except Exception as error:  # noqa: BLE001 - any error is the fault of the event
            return LedgerFault(
                row.seq, "", f"the event does not fold: {type(error).__name__}: {error}"
            )
        if snapshot and snapshot[0] == row.seq and json.loads(snapshot[1]) != playbook.to_dict():
            return LedgerFault(row.seq, "", "the playbook's snapshot is not what its events give")
    return None


def _goal_fault(reader: Reader, goal: str) -> LedgerFault | None:
    """Fold a goal from its first event, and compare it with its snapshot or its outline on the way."""
    state = State(goal_id=goal)
    snapshot = reader.latest_snapshot(goal, STATE_VERSION)
    outlined = reader.latest_snapshot(goal, OUTLINE_VERSION)
    for row in reader.read(goal):
        try:
            apply(state, decode(row.body), row.seq)
        except Exception as error:  # noqa: BLE001 - any error is the fault of the event
            return LedgerFault(
                row.seq, goal, f"the event does not fold: {type(error).__name__}: {error}"
            )
        if snapshot and snapshot[0] == row.seq and (why := _differs(state, snapshot[1])):
            return LedgerFault(row.seq, goal, why)
        if outlined and outlined[0] == row.seq and (why := _differs(outline(state), outlined[1])):
            return LedgerFault(row.seq, goal, why)
    return None


def _differs(state: State, snapshot: bytes) -> str:
    try:
        stored = as_dict(decompress(snapshot))
    except ValueError:
        return "the snapshot cannot be read"
    folded = as_dict(state)
    keys = sorted(key for key in folded if folded[key] != stored.get(key))
    return f"the snapshot is not what its events give: {', '.join(keys)}" if keys else ""
