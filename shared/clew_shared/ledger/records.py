"""What goes into the ledger and what comes out; it knows no event, only bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Entry:
    """One event to append; `goal` is "" for the daemon's own events.

    `body` is the canonical JSON of the event without its seq; `output` is a big output that
    belongs to it and is kept apart, so that reading events stays cheap.
    """

    goal: str
    kind: str
    body: bytes
    output: bytes | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded event: `seq` counts from 1 over all goals, `n` from 1 within its goal."""

    seq: int
    goal: str
    n: int
    kind: str
    body: bytes
    hash: bytes


class LedgerState(Enum):
    """How writing goes: SLOW and FULL pass by themselves, FAILED is final."""

    OK = "ok"
    SLOW = "slow"
    FULL = "full"
    FAILED = "failed"
