"""The ids of a goal's trace, which `clew herald` gives to its spans.

They are derived from what is on record: a span that is sent twice is the same span, and a restored ledger, which gives
an old number to another event, gives that event another id.
"""

from __future__ import annotations

import hashlib


def trace_id(goal: str) -> str:
    """Return the id of a goal's trace, 32 hex digits."""
    return _digest(goal, 16)


def span_id(goal: str, began: int | str, at: float) -> str:
    """Return the id of a goal's span, 16 hex digits: what began it (an event's number, or a name), and when."""
    return _digest(f"{goal}\0{began}\0{at!r}", 8)


def _digest(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).digest()[:size].hex()
