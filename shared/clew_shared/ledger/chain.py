"""The hash chain of a goal: each event's hash covers the one before it.

A link is the SHA-256 of: the previous hash (32 bytes); six unsigned big-endian 64-bit numbers (seq, n, and the lengths
of goal, kind, body and output digest); then goal and kind in UTF-8, the body, and the SHA-256 of the output (nothing if
there is no output). All lengths precede what they measure, so no two records have the same encoding. The first link's
previous hash is SHA-256 of "clew:" and the goal.

The chain detects accidents and careless edits. It has no key: who can write the file can also forge a whole chain.
"""

import struct
import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import apsw

from clew_shared.ledger import schema
from clew_shared.ledger.errors import NewEvent

_SEALED = b"\x01"
_NUMBERS = struct.Struct(">6Q")
WHOLE_BYTES_MAX = 64 << 20  # no output is larger: a stored one that claims to be is damaged


def genesis(goal: str) -> bytes:
    """Return the hash that stands before a goal's first event (32 bytes)."""
    return sha256(b"clew:" + goal.encode()).digest()


def digest_of(output: bytes | None) -> bytes:
    """Return the output's SHA-256, or b"" if there is none."""
    return b"" if output is None else sha256(output).digest()


def sealed(goal: str, seq: int, version: int, state: bytes) -> bytes:
    """Return a snapshot as it is stored: a marker byte, its SHA-256, the state."""
    return _SEALED + _seal(goal, seq, version, state) + state


def unsealed(goal: str, seq: int, version: int, blob: bytes) -> bytes | None:
    """Return the state of a snapshot, None if it was changed; the oldest have no seal."""
    if blob.startswith(b"{"):
        return blob
    state = blob[1 + 32 :]
    fits = blob.startswith(_SEALED + _seal(goal, seq, version, state))
    return state if fits else None


def _seal(goal: str, seq: int, version: int, state: bytes) -> bytes:
    return sha256(f"clew:{seq}:{version}:{goal}:".encode() + state).digest()


def link(prev: bytes, seq: int, n: int, goal: str, kind: str, body: bytes, digest: bytes) -> bytes:
    """Return the hash (32 bytes) of one event that follows `prev`."""
    name, sort = goal.encode(), kind.encode()
    numbers = _NUMBERS.pack(seq, n, len(name), len(sort), len(body), len(digest))
    return sha256(b"".join((prev, numbers, name, sort, body, digest))).digest()


def whole(data: bytes, digest: bytes) -> bytes | None:
    """Return the output that has the digest from its stored bytes, which may be compressed; None if damaged."""
    if digest_of(data) == digest:
        return bytes(data)
    try:
        output = zlib.decompressobj().decompress(data, WHOLE_BYTES_MAX)
    except zlib.error:
        return None
    return output if digest_of(output) == digest else None


class Tips:
    """The last seq of the ledger, and the last n and hash of each goal."""

    def __init__(self, con: apsw.Connection) -> None:
        self.seq = 0
        self._tips: dict[str, tuple[int, bytes]] = {}
        for goal, seq, n, tip in con.execute(schema.TIPS):
            self._tips[goal] = (n, tip)  # a head stands after what was purged
            self.seq = max(self.seq, seq)

    def rows_of(self, entries: Sequence[NewEvent]) -> list[tuple[Any, ...]]:
        """Assign numbers and hashes to the entries; the tips move only when all of them could be."""
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
