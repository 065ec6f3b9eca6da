"""The ledger: the durable, append-only record of events, and the only truth.

Here lives how records are kept, chained, read back and checked. What an event means does not:
bodies are opaque bytes here, and the fold is elsewhere.

Reading is imported at once, writing when it is asked for: commands that read have no use for asyncio and threads.
"""

from typing import TYPE_CHECKING, Any

from clew_shared.ledger.backup import copy, remove
from clew_shared.ledger.errors import (
    LedgerCorrupt,
    LedgerEmpty,
    LedgerError,
    LedgerFailed,
    LedgerTooNew,
    LedgerUnwell,
)
from clew_shared.ledger.reader import SEQ_MAX, Reader
from clew_shared.ledger.records import Entry, LedgerState, Row
from clew_shared.ledger.verify import Fault, Report, verify

if TYPE_CHECKING:
    from clew_shared.ledger.sqlite import Ledger
    from clew_shared.ledger.turns import TurnLedger

__all__ = [
    "SEQ_MAX",
    "Entry",
    "Fault",
    "Ledger",
    "LedgerCorrupt",
    "LedgerEmpty",
    "LedgerError",
    "LedgerFailed",
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


def __getattr__(name: str) -> Any:
    if name == "Ledger":
        from clew_shared.ledger.sqlite import Ledger

        return Ledger
    if name == "TurnLedger":
        from clew_shared.ledger.turns import TurnLedger

        return TurnLedger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
