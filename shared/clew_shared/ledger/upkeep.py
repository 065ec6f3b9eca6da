"""What is written to the ledger beside its events: stored states, and what makes its file smaller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clew_shared.ledger import schema
from clew_shared.ledger.chain import digest_of, sealed
from clew_shared.ledger.packing import PACKED_BYTES_MIN, packed
from clew_shared.ledger.place import Place
from clew_shared.ledger.reader import ReadSide
from clew_shared.ledger.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import apsw

    from clew_shared.ledger.records import LedgerState
    from clew_shared.ledger.writer_thread import Statement

PACK_ROWS = 16  # outputs, each of some 64 kB: what is written in one transaction


class Upkeep(ReadSide):
    """The part of the ledger that no event goes through; `files` watches those that it is in."""

    def __init__(
        self,
        path: Path,
        con: apsw.Connection,
        on_state: Callable[[LedgerState], None] | None,
        refuges: Sequence[Path],
    ) -> None:
        super().__init__(path)
        self.files = Place(path)
        self._writer = Writer(path, con, on_state, self.files, refuges)

    async def snapshot(self, goal: str, seq: int, version: int, state: bytes) -> None:
        """Store the goal's folded state as of `seq`, in place of an earlier one."""
        blob = sealed(goal, seq, version, state)
        await self._write([(schema.KEEP_SNAPSHOT, [(goal, seq, version, blob)])], len(blob))

    async def outline(self, goal: str, accepted: int, seq: int, version: int, state: bytes) -> None:
        """Store the outline of a goal that ended, as of `seq`; `accepted` is its place among goals."""
        blob = sealed(goal, seq, version, state)
        row = (goal, accepted, seq, version, blob)
        await self._write([(schema.KEEP_OUTLINE, [row])], len(blob))

    async def purge(self, goal: str) -> None:
        """Remove an ended goal's events, outputs and snapshot; what `verify` needs of them stays."""
        await self._write([(sql, [(goal,)]) for sql in schema.PURGE])

    async def pack(self, goal: str) -> None:
        """Compress the outputs of a goal that ended, some at a time; reading returns the same."""
        seq = 0
        while found := await asyncio.to_thread(self._outputs_to_pack, goal, seq, PACK_ROWS):
            small = await asyncio.to_thread(_packed, found)
            if small:
                await self._write([(schema.PACK, small)])
            seq = found[-1][0]

    async def shrink(self) -> bool:
        """Return some of the space of purged events to the disk; returns whether there is more.

        A ledger that was made before this was possible only reuses its space (`compact` changes that).
        """
        before = self._free_pages()
        if not before:
            return False
        await self._write([(schema.SHRINK, [()])])
        return 0 < self._free_pages() < before

    async def _write(self, statements: Sequence[Statement], size: int = 0) -> None:
        """Wait until statements are durable, in one transaction; `size` is in bytes."""
        self._writer.admit(1, size)
        await self._writer.put(statements, 1, size)

    def _outputs_to_pack(self, goal: str, after: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """Return (seq, data, digest) of a goal's larger outputs whose seq is greater than `after`."""
        return self._rows(schema.LARGE_OUTPUTS, goal, after, PACKED_BYTES_MIN, limit)

    def _free_pages(self) -> int:
        """Return how many pages of the file are free."""
        free: int = self._rows(schema.FREE_PAGES)[0][0]
        return free


def _packed(outputs: list[tuple[int, bytes, bytes]]) -> list[tuple[bytes, int]]:
    """Return (data, seq) of the outputs that become smaller, except those already packed (or damaged)."""
    plain = [(seq, data) for seq, data, digest in outputs if digest_of(data) == digest]
    return [(small, seq) for seq, data in plain if (small := packed(data)) is not None]
