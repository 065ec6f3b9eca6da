"""The ledger: the durable, append-only record of events, and the only source of truth.

It stores, chains, reads and checks events without knowing what they mean: bodies are opaque bytes here, and the fold
is in `record`. What needs SQLite is imported on first use: asking who holds the lock does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clew_shared.ledger.errors import SEQ_MAX as SEQ_MAX
from clew_shared.ledger.errors import EventRow as EventRow
from clew_shared.ledger.errors import LedgerBehindError as LedgerBehindError
from clew_shared.ledger.errors import LedgerCorrupt as LedgerCorrupt
from clew_shared.ledger.errors import LedgerEmpty as LedgerEmpty
from clew_shared.ledger.errors import LedgerError as LedgerError
from clew_shared.ledger.errors import LedgerFailed as LedgerFailed
from clew_shared.ledger.errors import LedgerLostError as LedgerLostError
from clew_shared.ledger.errors import LedgerState as LedgerState
from clew_shared.ledger.errors import LedgerTooNew as LedgerTooNew
from clew_shared.ledger.errors import LedgerUnwell as LedgerUnwell
from clew_shared.ledger.errors import NewEvent as NewEvent

if TYPE_CHECKING:
    from clew_shared.ledger.ledger import Ledger as Ledger
    from clew_shared.ledger.reader import Cursor as Cursor
    from clew_shared.ledger.reader import Reader as Reader
    from clew_shared.ledger.turns import TurnLedger as TurnLedger
    from clew_shared.ledger.verify import LedgerFault as LedgerFault
    from clew_shared.ledger.verify import VerifyReport as VerifyReport
    from clew_shared.ledger.verify import copy as copy
    from clew_shared.ledger.verify import remove as remove
    from clew_shared.ledger.verify import verify as verify

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
