"""An event of a goal in words: the one table that every view shows. Pure.

A new event needs a log line in `record.eventlog`, which gives it its name, and its text here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from clew_daemon.publish.standing import MARKS, ground_facts, standing
from clew_daemon.reading.goal_list import GoalView, stands_for
from clew_daemon.reading.output import RESULT_STYLE, STATUS_STYLE
from clew_daemon.reading.sanitize import clean, counted, duration, short
from clew_daemon.record import eventlog
from clew_shared.core.questions import last_said
from clew_shared.proof.label import ENDS, words
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold import apply
from clew_shared.record.moment import local
from clew_shared.record.state import State
from clew_shared.text.plain import percent
from clew_shared.text.words import (
    action_text,
    ending,
    key_line,
    loop,
    passed_before,
    warned,
    why_refused,
)
from clew_shared.views.publish import status_view

TEXT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened: `kind` is its name in the log, `title` a line on it, `level` the style of that line.

    `detail` is the head of an output, a question, or why an action was refused. `action` is the command that it is
    about, and `of` the number of that; `begins` says that it has only started. `seq` is 0 for what is not on record.
    """

    at: float
    goal: str
    kind: str
    title: str
    level: str = ""
    detail: str = ""
    action: str = ""
    of: int = 0
    begins: bool = False
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Before:
    """What the state before an event has and the one after it may not have: the action that it ends, and its place."""

    action: str = ""
    place: str = ""
    subtask: str = ""
    epoch: int = 0


def advance(state: State, event: ev.Event, seq: int) -> Entry | None:
    """Fold the next event into its goal's state, and return its entry, None if people need none."""
    flight, subtask = state.in_flight.get(getattr(event, "of", 0)), state.subtask
    action = clean(action_text(flight.action.name, flight.action.args)) if flight else ""
    named = short(subtask.description) if subtask else ""
    before = Before(action, _place(state), named, state.epoch)
    apply(state, event, seq)
    return describe(event, state, before)


def describe(event: ev.Event, state: State, before: Before) -> Entry | None:
    """Return the entry of an event, given the state after it; None if people need none."""
    words = _WORDS.get(type(event))
    found = words(event, state, before) if words else None
    if found is None:
        return None
    name = eventlog.line(event)
    kind = name[0] if name else "agent.thought"
    return replace(found, at=event.at, goal=state.goal_id, kind=kind, seq=state.seq)


def stands(view: GoalView, at: float) -> Entry:
    """Return an entry on where a goal stands, from its view."""
    status, reason = str(view["status"]), stands_for(view)
    text = f"{standing(view)} {percent(view['progress'])}"
    text += f": {short(reason, 2 * TEXT_CHARS)}" if reason else ""
    asks = (view.get("question") or "") if status == "blocked" else ""
    return Entry(at, view["id"], f"goal.{status}", text, STATUS_STYLE.get(status, ""), asks)


_say = partial(Entry, 0.0, "", "")
"""An entry with all but its place."""


def _cut(text: str) -> str:
    return short(text, TEXT_CHARS)


def _place(state: State) -> str:
    return f"{state.current_task_idx + 1}.{state.current_subtask_idx + 1}"


def _started(_: ev.GoalStarted, s: State, _b: Before) -> Entry:
    done = s.goal.progress()
    return _say(f"started again, {percent(done)}" if done else "started", "bold cyan")


def _waiting(e: ev.GoalWaiting, _s: State, _: Before) -> Entry:
    until = f", until {local(e.until)}" if e.until else ""
    return _say("paused" if e.paused else f"waiting: {_cut(e.reason)}{until}", "yellow")


def _ended(e: ev.GoalEnded, s: State, _: Before) -> Entry:
    why = f": {_cut(e.reason)}" if e.reason else ""
    but = f"; but {passed_before(e.passed_before)}" if e.passed_before else ""
    text = f"{standing(status_view(s))} {percent(s.goal.progress())}{why}{but}"
    return _say(text, STATUS_STYLE.get(e.status, ""))


