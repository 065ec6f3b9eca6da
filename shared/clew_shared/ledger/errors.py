"""What can be wrong with a ledger, each with advice for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class LedgerError(Exception):
    """The ledger at `path` cannot be used: `what` is wrong, `hint` is what to do."""

    def __init__(self, path: Path, what: str, hint: str) -> None:
        colon = "" if what.startswith(("is ", "has ", "cannot ")) else ":"
        super().__init__(f"ledger {path}{colon} {what}; {hint}")
        self.path = path
        self.what = what
        self.hint = hint


class LedgerFailed(LedgerError):
    """A write failed in a way that must not be retried, or the ledger is closed."""


class LedgerLostError(LedgerFailed):
    """The ledger's files are no longer those that are open: deleted, moved, replaced or overwritten."""


class LedgerBehindError(LedgerError):
    """The file is sound but incomplete: an older ledger, or one without its log."""


class LedgerEmpty(LedgerError):
    """Nothing was ever recorded in the file: a first start has made it, and is not ready yet."""


class LedgerUnwell(LedgerError):
    """The disk is full or failing, or another program holds the file: a later start may succeed."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a newer clew than this one."""


class LedgerCorrupt(LedgerError):
    """The file is not a ledger, or it is damaged; it is never repaired silently."""


def corrupt(path: Path, what: str) -> LedgerCorrupt:
    """Return the error for a damaged file, with the same advice everywhere."""
    hint = (
        "nothing was changed; `clew verify` says where it is damaged: restore a backup "
        "(`clew restore FILE`), or, to start with an empty one, move the whole folder "
        f"{path.parent} away and keep it"
    )
    return LedgerCorrupt(path, what, hint)
