"""Reading a ledger, from any thread, with or without a writer at work.

Its layers, each in a file of its own and each using those below it:

    ReadSide    snapshots and outlines, which are stored beside the events
    Lookups     goals, and places in their records
    EventReads  events and outputs, checked against the chain
    ReadPool    the connections
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from clew_shared.ledger import schema
from clew_shared.ledger.chain import unsealed
from clew_shared.ledger.errors import LedgerEmpty, corrupt
from clew_shared.ledger.lookups import Lookups
from clew_shared.ledger.opening import check_kind, explained, needs_immutable, refuse_remains
from clew_shared.ledger.records import SEQ_MAX

if TYPE_CHECKING:
    from pathlib import Path


class ReadSide(Lookups):
    """The read side of a ledger; a stored state is sealed, and of one version of the state's form."""

    def snapshots(self, version: int) -> dict[str, int]:
        """Return the goals that have a snapshot of this version, each with the seq of the snapshot."""
        return dict(self._rows(schema.SNAPSHOT_SEQS, version))

    def latest_snapshot(self, goal: str, version: int) -> tuple[int, bytes] | None:
        """Return the seq and the state of the goal's snapshot, if there is one of this version.

        Raises LedgerCorrupt if it was changed.
        """
        rows = self._rows(schema.SNAPSHOT, goal, version)
        if not rows:
            return None
        seq, sealed = rows[0]
        return seq, self._unsealed("snapshot", goal, seq, version, sealed)

    def outlines(
        self, version: int, before: int = SEQ_MAX, limit: int = -1
    ) -> list[tuple[str, bytes]]:
        """Return goal and outline of goals that ended, the last accepted first.

        Raises LedgerCorrupt if one was changed.
        """
        if not self._rows(schema.HAS_OUTLINES):
            return []
        rows = self._rows(schema.OUTLINES, version, before, limit)
        return [
            (goal, self._unsealed("outline", goal, seq, version, blob)) for goal, seq, blob in rows
        ]

    def without_outline(self, version: int) -> list[str]:
        """Return the goals that have no outline as of their last event, sorted."""
        if not self._rows(schema.HAS_OUTLINES):
            return self.goals()
        return [goal for (goal,) in self._rows(schema.WITHOUT_OUTLINE, version)]

    def _unsealed(self, what: str, goal: str, seq: int, version: int, sealed: bytes) -> bytes:
        with self._decoding(f"the {what} of {goal}"):
            state = unsealed(goal, seq, version, sealed)
        if state is None:
            raise corrupt(self.path, f"damaged: the {what} of {goal} (event {seq}) was changed")
        return state


class Reader(ReadSide):
    """A ledger opened for reading only, with or without a daemon that writes it."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing ledger; raises LedgerError, LedgerEmpty, LedgerTooNew or LedgerCorrupt."""
        with explained(path):
            refuse_remains(path)
            reader = cls(path, immutable=needs_immutable(path))
        with reader.connection() as con:
            version = check_kind(con, path)
        if version == 0:
            reader.close()
            raise LedgerEmpty(path, "is still empty", "start the daemon once (`clew run`)")
        return reader

    def close(self) -> None:
        self._close_readers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
