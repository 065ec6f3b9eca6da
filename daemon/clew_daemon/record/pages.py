"""What people are shown of a goal's record: its last actions, one in full, and its loops."""

from collections import deque
from typing import Any, NamedTuple

from clew_daemon.record.store import ReadableEvents, catch_up, end_of, output_text
from clew_shared.ledger.errors import SEQ_MAX
from clew_shared.ledger.reader import ReadSide
from clew_shared.record import events as ev
from clew_shared.record.action_events import DAEMON_DIED
from clew_shared.record.codec import decode
from clew_shared.record.fold import EventFold, takes
from clew_shared.record.model import Action
from clew_shared.record.moment import iso
from clew_shared.text.words import action_text
from clew_shared.views import publish as views

Json = dict[str, Any]
_FACTS = {"intervention", "again", "debt", "since_gain", "last_gain", "steps", "stays"}


def actions(
    ledger: ReadableEvents,
    goal: str,
    limit: int | None,
    before: int | None = None,
    *,
    outputs: bool = True,
) -> tuple[list[views.View], bool]:
    """Return a goal's last lines of history.jsonl, oldest first, and whether there are earlier ones.

    One that was not the first run of the same step has its `run`, too. `limit` None means all. With `before`, the
    number of an action, only actions that ended before it did. Without `outputs` those are empty.
    """
    end = None if before is None else end_of(ledger, goal, before)
    until = end.seq if end else before or SEQ_MAX
    last: deque[tuple[Action, int]] = deque(maxlen=limit)
    count = 0
    for action, of in catch_up(views.HistoryFold(), ledger, goal):
        if of >= until:
            break
        last.append((action, of))
        count += 1
    lines = []
    for action, of in last:
        lines.append(views.history_view(action, output_text(ledger, of) if outputs else ""))
        if action.run > 1:
            lines[-1]["run"] = action.run
    return lines, count > len(lines)


def whole_action(ledger: ReadableEvents, goal: str, seq: int) -> dict[str, object] | None:
    """Return all that is recorded of one action; None where no action of the goal has that number.

    `seq` is the action's number or that of the event that it ended with. The fields are those of `history.jsonl` but
    with the whole output as recorded, and `signature`, `rationale`, `verdict` (`allowed` or `blocked`), `reason`,
    `message`, `exit_code`, `ended_at`. Of an action that still runs, `result`, `ended_at` and `output` are null.
    """
    fold = views.HistoryFold()
    ended = ((a, of) for a, of in catch_up(fold, ledger, goal) if seq in (a.seq, of))
    action, of = next(ended, (None, 0))
    action = action or fold.flying.get(seq)
    began = event_at(ledger, goal, action.seq) if action else None
    if action is None or not isinstance(began, ev.ActionAllowed | ev.ActionBlocked):
        return None
    end = event_at(ledger, goal, of) if of else None
    refused = began if isinstance(began, ev.ActionBlocked) else None
    cut_off = end if isinstance(end, ev.ActionInterrupted) else None
    unknown = not end or (cut_off and cut_off.reason == DAEMON_DIED)
    return views.action_view(action) | {
        "signature": began.signature,
        "rationale": getattr(began, "rationale", ""),
        "run": action.run,
        "verdict": "blocked" if refused else "allowed",
        "reason": cut_off.reason if cut_off else refused.reason if refused else "",
        "message": refused.message if refused else "",
        "result": action.result or None,
        "exit_code": getattr(end, "exit_code", None),
        "duration_s": None if unknown or of == action.seq else action.duration_s,
        "ended_at": iso(end.at) if end else None,
        "output": output_text(ledger, of) if end else None,
    }


class _LoopFold(EventFold[tuple[int, views.View]]):
    """Finds the loops of a goal, each with the number of its event."""

    def __init__(self) -> None:
        super().__init__()
        self._at = (0, 0)

    @takes(ev.SubtaskStarted, ev.TreeEdited)
    def _moved(self, _seq: int, event: ev.SubtaskStarted | ev.TreeEdited) -> None:
        self._at = (event.task_idx, event.subtask_idx)

    @takes(ev.LoopDetected)
    def _looped(self, seq: int, event: ev.LoopDetected) -> tuple[int, views.View]:
        return seq, views.loop_view(event, *self._at)


def loops(ledger: ReadSide, goal: str | None, limit: int | None) -> tuple[list[Json], bool]:
    """Return the last loops, of one goal or of all, oldest first, and whether there are earlier ones."""
    goals = ledger.goals_with_loops() if goal is None else [goal]
    every: list[Json] = [
        {"goal": of, "seq": seq, **one}
        for of in goals
        for seq, one in catch_up(_LoopFold(), ledger, of)
    ]
    every.sort(key=lambda one: int(one["seq"]))
    found = every if limit is None else every[max(0, len(every) - limit) :]
    return found, len(found) < len(every)


def event_at(ledger: ReadableEvents, goal: str, seq: int) -> ev.Event | None:
    """Return the event of that number, None if it is not this goal's."""
    row = next(iter(ledger.read(goal, seq - 1, 1)), None)
    return decode(row.body) if row is not None and row.seq == seq else None


def findings(ledger: ReadSide, goal: str | None, limit: int | None) -> tuple[list[Json], bool]:
    """Return the last loops as `loops` does, with the fields of `intervened`."""
    found, more = loops(ledger, goal, limit)
    return [{**one, **_told(ledger, one)} for one in found], more


def _told(ledger: ReadSide, entry: Json) -> dict[str, object]:
    """Return what a loop means: null is what the agent was not told, or what an older version did not record."""
    loop = event_at(ledger, entry["goal"], entry["seq"])
    of = getattr(loop, "of", 0) or entry["seq"] - 1
    said = event_at(ledger, entry["goal"], of)
    facts = said.model_dump(include=_FACTS) if isinstance(said, ev.Intervened) else {}
    steps = facts.pop("steps", None)
    return {
        **dict.fromkeys(_FACTS),
        "again": False,
        **facts,
        "message": said.message if isinstance(said, ev.Intervened | ev.ActionBlocked) else None,
        "action": action_text(said.tool, said.args) if isinstance(said, ev.ActionBlocked) else None,
        "steps": list(getattr(loop, "steps", ()) if steps is None else steps),
    }


class Step(NamedTuple):
    """What the agent did, and what came of it: a result, "" for a thought, and the head of the answer."""

    seq: int
    text: str
    result: str = ""
    answer: str = ""


def step(ledger: ReadSide, goal: str, seq: int) -> Step | None:
    """Return what a goal's agent did as event `seq`; None where that was no action and no thought."""
    event = event_at(ledger, goal, seq)
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
