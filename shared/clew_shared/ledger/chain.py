"""The hash chain of a goal: each event's hash covers the one before it.

A link is the SHA-256 of: the previous hash (32 bytes); six unsigned big-endian 64-bit numbers
(seq, n, and the lengths of goal, kind, body and output digest); then goal and kind in UTF-8, the
body, and the SHA-256 of the output (nothing if there is no output). All lengths precede
what they measure, so no two records have the same encoding. The first link's previous hash is
SHA-256 of "clew:" and the goal.

The chain detects accidents and careless edits. It has no key, so anyone who can write the file can also forge a whole
chain.
"""

from __future__ import annotations

import struct
from hashlib import sha256

_SEALED = b""
_NUMBERS = struct.Struct(">6Q")


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
    """Return the state of a snapshot, None if it was changed; an older one may have no seal."""
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
