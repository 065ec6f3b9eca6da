"""Compressed outputs, of goals that ended.

An event's digest is that of the original output. So it also decides whether the stored bytes are the output itself or
its compressed form, and no mark is needed that could be wrong.
"""

from __future__ import annotations

import zlib

from clew_shared.ledger.chain import digest_of

PACKED_BYTES_MIN = 512
"""Smaller outputs are not compressed: that would save less than a page."""

WHOLE_BYTES_MAX = 64 << 20
"""No output is larger: a stored one that claims to be is damaged."""


def packed(output: bytes) -> bytes | None:
    """Return an output compressed, None if that is not smaller."""
    small = zlib.compress(output)
    return small if len(small) < len(output) else None


def whole(data: bytes, digest: bytes) -> bytes | None:
    """Return the output that has the digest from its stored bytes, None if they are damaged."""
    if digest_of(data) == digest:
        return bytes(data)
    try:
        output = zlib.decompressobj().decompress(data, WHOLE_BYTES_MAX)
    except zlib.error:
        return None
    return output if digest_of(output) == digest else None
