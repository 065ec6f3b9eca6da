"""The ledger: the durable, append-only record of events, and the only source of truth.

It stores, chains, reads and checks events without knowing what they mean: bodies are opaque bytes here, and the fold
is in `record`.

Each part is imported on first use: reading needs no asyncio and no threads, and asking who holds the lock needs no
SQLite.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_shared.ledger.backup import copy, remove
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
    from clew_shared.ledger.reader import Cursor, Reader
    from clew_shared.ledger.sqlite import Ledger
    from clew_shared.ledger.turns import TurnLedger
    from clew_shared.ledger.verify import LedgerFault, VerifyReport, verify

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
    "backup": "copy remove",
    "errors": "LedgerBehindError LedgerCorrupt LedgerEmpty LedgerError LedgerFailed LedgerLostError LedgerTooNew "
    "LedgerUnwell SEQ_MAX EventRow LedgerState NewEvent",
    "reader": "Cursor Reader",
    "sqlite": "Ledger",
    "turns": "TurnLedger",
    "verify": "LedgerFault VerifyReport verify",
}
_PART_OF = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _PART_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    part = _PART_OF[name]
    module = import_module(f"{__name__}.{part}")
    globals().update(
        {each: getattr(module, each) for each in _PARTS[part].split()}
    )  # `verify`: not the module
    return globals()[name]