def _worker_started(e: ev.WorkerStarted, s: State, before: Before) -> Entry:
    if not before.epoch:
        return _say("worker started", "dim")
    if s.attempts.fresh_starts and s.attempts.fresh_starts[-1].epoch == e.epoch:
        return _say(f"worker started for attempt {s.attempt.number}, epoch {e.epoch}", "dim")
    return _say(f"worker restarted, epoch {e.epoch}", "yellow")


def _worker_exited(e: ev.WorkerExited, _s: State, _: Before) -> Entry | None:
    text = f"worker died, epoch {e.epoch}: {short(ending(e.reason))}"
    return _say(text, "bold red") if e.crash else None


def _planned(e: ev.Planned, _s: State, _: Before) -> Entry:
    subtasks = counted(sum(len(task.subtasks) for task in e.tasks), "subtask")
    again = "replanned" if e.replan else "planned"
    return _say(f"{again}: {counted(len(e.tasks), 'task')}, {subtasks}")


def _subtask_started(_: ev.SubtaskStarted, s: State, _b: Before) -> Entry:
    described = short(s.subtask.description) if s.subtask else ""
    return _say(f"[{MARKS['in_progress']}] {_place(s)} {described}", "bold")


def _subtask_ended(e: ev.SubtaskEnded, s: State, before: Before) -> Entry:
    done = percent(s.goal.progress())
    text = f"[{MARKS.get(e.status, '?')}] {before.place} {before.subtask} ({done})"
    return _say(text, STATUS_STYLE.get(e.status, ""))


def _attempt_started(e: ev.AttemptStarted, _s: State, before: Before) -> Entry:
    facts = "; ".join(_cut(f) for f in (e.rung, *ground_facts(e.restored, e.kept, e.left)) if f)
    text = f"{before.place} attempt {e.attempt} begins{f': {facts}' if facts else ''}"
    return _say(text, "bold")


_NEXT = {
    "task": "another plan is needed for its task",
    "goal": "another plan is needed for the goal",
    "person": "it is blocked",
}


def _action_finished(e: ev.ActionFinished, _s: State, before: Before) -> Entry:
    text, style = f"#{e.of} {e.result}, {duration(e.duration_s)}", RESULT_STYLE.get(e.result, "")
    return _say(text, style, action=before.action, detail=e.head, of=e.of)


def _action_blocked(e: ev.ActionBlocked, s: State, _: Before) -> Entry:
    count = s.loops.scope.loop_counts.get(e.signature, 0)
    why = why_refused(e.reason, count, last_said(s, e.signature))
    action = clean(action_text(e.tool, e.args))
    return _say(f"#{s.seq} refused", "magenta", action=action, detail=why, of=s.seq)


def _loop(e: ev.LoopDetected, _s: State, _: Before) -> Entry:
    times = f" ({counted(e.attempt_count, 'time')})" if e.attempt_count else ""
    return _say(f"loop: {loop(e.loop)}{times}", "magenta")


def _finish_refused(e: ev.FinishRefused, _s: State, _: Before) -> Entry:
    fails = f"{short(', '.join(e.failing))} {'fails' if len(e.failing) == 1 else 'fail'}"
    why = fails if e.failing else "there are steps left"
    return _say(f"says it is done: refused, {why}", "magenta")


def _check(e: ev.CheckFinished, _s: State, _: Before) -> Entry:
    text = f"{'suggested check' if e.suggested else 'check'} {short(e.name)}: "
    if e.passed:
        return _say(f"{text}passed", "green")
    return _say(f"{text}failed", "red", detail=e.output)


def _checked_before(e: ev.CheckedBefore, _s: State, _: Before) -> Entry:
    if not e.passed:
        return _say(f"check {short(e.name)}: fails before any work", "dim")
    return _say(passed_before([short(e.name)]), "yellow")


def _snapshots_missing(e: snap.SnapshotsMissing, _s: State, _: Before) -> Entry:
    gone = "its snapshots are gone" if e.removed else "no snapshots: clew undo has nothing to go by"
    return _say(f"{gone}: {_cut(e.reason)}", "yellow")


def _undo_started(e: snap.UndoStarted, _s: State, _: Before) -> Entry:
    files = counted(e.entries, "file")
    for_next = e.scope == "attempt"
    text = f"restoring {files} for the next attempt" if for_next else f"undo: {files} to restore"
    return _say(text, "cyan")


