"""The ids of a goal's trace: `clew herald` gives them to its spans, and the daemon to programs that add their own.

They are derived from what is on record: a span that is sent twice is the same span, and a restored ledger, which gives
an old number to another event, gives that event another id. Source: W3C Trace Context, `traceparent`.
"""

from __future__ import annotations

import hashlib

TRACEPARENT = "TRACEPARENT"
"""The variable of a program that continues a trace."""

_VERSION, _SAMPLED = "00", "01"


def trace_id(goal: str) -> str:
    """Return the id of a goal's trace, 32 hex digits."""
    return _digest(goal, 16)


def span_id(goal: str, began: int | str, at: float) -> str:
    """Return the id of a goal's span, 16 hex digits: what began it (an event's number, or a name), and when."""
    return _digest(f"{goal}\0{began}\0{at!r}", 8)


def worker_span_id(goal: str, epoch: int, at: float) -> str:
    """Return the id of a worker's span; `at` is before its start, since its environment has the id."""
    return span_id(goal, f"epoch {epoch}", at)


def traceparent(goal: str, span: str) -> str:
    """Return the value of TRACEPARENT for what happens within a span."""
    return f"{_VERSION}-{trace_id(goal)}-{span}-{_SAMPLED}"


def _digest(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).digest()[:size].hex()
