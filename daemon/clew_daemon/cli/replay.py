"""`clew verify`: the ledger's own check of the record, then each goal's events folded again.

The ledger checks sequence, hashes and outputs; here it is checked that the events still give a state, and that
each snapshot is the state that its events give.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from clew_daemon.learning import record
from clew_daemon.record.lost_record import lacking, lost
from clew_shared.ledger import Fault, LedgerError, Reader
from clew_shared.ledger import verify as verify_record
from clew_shared.playbook.playbook import VERSION, LearnedPlaybook
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.state import STATE_VERSION, State, as_dict, outline, unpack

if TYPE_CHECKING:
    from pathlib import Path


def checked(path: Path, state: Path | None = None) -> dict[str, Any]:
    """Check the ledger at `path`: {ok, events, goals, fault}; a missing one is valid and empty.

    The folder `state` tells what it once held and does not hold any more.
    """
    if state and (gone := lost(path, state)):
        missing = Fault(None, None, f"the ledger {gone.what}")
        return {"ok": False, "events": 0, "goals": 0, "fault": asdict(missing)}
    if not path.exists():
        return {"ok": True, "events": 0, "goals": 0, "fault": None}
    behind = _behind(path, state) if state else None  # first: a daemon may write meanwhile
    report = verify_record(path)
    fault = report.fault or _fold_fault(path) or behind
    return {
        "ok": fault is None,
        "events": report.events,
        "goals": report.goals,
        "fault": None if fault is None else asdict(fault),
    }


def _behind(path: Path, state: Path) -> Fault | None:
    """Return what was once recorded and is missing; a copy of another home may lack what the original has."""
    try:
        missing = lacking(path, state)
    except (LedgerError, OSError):
        return None  # the check of the record says what is wrong
    if missing is None or missing.is_copied:
        return None
    return Fault(None, None, f"the ledger is incomplete: {'; '.join(missing.faults)}")


def _fold_fault(path: Path) -> Fault | None:
    try:
        with Reader.open(path) as reader:
            outlines = dict(reader.outlines(STATE_VERSION))
            faults = (_goal_fault(reader, goal, outlines.get(goal)) for goal in reader.goals())
            return next(filter(None, faults), None) or _playbook_fault(reader)
    except LedgerError as error:
        return Fault(None, None, error.what)


def _playbook_fault(reader: Reader) -> Fault | None:
    """Fold the playbook from its first event, and compare with its snapshot on the way."""
    playbook, snapshot = LearnedPlaybook(), reader.latest_snapshot("", VERSION)
    for row in reader.read(""):
        if not row.kind.startswith("bullet_"):
            continue
        try:
            record.apply(playbook, ev.decode_playbook(row.body))
        except Exception as error:  # noqa: BLE001 - whatever a wrong event breaks is its fault
            return Fault(row.seq, "", f"the event does not fold: {type(error).__name__}: {error}")
        if snapshot and snapshot[0] == row.seq and json.loads(snapshot[1]) != playbook.to_dict():
            return Fault(row.seq, "", "the playbook's snapshot is not what its events give")
    return None


def _goal_fault(reader: Reader, goal: str, outlined: bytes | None) -> Fault | None:
    """Fold the goal from its first event, and compare with its snapshot on the way, with its outline at the end."""
    state = State(goal_id=goal)
    snapshot = reader.latest_snapshot(goal, STATE_VERSION)
    for row in reader.read(goal):
        try:
            apply(state, ev.decode(row.body), row.seq)
        except Exception as error:  # noqa: BLE001 - whatever a wrong event breaks is its fault
            return Fault(row.seq, goal, f"the event does not fold: {type(error).__name__}: {error}")
        if snapshot and snapshot[0] == row.seq and (why := _differs(state, snapshot[1])):
            return Fault(row.seq, goal, why)
    if outlined and (why := _outline_differs(state, outlined)):
        return Fault(state.seq, goal, why)
    return None


def _outline_differs(state: State, outlined: bytes) -> str:
    """Return what is wrong with an outline; nothing for one of another moment, since a daemon may be running."""
    try:
        if unpack(outlined).seq != state.seq:
            return ""
    except ValueError:
        pass
    return _differs(outline(state), outlined, "outline")


def _differs(state: State, snapshot: bytes, what: str = "snapshot") -> str:
    try:
        kept = as_dict(unpack(snapshot))
    except ValueError:
        return f"the {what} cannot be read"
    folded = as_dict(state)
    keys = sorted(key for key in folded if folded[key] != kept.get(key))
    return f"the {what} is not what its events give: {', '.join(keys)}" if keys else ""
