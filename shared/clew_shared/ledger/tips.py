"""The end of each goal's chain, and the rows that continue it.

It numbers and links events; it writes nothing, and knows no thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_shared.ledger import schema
from clew_shared.ledger.chain import digest_of, genesis, link

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from clew_shared.ledger.records import NewEvent


class Tips:
    """The last seq of the ledger, and the last n and hash of each goal."""

    def __init__(self, con: apsw.Connection) -> None:
        self.seq = 0
        self._tips: dict[str, tuple[int, bytes]] = {}
        for goal, seq, n, tip in con.execute(schema.TIPS):
            self._tips[goal] = (n, tip)  # a head stands after what was purged
            self.seq = max(self.seq, seq)

    def rows_of(self, entries: Sequence[NewEvent]) -> list[tuple[Any, ...]]:
        """Chain the entries; the tips move only when all of them could be."""
        rows: list[tuple[Any, ...]] = []
        tips: dict[str, tuple[int, bytes]] = {}
        seq = self.seq
        for entry in entries:
            goal, kind, body, output = entry.goal, entry.kind, entry.body, entry.output
            n, prev = tips.get(goal) or self._tips.get(goal) or (0, genesis(goal))
            seq, n, digest = seq + 1, n + 1, digest_of(output)
            tip = link(prev, seq, n, goal, kind, body, digest)
            rows.append((seq, goal, n, kind, body, digest, tip, output))
            tips[goal] = (n, tip)
        self.seq = seq
        self._tips.update(tips)
        return rows
