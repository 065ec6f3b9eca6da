"""Pages of a goal's record from its end: the last actions and loops, in a time that does not depend on its length.

What a page needs from before it (where an action began, in which subtask) is looked up.
"""

from __future__ import annotations

from typing import Any

from clew_daemon.record.store import Readable, end_of, output_text
from clew_shared.ledger import SEQ_MAX
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.fold.actions import DAEMON_DIED
from clew_shared.record.model import Action
from clew_shared.record.moment import iso
from clew_shared.views.publish import Began, HistoryFold, history_view, loop_view, plain_paths

Page = tuple[list[dict[str, Any]], bool]


def actions(
    ledger: Readable,
    goal: str,
    limit: int | None,
    before: int | None = None,
    *,
    outputs: bool = True,
) -> Page:
    """Return a goal's last lines of history.jsonl, oldest first, and whether there are earlier ones.

    One that was not the first run of the same step has its `run`, too. `limit` None means all. With `before`, the
    number of an action, only actions that ended before it did. Without `outputs` those are empty.
    """
    most = SEQ_MAX - 1 if limit is None else limit
    until = SEQ_MAX if before is None else _end_seq(ledger, goal, before)
    count = most + 1
    while True:
        ends = ledger.ends(goal, until, count)
        found = _ended_actions(ledger, goal, ends[-1], until) if ends else []
        if len(found) > most or len(ends) < count:
            break
        count += most + 1 - len(found)  # a refused action that was already done has two such events
    lines = [
        history_view(action, output_text(ledger, of) if outputs else "")
        | ({"run": action.run} if action.run > 1 else {})
        for action, of in found[-most:]
    ]
    return lines, len(found) > most


def _ended_actions(ledger: Readable, goal: str, first: int, until: int) -> list[tuple[Action, int]]:
    """Return the actions that ended from event `first` on and before event `until`."""
    fold, found = HistoryFold(_place(ledger, goal, first)), []
    for row in ledger.read(goal, first - 1):
        if row.seq >= until:
            break
        if row.kind not in fold.kinds:
            continue
        event = decode(row.body)
        if isinstance(event, ev.ActionFinished | ev.ActionInterrupted) and event.of < first:
            began = event_at(ledger, goal, event.of)
            if isinstance(began, Began):
                fold.begun(event.of, began, _place(ledger, goal, event.of))
        if ended := fold.take(row.seq, event):
            found.append(ended)
    return found


def action(ledger: Readable, goal: str, seq: int) -> dict[str, Any] | None:
    """Return one action by its number, as in history.jsonl; None if it is not found, or has not ended."""
    end = _end_seq(ledger, goal, seq)
    ended = [one for one in _ended_actions(ledger, goal, end, end + 1) if one[0].seq == seq]
    return history_view(ended[0][0], output_text(ledger, ended[0][1])) if ended else None


def whole_action(ledger: Readable, goal: str, seq: int) -> dict[str, Any] | None:
    """Return all that is recorded of one action; None where no action of the goal has that number.

    `seq` is the action's number or that of the event that it ended with. The fields are those of `history.jsonl` but
    with the whole output as recorded, and `signature`, `rationale`, `verdict` (`allowed` or `blocked`), `reason`,
    `message`, `exit_code`, `ended_at`. Of an action that still runs, `result`, `ended_at` and `output` are null.
    """
    event = event_at(ledger, goal, seq)
    if isinstance(event, ev.ActionFinished | ev.ActionInterrupted):
        seq, event = event.of, event_at(ledger, goal, event.of)
    if not isinstance(event, Began):
        return None
    task_idx, subtask_idx = _place(ledger, goal, seq)
    view: dict[str, Any] = {
        "seq": seq,
        "timestamp": iso(event.at),
        "name": event.tool,
        "args": event.args,
        "signature": event.signature,
        "rationale": getattr(event, "rationale", ""),
        "task_idx": task_idx,
        "subtask_idx": subtask_idx,
        "epoch": event.epoch,
        "run": getattr(event, "run", 1),
        "verdict": "allowed",
        "reason": "",
        "message": "",
        "result": None,
        "exit_code": None,
        "duration_s": None,
        "changed": None,
        "paths": [],
        "ended_at": None,
        "output": None,
    }
    if isinstance(event, ev.ActionBlocked):
        view |= {"verdict": "blocked", "reason": event.reason, "message": event.message}
        if not event.done:
            return view | {"result": "blocked", "ended_at": view["timestamp"], "output": ""}
    return view | _outcome(ledger, goal, seq, event.at)


def _outcome(ledger: Readable, goal: str, seq: int, at: float) -> dict[str, Any]:
    """Return the outcome of an action that began at that time; {} where it still runs."""
    row = end_of(ledger, goal, seq)
    end = decode(row.body) if row else None
    if row and isinstance(end, ev.ActionFinished):
        return {
            "result": end.result,
            "exit_code": end.exit_code,
            "duration_s": end.duration_s,
            "changed": end.changed,
            "paths": plain_paths(end.touched.paths),
            "ended_at": iso(end.at),
            "output": output_text(ledger, row.seq),
        }
    if row and isinstance(end, ev.ActionInterrupted):
        return {
            "result": "interrupted",
            "duration_s": None if end.reason == DAEMON_DIED else round(max(0.0, end.at - at), 3),
            "ended_at": iso(end.at),
            "output": output_text(ledger, row.seq),
            "reason": end.reason,
        }
    return {}


def nearest_actions(ledger: Readable, goal: str, seq: int) -> list[int]:
    """Return the numbers of the last action before and the first one after a number, as far as there are any."""
    before, after = 0, 0
    for row in ledger.read(goal):
        if row.kind not in ("action_allowed", "action_blocked"):
            continue
        if row.seq > seq:
            after = row.seq
            break
        before = row.seq
    return [found for found in (before, after) if found]


def _end_seq(ledger: Readable, goal: str, action: int) -> int:
    """Return the number of the event that ended an action; the action's own if there is no other."""
    row = end_of(ledger, goal, action)
    return row.seq if row else action


def loops(ledger: Readable, goal: str | None, limit: int | None, before: int | None = None) -> Page:
    """Return the last loops, of one goal or of all, oldest first, and whether there are earlier ones."""
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
    """Return the event of that number, None if it is not this goal's."""
    row = next(iter(ledger.read(goal, seq - 1, 1)), None)
    return decode(row.body) if row is not None and row.seq == seq else None


def _place(ledger: Readable, goal: str, seq: int) -> tuple[int, int]:
    """Return the indices of the task and the subtask that were current before an event."""
    found = ledger.place(goal, seq)
    event = event_at(ledger, goal, found) if found else None
    if isinstance(event, ev.SubtaskStarted | ev.TreeEdited):
        return event.task_idx, event.subtask_idx
    return 0, 0
