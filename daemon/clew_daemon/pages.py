"""A goal's record read from its end: its last actions and loops, in a time that the record's length does not change.

For people and reports; what a page needs from before it (where an action began, in which subtask) is looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.store import OF_HISTORY, end_of, output_text
from clew_shared import events as ev
from clew_shared.ledger import SEQ_MAX
from clew_shared.publish import HistoryFold, history_view, loop_view

if TYPE_CHECKING:
    from clew_daemon.store import Readable
    from clew_shared.model import Action

Page = tuple[list[dict[str, Any]], bool]


def actions(
    ledger: Readable,
    goal: str,
    limit: int | None,
    before: int | None = None,
    *,
    outputs: bool = True,
) -> Page:
    """Give a goal's last lines of history.jsonl, oldest first, and whether there are earlier ones; `limit` None: all.

    `before` is the number of an action: what ended before it did. Without `outputs` those are left empty.
    """
    most = SEQ_MAX - 1 if limit is None else limit
    until = SEQ_MAX if before is None else _end(ledger, goal, before)
    count = most + 1
    while True:
        ends = ledger.ends(goal, until, count)
        found = _ended(ledger, goal, ends[-1], until) if ends else []
        if len(found) > most or len(ends) < count:
            break
        count += most + 1 - len(found)  # a refusal of what was done already has two such events
    lines = [
        history_view(action, output_text(ledger, of) if outputs else "")
        for action, of in found[-most:]
    ]
    return lines, len(found) > most


def _ended(ledger: Readable, goal: str, first: int, until: int) -> list[tuple[Action, int]]:
    """Give the actions whose end is on record from `first` on, and before `until`."""
    fold, found = HistoryFold(_place(ledger, goal, first)), []
    for row in ledger.read(goal, first - 1):
        if row.seq >= until:
            break
        if row.kind not in OF_HISTORY:
            continue
        event = ev.decode(row.body)
        if isinstance(event, ev.ActionFinished | ev.ActionInterrupted) and event.of < first:
            began = event_at(ledger, goal, event.of)
            if began is not None:
                fold.begun(event.of, began, _place(ledger, goal, event.of))
        if ended := fold.take(row.seq, event):
            found.append(ended)
    return found


def action(ledger: Readable, goal: str, seq: int) -> dict[str, Any] | None:
    """Give one action by its number, as in history.jsonl; None where it is not found, or not ended."""
    end = _end(ledger, goal, seq)
    ended = [one for one in _ended(ledger, goal, end, end + 1) if one[0].seq == seq]
    return history_view(ended[0][0], output_text(ledger, ended[0][1])) if ended else None


def _end(ledger: Readable, goal: str, action: int) -> int:
    """Give the number of the event that an action ended with; its own where that is all, or is not found."""
    row = end_of(ledger, goal, action)
    return row.seq if row else action


def loops(ledger: Readable, goal: str | None, limit: int | None, before: int | None = None) -> Page:
    """Give the last loops, of one goal or of all, oldest first, and whether there are earlier ones."""
    most = SEQ_MAX - 1 if limit is None else limit
    rows = ledger.loops(goal, before or SEQ_MAX, most + 1)
    found = []
    for seq, of in reversed(rows[:most]):
        event = event_at(ledger, of, seq)
        if isinstance(event, ev.LoopDetected):
            view = loop_view(event, *_place(ledger, of, seq))
            found.append({"goal": of, "seq": seq, **view})
    return found, len(rows) > most


def event_at(ledger: Readable, goal: str, seq: int) -> ev.Event | None:
    """Give the event of that number, None where it is not this goal's."""
    row = next(iter(ledger.read(goal, seq - 1, 1)), None)
    return ev.decode(row.body) if row is not None and row.seq == seq else None


def _place(ledger: Readable, goal: str, seq: int) -> tuple[int, int]:
    """Give the task and the subtask that were the current ones before an event."""
    found = ledger.place(goal, seq)
    event = event_at(ledger, goal, found) if found else None
    if isinstance(event, ev.SubtaskStarted | ev.TreeEdited):
        return event.task_idx, event.subtask_idx
    return 0, 0
