"""What a ledger is given and gives, and what can be wrong with one, each with advice for a person."""

from enum import Enum
from pathlib import Path
from typing import NamedTuple

SEQ_MAX = 2**63 - 1
# The bounds of the histogram of commits.
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class NewEvent(NamedTuple):
    """One event to append: its JSON, and a big `output`, stored apart; `goal` is "" for the daemon's own."""

    goal: str
    kind: str
    body: bytes
    output: bytes | None = None


class LedgerState(Enum):
    """The state of writing: SLOW and FULL pass by themselves, FAILED is final."""

    OK = "ok"
    SLOW = "slow"
    FULL = "full"
    FAILED = "failed"


class LedgerError(Exception):
    """The ledger at `path` cannot be used: `what` is wrong, `hint` is what to do."""

    def __init__(self, path: Path, what: str, hint: str) -> None:
        colon = "" if what.startswith(("is ", "has ", "cannot ")) else ":"
        super().__init__(f"ledger {path}{colon} {what}; {hint}")
        self.path, self.what, self.hint = path, what, hint


class LedgerFailed(LedgerError):
    """A write failed in a way that must not be retried, or the ledger is closed."""


class LedgerLostError(LedgerFailed):
    """The ledger's files are no longer those that are open: deleted, moved, replaced or overwritten."""


class LedgerEmpty(LedgerError):
    """Nothing was ever recorded in the file: a first start has made it, and is not ready yet."""


class LedgerUnwell(LedgerError):
    """The disk is full or failing, or another program holds the file: a later start may succeed."""


class LedgerCorrupt(LedgerError):
    """The file is not a ledger, or it is damaged; it is never repaired silently."""


def corrupt(path: Path, what: str) -> LedgerCorrupt:
    """Return the error for a damaged file, with the same advice everywhere."""
    hint = (
        "nothing was changed; `clew verify` says where it is damaged: restore a backup (`clew restore FILE`), or, to "
        f"start with an empty one, move the whole folder {path.parent} away and keep it"
    )
    return LedgerCorrupt(path, what, hint)
