"""What goes into the ledger and what comes out of it: bytes, whose meaning is not known here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SEQ_MAX = 2**63 - 1


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
