"""What goes into the ledger and what comes out of it: bytes, whose meaning is not known here."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum

SEQ_MAX = 2**63 - 1
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The bounds of the histogram of commits."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """One event to append; `goal` is "" for the daemon's own events.

    `body` is the canonical JSON of the event without its seq; `output` is a big output that belongs to it and is
    stored apart, so that reading events stays cheap.
    """

    goal: str
    kind: str
    body: bytes
    output: bytes | None = None


@dataclass(frozen=True, slots=True)
class EventRow:
    """One recorded event: `seq` counts from 1 over all goals, `n` from 1 within its goal."""

    seq: int
    goal: str
    n: int
    kind: str
    body: bytes
    hash: bytes


class LedgerState(Enum):
    """The state of writing: SLOW and FULL pass by themselves, FAILED is final."""

    OK = "ok"
    SLOW = "slow"
    FULL = "full"
    FAILED = "failed"


class CommitTimes:
    """How long commits took: `counts` up to each of `BOUNDS_S`, and above the last; written by one thread."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one commit."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds
