"""What is published of a goal, as JSON, pure: `state.json`, `history.jsonl`, `loops.json`; never read back."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from clew_shared.record import events as ev
from clew_shared.record.fold import EventFold, takes
from clew_shared.record.model import Action, Goal, Subtask
from clew_shared.record.moment import iso
from clew_shared.record.state import State
from clew_shared.snapshots.names import unquoted
from clew_shared.text.words import action_text

OUTPUT_CHARS = 1_000
SHOWN = 1_000  # counted and blocked signatures that are shown, the last ones; as many as the default `max_actions`
LOOPS_KEPT = 1_000  # entries of loops.json, the last ones; all of them are in the ledger
VERSION = 1
RUNNING_CHARS = 60
View = dict[str, object]  # what is shown of something, as JSON; clew reads none of it back
Began = ev.ActionAllowed | ev.ActionBlocked
Ended = ev.ActionFinished | ev.ActionInterrupted
EndedAction = tuple[Action, int]


def state_view(state: State) -> dict[str, Any]:
    """Return the content of `state.json`; of a probe from before the last change nothing is known."""
    return {
        "version": VERSION,
        "goal_id": state.goal_id,
        "goal": goal_view(state.goal),
        **same(state, "current_task_idx", "current_subtask_idx"),
        "loop_counts": dict(list(state.loop_counts.items())[-SHOWN:]),
        "blocked_actions": state.blocked_actions[-SHOWN:],
        "last_probe_state": {n: one.passed for n, one in state.probes.items() if state.holds(one)},
        **same(state, "iteration", "epoch", "restarts", "seq"),
        "attempt": state.attempt.number,
    }


def same(of: object, *names: str) -> View:
    return {name: getattr(of, name) for name in names}


def running_action(state: State, now: float) -> str:
    """Return which action is carried out, as in "the running action #12 (`make`, 40 s so far)"; "" for none."""
    if not state.in_flight:
        return ""
    flight = next(iter(state.in_flight.values()))
    since = datetime.fromisoformat(flight.action.timestamp).timestamp()
    what = action_text(flight.action.name, flight.action.args, RUNNING_CHARS)
    seconds = max(0, int(now - since))
    for_s = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
    more = f" and {len(state.in_flight) - 1} more" if len(state.in_flight) > 1 else ""
    return f"the running action #{flight.seq} (`{what}`, {for_s} so far){more}"


def goal_view(goal: Goal, *, actions: bool = True) -> View:
    both = ("description", "status")
    tasks = [
        {**same(t, *both), "subtasks": [_subtask_view(one, actions) for one in t.subtasks]}
        for t in goal.tasks
    ]
    return {**same(goal, *both), "tasks": tasks}


def _subtask_view(one: Subtask, actions: bool) -> View:
    return {
        **same(one, "description", "status", "attempts", "actions_total"),
        "last_failure": one.last_failure or None,
        "actions": list(map(action_view, one.actions)) if actions else [],
    }


def action_view(action: Action) -> View:
    """Return an action with the fields of history.jsonl except its output."""
    own = same(action, "seq", "timestamp", "name", "args", "result", "duration_s", "changed")
    own |= {"paths": plain_paths(action.paths), "judges": list(action.judges)}
    return own | same(action, "task_idx", "subtask_idx", "epoch", "attempt")


def plain_paths(names: Iterable[str]) -> list[str]:
    """Return quoted names as plain text; what is not UTF-8 is replaced."""
    return [unquoted(name).decode(errors="replace") for name in names]


def history_view(action: Action, output: str | None) -> View:
    return {**action_view(action), "output": (output or "")[:OUTPUT_CHARS]}


def loop_view(event: ev.LoopDetected, task_idx: int, subtask_idx: int) -> View:
    return {
        "timestamp": iso(event.at),
        "kind": event.loop,
        "action_signature": event.signature,
        "attempt_count": event.attempt_count,
        "task_idx": task_idx,
        "subtask_idx": subtask_idx,
        **same(event, "evidence", "escalated_to"),
    }


class HistoryFold(EventFold[EndedAction]):
    """Finds the actions that end, each with the event of its output, those `flying`, and the entries of loops.json."""

    def __init__(self) -> None:
        super().__init__()
        self.flying: dict[int, Action] = {}
        self._at = (0, 0)
        self.loops: list[View] = []

    @takes(ev.SubtaskStarted, ev.TreeEdited)
    def _moved(self, _seq: int, event: ev.SubtaskStarted | ev.TreeEdited) -> None:
        self._at = (event.task_idx, event.subtask_idx)

    @takes(ev.LoopDetected)
    def _looped(self, _seq: int, event: ev.LoopDetected) -> None:
        self.loops.append(loop_view(event, *self._at))
        del self.loops[:-LOOPS_KEPT]

    @takes(ev.ActionAllowed, ev.ActionBlocked)
    def _judged(self, seq: int, event: Began) -> EndedAction | None:
        if isinstance(event, ev.ActionBlocked) and not event.done:
            return ev.action_of(event, seq, self._at, "blocked"), seq
        self.flying[seq] = ev.action_of(event, seq, self._at)
        return None

    @takes(ev.ActionFinished, ev.ActionInterrupted)
    def _ended(self, seq: int, event: Ended) -> EndedAction | None:
        if (action := self.flying.pop(event.of, None)) is None:
            return None
        event.end(action)
        return action, seq
