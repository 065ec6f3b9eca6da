"""The ledger: the durable, append-only record of events, and the only truth.

Here lives how records are kept, chained, read back and checked. What an event means does not:
bodies are opaque bytes here, and the fold is elsewhere.

Each part is imported when it is asked for: reading needs no asyncio and no threads, and asking who holds the lock
needs no SQLite.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_shared.ledger.backup import copy, remove
    from clew_shared.ledger.errors import (
        LedgerBehindError,
        LedgerCorrupt,
        LedgerEmpty,
        LedgerError,
        LedgerFailed,
        LedgerLostError,
        LedgerTooNew,
        LedgerUnwell,
    )
    from clew_shared.ledger.following import Cursor, Follower
    from clew_shared.ledger.reader import SEQ_MAX, Reader
    from clew_shared.ledger.records import Entry, LedgerState, Row
    from clew_shared.ledger.sqlite import Ledger
    from clew_shared.ledger.turns import TurnLedger
    from clew_shared.ledger.verify import Fault, Report, verify

__all__ = [
    "SEQ_MAX",
    "Cursor",
    "Entry",
    "Fault",
    "Follower",
    "Ledger",
    "LedgerBehindError",
    "LedgerCorrupt",
    "LedgerEmpty",
    "LedgerError",
    "LedgerFailed",
    "LedgerLostError",
    "LedgerState",
    "LedgerTooNew",
    "LedgerUnwell",
    "Reader",
    "Report",
    "Row",
    "TurnLedger",
    "copy",
    "remove",
    "verify",
]


_PARTS = {
    "backup": ("copy", "remove"),
    "errors": (
        "LedgerBehindError",
        "LedgerCorrupt",
        "LedgerEmpty",
        "LedgerError",
        "LedgerFailed",
        "LedgerLostError",
        "LedgerTooNew",
        "LedgerUnwell",
    ),
    "following": ("Cursor", "Follower"),
    "reader": ("SEQ_MAX", "Reader"),
    "records": ("Entry", "LedgerState", "Row"),
    "sqlite": ("Ledger",),
    "turns": ("TurnLedger",),
    "verify": ("Fault", "Report", "verify"),
}
_PART_OF = {name: part for part, names in _PARTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PART_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    part = _PART_OF[name]
    module = import_module(f"{__name__}.{part}")
    globals().update(
        {each: getattr(module, each) for each in _PARTS[part]}
    )  # `verify`: not the module
    return globals()[name]
