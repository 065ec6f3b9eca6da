"""What people are told of a loop: what the agent was told or refused, the steps before it, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from clew_daemon.record import pages
from clew_daemon.record.store import Readable, end_of, load_state
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.scope import Finding
from clew_shared.text.words import action_text

_FACTS = {"intervention", "again", "debt", "since_gain", "last_gain", "steps", "stays"}
_ENDS = frozenset({"attempt_ended", "subtask_failed", "escalated"})


def findings(
    ledger: Readable, goal: str | None, limit: int | None, before: int | None = None
) -> tuple[list[dict[str, Any]], bool]:
    """Return the last loops as `pages.loops` does, with the fields of `intervened` and what came of it."""
    found, more = pages.loops(ledger, goal, limit, before)
    known = cache(lambda of: {one.seq: one for one in load_state(ledger, of).loops.findings})
    return [{**one, **_told(ledger, one, known(one["goal"]))} for one in found], more


def _told(ledger: Readable, entry: dict[str, Any], known: dict[int, Finding]) -> dict[str, object]:
    """Return what a loop means: null is what the agent was not told, or what an older version did not record."""
    loop = pages.event_at(ledger, entry["goal"], entry["seq"])
    of = getattr(loop, "of", 0) or entry["seq"] - 1
    said = pages.event_at(ledger, entry["goal"], of)
    facts = said.model_dump(include=_FACTS) if isinstance(said, ev.Intervened) else {}
    steps = facts.pop("steps", None)
    finding = known.get(of)
    ended = entry["escalated_to"] is not None  # the subtask was given up
    came = finding.came if finding else "attempt_ended" if ended else None
    return {
        **dict.fromkeys(_FACTS),
        "again": False,
        **facts,
        "message": said.message if isinstance(said, ev.Intervened | ev.ActionBlocked) else None,
        "action": action_text(said.tool, said.args) if isinstance(said, ev.ActionBlocked) else None,
        "steps": list(getattr(loop, "steps", ()) if steps is None else steps),
        "came_of_it": came,
        "came_after": finding.after if finding and finding.came != "open" else None,
        "ended": _end(ledger, entry["goal"], of) if came == "attempt_ended" else None,
    }


def _end(ledger: Readable, goal: str, seq: int) -> dict[str, object] | None:
    """Return the number of the attempt that ended after event `seq`, null for the last one, and why it ended."""
    for row in ledger.read(goal, seq):
        match decode(row.body) if row.kind in _ENDS else None:
            case ev.AttemptEnded() as end:
                return {"attempt": end.attempt, "reason": end.reason}
            case ev.SubtaskFailed() as end:
                return {"attempt": None, "reason": end.failure}
            case ev.Escalated() as end:
                return {"attempt": None, "reason": end.reason}
            case _:
                continue
    return None


@dataclass(frozen=True, slots=True)
class Step:
    """What the agent did, and what came of it: a result, "" for a thought, and the head of the answer."""

    seq: int
    text: str
    result: str = ""
    answer: str = ""


def step(ledger: Readable, goal: str, seq: int) -> Step | None:
    """Return what a goal's agent did as event `seq`; None where that was no action and no thought."""
    event = pages.event_at(ledger, goal, seq)
    match event:
        case ev.Thought():
            return Step(seq, event.text)
        case ev.ActionBlocked(done=False):
            return Step(seq, action_text(event.tool, event.args), "blocked")
        case ev.ActionAllowed() | ev.ActionBlocked():
            row = end_of(ledger, goal, seq)
            end = decode(row.body) if row else None
            answer = end.head if isinstance(end, ev.ActionFinished) else ""
            result = end.result if isinstance(end, ev.ActionFinished) else "interrupted"
            return Step(seq, action_text(event.tool, event.args), result, answer)
        case _:
            return None
