"""Outputs kept compressed: of goals that are over, without a byte or a promise lost.

An event's digest is that of its output as it came. So it also tells whether what is kept is the output itself or a
compressed form of it, and no mark is needed that could be wrong.
"""

from __future__ import annotations

import zlib

from clew_shared.ledger.chain import digest_of

PACKED_BYTES_MIN = 512
"""Smaller outputs stay as they are: what would be saved is less than a page."""

WHOLE_BYTES_MAX = 64 << 20
"""No output is larger; what claims to be is damaged."""


def packed(output: bytes) -> bytes | None:
    """Compress an output; None if that does not make it smaller."""
    small = zlib.compress(output)
    return small if len(small) < len(output) else None


def whole(data: bytes, digest: bytes) -> bytes | None:
    """Return the output that has the digest, from what is kept of it; None if it is damaged."""
    if digest_of(data) == digest:
        return bytes(data)
    try:
        output = zlib.decompressobj().decompress(data, WHOLE_BYTES_MAX)
    except zlib.error:
        return None
    return output if digest_of(output) == digest else None