def _undo_finished(e: snap.UndoFinished, s: State, _: Before) -> Entry:
    what = "undo" if s.snapshots.counts else "next attempt"
    left = f", {e.left_total} left: changed meanwhile" if e.left_total else ""
    return _say(f"{what}: {counted(e.restored, 'file')} restored{left}", "cyan")


_WORDS: dict[type[ev.Event], Callable[[Any, State, Before], Entry | None]] = {
    ev.GoalAccepted: lambda _e, s, _b: _say(f"accepted: {short(s.goal.description)}", "bold"),
    ev.GoalStarted: _started,
    ev.GoalWaiting: _waiting,
    ev.GoalBlocked: lambda e, s, _b: _say(
        f"blocked {percent(s.goal.progress())}: {_cut(e.reason)}",
        STATUS_STYLE["blocked"],
        detail=e.question,
    ),
    ev.GoalRequeued: lambda _e, _s, _b: _say("queued again", "cyan"),
    ev.GoalEnded: _ended,
    ev.GoalEdited: lambda e, _s, _b: _say(f"edited: {', '.join(e.changed)}", "cyan"),
    ev.WorkerStarted: _worker_started,
    ev.WorkerExited: _worker_exited,
    ev.Planned: _planned,
    ev.SubtaskStarted: _subtask_started,
    ev.SubtaskEnded: _subtask_ended,
    ev.SubtaskFailed: lambda e, _s, b: _say(f"{b.place} failed: {_cut(e.failure)}", "red"),
    ev.AttemptEnded: lambda e, _s, b: _say(
        f"{b.place} attempt {e.attempt} ended: {_cut(ending(e.reason))}", "yellow"
    ),
    ev.AttemptStarted: _attempt_started,
    ev.Escalated: lambda e, _s, b: _say(f"{b.place} {_cut(e.reason)}; {_NEXT[e.to]}", "magenta"),
    ev.ActionAllowed: lambda e, s, _b: _say(
        f"#{s.seq}", action=clean(action_text(e.tool, e.args)), of=s.seq, begins=True
    ),
    ev.ActionFinished: _action_finished,
    ev.ActionBlocked: _action_blocked,
    ev.ActionInterrupted: lambda e, _s, b: _say(
        f"#{e.of} interrupted: {short(ending(e.reason))}", "yellow", action=b.action, of=e.of
    ),
    ev.LoopDetected: _loop,
    ev.Intervened: lambda e, _s, _b: _say(
        f"warned{' again' if e.again else ''}: {warned(e.intervention)}", "magenta"
    ),
    ev.Thought: lambda e, _s, _b: _say(f"thinks: {_cut(e.text)}", "dim") if e.text else None,
    ev.CheckProposed: lambda e, _s, _b: _say(
        f"check suggested by the agent: {short(e.name)}: {_cut(e.cmd)}", "dim"
    ),
    ev.CheckFinished: _check,
    ev.CheckedBefore: _checked_before,
    ev.FinishRefused: _finish_refused,
    snap.ProofMade: lambda e, _s, _b: _say(
        f"proof: {_cut(words(e.label, e.why, e.accepted))}",
        "green" if e.label == "proven" else "yellow",
        detail=key_line(e.output) if e.label not in ENDS else "",
    ),
    snap.ProofRefused: lambda e, _s, _b: _say(
        f"says it is done: refused, {_cut(words(e.label, e.why))}", "magenta"
    ),
    snap.ProofAccepted: lambda e, _s, _b: _say(
        f"accepted by a person{f': {_cut(e.why)}' if e.why else ''}", "cyan"
    ),
    ev.FinishQuestioned: lambda e, _s, _b: _say(
        f"says it is done: asked back, since #{e.of} has failed", "magenta"
    ),
    ev.FeedbackGiven: lambda e, _s, _b: _say(f"feedback: {_cut(e.text)}", "cyan"),
    ev.Unblocked: lambda e, _s, _b: _say(
        f"unblocked: {short(e.signature.replace('::', ' ', 1))}", "cyan"
    ),
    snap.SnapshotsMissing: _snapshots_missing,
    snap.UndoStarted: _undo_started,
    snap.UndoFinished: _undo_finished,
}
