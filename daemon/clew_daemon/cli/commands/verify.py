"""`clew verify`: the ledger's own check of the record; then whether events fold, and into what each snapshot says."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from clew_daemon.cli import parameters
from clew_daemon.learning import deltas
from clew_daemon.ledger.verify import LedgerFault, VerifyReport
from clew_daemon.ledger.verify import verify as verify_record
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line
from clew_daemon.reading.sanitize import clean
from clew_daemon.record.lost_record import lacking, lost
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.reader import EventRow, Reader
from clew_shared.playbook.playbook import VERSION, LearnedPlaybook
from clew_shared.record.codec import (
    OUTLINE_VERSION,
    STATE_VERSION,
    as_dict,
    decode,
    decode_playbook,
    decompress,
    outline,
)
from clew_shared.record.fold import apply
from clew_shared.record.state import State
from clew_shared.text.words import counted


@parameters.reading()
def verify(instance: Instance) -> parameters.Shown:
    """Replay the ledger and check it; exit 1 and name the first error, if there is one."""
    report = check_ledger(instance.ledger, instance.places.state)
    held = f"{counted(report.events, 'event')} of {counted(report.goals, 'goal')}"
    line: Line = [("ok", "green"), (f": {held}", "")]
    if fault := report.fault:
        of = f" of {fault.goal}" if fault.goal else ""
        line = [("error", "bold red"), (clean(f"{place(fault)}{of}: {fault.message}"), "")]
    return asdict(report), [line], not report.ok


def place(fault: LedgerFault) -> str:
    """Return at which event a fault is, "" where that is not known."""
    return "" if fault.seq is None else f" at event {fault.seq}"


def check_ledger(path: Path, state: Path | None = None) -> VerifyReport:
    """Check the ledger at `path`; a missing one is valid and empty, unless the folder `state` shows a loss."""
    if state and (gone := lost(path, state)):
        return VerifyReport(False, 0, 0, LedgerFault(None, None, f"the ledger {gone.what}"))
    if not path.exists():
        return VerifyReport(True, 0, 0, None)
    missing = None
    with suppress(LedgerError, OSError):  # the check of the record reports it
        missing = lacking(path, state) if state else None  # first: a daemon may write meanwhile
    found = verify_record(path)
    fault = found.fault
    try:
        with Reader.open(path) as reader:
            goals = (fault for goal in reader.goals() for fault in _goal_faults(reader, goal))
            fault = fault or next(chain(goals, _playbook_faults(reader)), None)
    except LedgerError as error:
        fault = fault or LedgerFault(None, None, error.what)
    if fault is None and missing and not missing.is_copied:  # a copy of another home may lack some
        incomplete = f"the ledger is incomplete: {'; '.join(missing.faults)}"
        fault = LedgerFault(None, None, incomplete)
    return VerifyReport(fault is None, found.events, found.goals, fault)


def _goal_faults(reader: Reader, goal: str) -> Iterator[LedgerFault]:
    """Fold a goal from its first event, and compare it with its snapshot and its outline on the way."""
    state = State(goal_id=goal)
    kinds: list[tuple[int, Callable[[], State]]]
    kinds = [(STATE_VERSION, lambda: state), (OUTLINE_VERSION, lambda: outline(state))]
    kept = [(reader.latest_snapshot(goal, version), view) for version, view in kinds]
    for row in reader.read(goal):
        try:
            apply(state, decode(row.body), row.seq)
        except Exception as error:  # noqa: BLE001 - any error is the fault of the event
            yield _unfolded(row, goal, error)
        for snapshot, view in kept:
            if not snapshot or snapshot[0] != row.seq:
                continue
            folded, stored = as_dict(view()), dict[str, object]()
            with suppress(ValueError):  # it cannot be read
                stored = as_dict(decompress(snapshot[1]))
            if keys := sorted(key for key in folded if folded[key] != stored.get(key)):
                why = f"is not what its events give: {', '.join(keys)}"
                why = why if stored else "cannot be read"
                yield LedgerFault(row.seq, goal, f"the snapshot {why}")


def _playbook_faults(reader: Reader) -> Iterator[LedgerFault]:
    """Fold the playbook from its first event, and compare it with its snapshot on the way."""
    playbook, snapshot = LearnedPlaybook(), reader.latest_snapshot("", VERSION)
    for row in reader.read(""):
        if not row.kind.startswith("bullet_"):
            continue
        try:
            deltas.apply(playbook, decode_playbook(row.body))
        except Exception as error:  # noqa: BLE001 - as above
            yield _unfolded(row, "", error)
        if snapshot and snapshot[0] == row.seq and json.loads(snapshot[1]) != playbook.to_dict():
            yield LedgerFault(row.seq, "", "the playbook's snapshot is not what its events give")


def _unfolded(row: EventRow, goal: str, error: Exception) -> LedgerFault:
    why = f"the event does not fold: {type(error).__name__}: {error}"
    return LedgerFault(row.seq, goal, why)
