"""The ledger: the durable, append-only record of events, and the only truth.

Here lives how records are kept, chained, read back and checked. What an event means does not:
bodies are opaque bytes here, and the fold is elsewhere.
"""

from clew_shared.ledger.backup import copy, remove
from clew_shared.ledger.errors import (
    LedgerCorrupt,
    LedgerEmpty,
    LedgerError,
    LedgerFailed,
    LedgerTooNew,
    LedgerUnwell,
)
from clew_shared.ledger.reader import SEQ_MAX
from clew_shared.ledger.records import Entry, LedgerState, Row
from clew_shared.ledger.sqlite import Ledger, Reader
from clew_shared.ledger.turns import TurnLedger
from clew_shared.ledger.verify import Fault, Report, verify

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
