"""The ledger: the durable, append-only record of events, and the only source of truth.

It stores, chains, reads and checks events without knowing what they mean: bodies are opaque bytes here, and the fold
is in `record`. What needs SQLite is imported on first use: asking who holds the lock does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clew_shared.ledger.errors import (
    SEQ_MAX,
    EventRow,
    LedgerBehindError,
    LedgerCorrupt,
    LedgerEmpty,
    LedgerError,
    LedgerFailed,
    LedgerLostError,
    LedgerState,
    LedgerTooNew,
    LedgerUnwell,
    NewEvent,
)

if TYPE_CHECKING:
    from clew_shared.ledger.ledger import Ledger
    from clew_shared.ledger.reader import Cursor, Reader
    from clew_shared.ledger.turns import TurnLedger
    from clew_shared.ledger.verify import LedgerFault, VerifyReport, copy, remove, verify

__all__ = [
    "SEQ_MAX",
    "Cursor",
    "EventRow",
    "Ledger",
    "LedgerBehindError",
    "LedgerCorrupt",
    "LedgerEmpty",
    "LedgerError",
    "LedgerFailed",
    "LedgerFault",
    "LedgerLostError",
    "LedgerState",
    "LedgerTooNew",
    "LedgerUnwell",
    "NewEvent",
    "Reader",
    "TurnLedger",
    "VerifyReport",
    "copy",
    "remove",
    "verify",
]

_PARTS = {
    "ledger": ("Ledger",),
    "reader": ("Cursor", "Reader"),
    "turns": ("TurnLedger",),
    "verify": ("LedgerFault", "VerifyReport", "copy", "remove", "verify"),
}


def __getattr__(name: str) -> Any:
    for part, names in _PARTS.items():
        if name in names:
            module = import_module(f"{__name__}.{part}")
            # all names of the part: a module that was imported would stand in the place of `verify`
            globals().update({one: getattr(module, one) for one in names})
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
