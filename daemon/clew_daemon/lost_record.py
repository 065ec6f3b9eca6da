"""A ledger that is missing or empty where goals were accepted is a lost one, and no first start.

A goal's folder in `<state>/goals` is made after its acceptance is durable, so where there is one there was a
record. What the record said is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.ledger import LedgerCorrupt, LedgerEmpty, LedgerError, Reader
from clew_shared.ledger.opening import refuse_remains

if TYPE_CHECKING:
    from pathlib import Path

GOALS = "goals"


def lost(ledger: Path, state: Path) -> LedgerCorrupt | None:
    """Give the error for a ledger of which nothing or a remnant is left, None where there is one or never was."""
    try:
        refuse_remains(ledger)
    except LedgerCorrupt as error:
        return error
    goals = _accepted(state / GOALS)
    if not goals or not _is_blank(ledger):
        return None
    what = f"is {'empty' if ledger.exists() else 'gone'}, but {len(goals)} goals were accepted: {goals[0]}"
    hint = (
        "nothing was changed: restore a backup (`clew restore FILE`), or, to begin with an empty "
        f"ledger, move {state / GOALS} away"
    )
    return LedgerCorrupt(ledger, f"{what}, …" if goals[1:] else what, hint)


def _accepted(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_blank(ledger: Path) -> bool:
    if not ledger.exists():
        return True
    try:
        Reader.open(ledger).close()
    except LedgerEmpty:
        return True
    except LedgerError:  # there is something: opening it to write says what is wrong with it
        return False
    return False
