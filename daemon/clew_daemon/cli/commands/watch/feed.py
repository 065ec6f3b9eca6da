"""The feed of `clew watch`: an entry for each event that matters to people.

Pure: events and states in, texts out. `views` shows the entries.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_daemon.publish.ground import ground_facts
from clew_daemon.publish.standing import MARKS, standing
from clew_daemon.reading.goal_text import its_time, waited_for
from clew_daemon.reading.output import RESULT_STYLE, STATUS_STYLE
from clew_daemon.reading.sanitize import clean, counted, duration, short
from clew_shared.core.questions import last_said
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold import apply
from clew_shared.record.moment import iso, local
from clew_shared.record.state import State
from clew_shared.text.plain import percent
from clew_shared.text.words import action_text, ending, loop, passed_before, warned, why_refused
from clew_shared.views.publish import status_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew_shared.record.model import Action

COMMAND_CHARS = 160
TEXT_CHARS = 300
QUESTION_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """Something that happened: `event` is its name in the log, `at` seconds since 1970, `text` a line on it.

    `action`, `of` and `output` are the command, the number and the head of the output of the action that it is about;
    `begins` says that the action has only started. `seq` is 0 for an entry that is not on record.
    """

    at: float
    goal: str
    event: str
    text: str
    seq: int = 0
    style: str = ""
    action: str = ""
    output: str = ""
    of: int = 0
    begins: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the object that `clew watch --json` prints."""
        found = {"timestamp": iso(self.at), "goal": self.goal or None, "seq": self.seq or None}
        extra = {"of": self.of, "action": self.action, "output": self.output}
        found |= {"event": self.event, "text": self.text}
        return found | {key: value for key, value in extra.items() if value}


def advance(state: State, event: ev.Event, seq: int) -> FeedEntry | None:
    """Fold the next event into its goal's state, and return its entry, None if people need none."""
    before = _Before.of(state, event)
    apply(state, event, seq)
    return _entry(state, event, seq, before)


def _entry(state: State, event: ev.Event, seq: int, before: _Before) -> FeedEntry | None:
    describe = _DESCRIBE.get(type(event))
    found = describe(event, state, before) if describe else None
    return FeedEntry(event.at, state.goal_id, seq=seq, **found) if found else None


@dataclass(frozen=True, slots=True)
class _Before:
    """The facts of the state before an event that are gone after it."""

    action: str
    place: str = ""
    subtask: str = ""
    epoch: int = 0

    @classmethod
    def of(cls, state: State, event: ev.Event) -> _Before:
        flight = state.in_flight.get(getattr(event, "of", 0))
        subtask = state.subtask
        return cls(
            action=shown_action(flight.action) if flight else "",
            place=place(state),
            subtask=short(subtask.description) if subtask else "",
            epoch=state.epoch,
        )


def shown_action(action: Action) -> str:
    """Return an action as people read it, shortened: the command itself, or the tool and what it is about."""
    return clean(action_text(action.name, action.args))


def place(state: State) -> str:
    """Return the number of the current subtask in the tree, as in `1.2`."""
    return f"{state.current_task_idx + 1}.{state.current_subtask_idx + 1}"


Description = dict[str, Any]
"""Arguments of a `FeedEntry`."""


def _describe(event: str, text: str, style: str = "", **more: Any) -> Description:
    return {"event": event, "text": text, "style": style, **more}


def _accepted(_e: ev.GoalAccepted, s: State, _: _Before) -> Description:
    return _describe("goal.accepted", f"accepted: {short(s.goal.description)}", "bold")


def _started(_e: ev.GoalStarted, s: State, _: _Before) -> Description:
    done = s.goal.progress()
    text = f"started again, {percent(done)}" if done else "started"
    return _describe("goal.started", text, STATUS_STYLE["in_progress"])


def _waiting(e: ev.GoalWaiting, _s: State, _: _Before) -> Description:
    if e.paused:
        return _describe("goal.waiting", "paused", "yellow")
    until = f", until {local(e.until)}" if e.until else ""
    return _describe("goal.waiting", f"waiting: {short(e.reason, TEXT_CHARS)}{until}", "yellow")


def _blocked(e: ev.GoalBlocked, s: State, _: _Before) -> Description:
    text = f"blocked {percent(s.goal.progress())}: {short(e.reason, TEXT_CHARS)}"
    return _describe("goal.blocked", text, STATUS_STYLE["blocked"], output=e.question)


def _ended(e: ev.GoalEnded, s: State, _: _Before) -> Description:
    why = f": {short(e.reason, TEXT_CHARS)}" if e.reason else ""
    text = f"{standing(e.status, s.verified)} {percent(s.goal.progress())}{why}"
    if e.passed_before:
        text += f"; but {passed_before(e.passed_before)}"
    return _describe(f"goal.{e.status}", text, STATUS_STYLE.get(e.status, ""))


def _worker_started(e: ev.WorkerStarted, s: State, before: _Before) -> Description:
    if not before.epoch:
        return _describe("worker.started", "worker started", "dim")
    if s.fresh_starts and s.fresh_starts[-1].epoch == e.epoch:
        attempt = f"attempt {s.attempt.number}"
        return _describe("worker.started", f"worker started for {attempt}, epoch {e.epoch}", "dim")
    return _describe("worker.started", f"worker restarted, epoch {e.epoch}", "yellow")


def _worker_exited(e: ev.WorkerExited, _s: State, _: _Before) -> Description | None:
    if not e.crash:
        return None
    text = f"worker died, epoch {e.epoch}: {short(ending(e.reason))}"
    return _describe("worker.exited", text, "bold red")


def _planned(e: ev.Planned, _s: State, _: _Before) -> Description:
    subtasks = sum(len(task.subtasks) for task in e.tasks)
    again = "replanned" if e.replan else "planned"
    return _describe(
        "goal.planned", f"{again}: {counted(len(e.tasks), 'task')}, {counted(subtasks, 'subtask')}"
    )


def _subtask_started(_: ev.SubtaskStarted, s: State, _b: _Before) -> Description:
    described = short(s.subtask.description) if s.subtask else ""
    return _describe("subtask.started", f"[{MARKS['in_progress']}] {place(s)} {described}", "bold")


def _subtask_ended(e: ev.SubtaskEnded, s: State, before: _Before) -> Description:
    mark = MARKS.get(e.status, "?")
    text = f"[{mark}] {before.place} {before.subtask} ({percent(s.goal.progress())})"
    return _describe(f"subtask.{e.status}", text, STATUS_STYLE.get(e.status, ""))


def _subtask_failed(e: ev.SubtaskFailed, _s: State, before: _Before) -> Description:
    text = f"{before.place} failed: {short(e.failure, TEXT_CHARS)}"
    return _describe("subtask.failed", text, "red")


def _attempt_ended(e: ev.AttemptEnded, _s: State, before: _Before) -> Description:
    text = f"{before.place} attempt {e.attempt} ended: {short(ending(e.reason), TEXT_CHARS)}"
    return _describe("attempt.ended", text, "yellow")


def _attempt_started(e: ev.AttemptStarted, _s: State, before: _Before) -> Description:
    ground = (short(fact, TEXT_CHARS) for fact in ground_facts(e.restored, e.kept, e.left))
    facts = "; ".join(filter(None, (short(e.rung), *ground)))
    text = f"{before.place} attempt {e.attempt} begins{f': {facts}' if facts else ''}"
    return _describe("attempt.started", text, "bold")


_NEXT = {
    "task": "another plan is needed for its task",
    "goal": "another plan is needed for the goal",
    "person": "it is blocked",
}


def _escalated(e: ev.Escalated, _s: State, before: _Before) -> Description:
    text = f"{before.place} {short(e.reason, TEXT_CHARS)}; {_NEXT[e.to]}"
    return _describe("subtask.blocked" if e.to == "task" else "task.blocked", text, "magenta")


def _allowed(e: ev.ActionAllowed, s: State, _: _Before) -> Description:
    action = clean(action_text(e.tool, e.args))
    return _describe("action.allowed", f"#{s.seq}", action=action, of=s.seq, begins=True)


def _action_finished(e: ev.ActionFinished, _s: State, before: _Before) -> Description:
    text = f"#{e.of} {e.result}, {duration(e.duration_s)}"
    style = RESULT_STYLE.get(e.result, "")
    return _describe("action.finished", text, style, action=before.action, output=e.head, of=e.of)


def _action_blocked(e: ev.ActionBlocked, s: State, _: _Before) -> Description:
    count = s.scope.loop_counts.get(e.signature, 0)
    why = why_refused(e.reason, count, last_said(s, e.signature))
    action = clean(action_text(e.tool, e.args))
    return _describe(
        "action.blocked", f"#{s.seq} refused", "magenta", action=action, output=why, of=s.seq
    )


def _interrupted(e: ev.ActionInterrupted, _s: State, before: _Before) -> Description:
    text = f"#{e.of} interrupted: {short(ending(e.reason))}"
    return _describe("action.interrupted", text, "yellow", action=before.action, of=e.of)


def _loop(e: ev.LoopDetected, _s: State, _: _Before) -> Description:
    times = f" ({counted(e.attempt_count, 'time')})" if e.attempt_count else ""
    return _describe("loop.detected", f"loop: {loop(e.loop)}{times}", "magenta")


def _intervened(e: ev.Intervened, _s: State, _: _Before) -> Description:
    again = " again" if e.again else ""
    return _describe("intervention.sent", f"warned{again}: {warned(e.intervention)}", "magenta")


def _finish_refused(e: ev.FinishRefused, _s: State, _: _Before) -> Description:
    fails = f"{short(', '.join(e.failing))} {'fails' if len(e.failing) == 1 else 'fail'}"
    why = fails if e.failing else "there are steps left"
    return _describe("finish.refused", f"says it is done: refused, {why}", "magenta")


def _thought(e: ev.Thought, _s: State, _: _Before) -> Description | None:
    thought = short(e.text, TEXT_CHARS)
    return _describe("agent.thought", f"thinks: {thought}", "dim") if thought else None


def _check_proposed(e: ev.CheckProposed, _s: State, _: _Before) -> Description:
    text = f"check suggested by the agent: {short(e.name)}: {short(e.cmd, COMMAND_CHARS)}"
    return _describe("check.proposed", text, "dim")


def _check(e: ev.CheckFinished, _s: State, _: _Before) -> Description:
    name = f"check.{'passed' if e.passed else 'failed'}"
    what = "suggested check" if e.suggested else "check"
    text = f"{what} {short(e.name)}: {'passed' if e.passed else 'failed'}"
    return _describe(
        name, text, "green" if e.passed else "red", output="" if e.passed else e.output
    )


def _checked_before(e: ev.CheckedBefore, _s: State, _: _Before) -> Description:
    if not e.passed:
        return _describe("check.before", f"check {short(e.name)}: fails before any work", "dim")
    return _describe("check.before", passed_before([short(e.name)]), "yellow")


def _snapshots_missing(e: snap.SnapshotsMissing, _s: State, _: _Before) -> Description:
    gone = "its snapshots are gone" if e.removed else "no snapshots: clew undo has nothing to go by"
    return _describe("snapshot.missing", f"{gone}: {short(e.reason, TEXT_CHARS)}", "yellow")


def _undo_started(e: snap.UndoStarted, _s: State, _: _Before) -> Description:
    files = counted(e.entries, "file")
    text = (
        f"restoring {files} for the next attempt"
        if e.scope == "attempt"
        else f"undo: {files} to restore"
    )
    return _describe("undo.started", text, "cyan")


def _undo_finished(e: snap.UndoFinished, s: State, _: _Before) -> Description:
    what = "undo" if s.snapshots.counts else "next attempt"
    left = f", {e.left_total} left: changed meanwhile" if e.left_total else ""
    return _describe(
        "undo.finished", f"{what}: {counted(e.restored, 'file')} restored{left}", "cyan"
    )


_DESCRIBE: dict[type[ev.Event], Callable[[Any, State, _Before], Description | None]] = {
    ev.GoalAccepted: _accepted,
    ev.GoalStarted: _started,
    ev.GoalWaiting: _waiting,
    ev.GoalBlocked: _blocked,
    ev.GoalRequeued: lambda _e, _s, _b: _describe("goal.requeued", "queued again", "cyan"),
    ev.GoalEnded: _ended,
    ev.GoalEdited: lambda e, _s, _b: _describe(
        "goal.edited", f"edited: {', '.join(e.changed)}", "cyan"
    ),
    ev.WorkerStarted: _worker_started,
    ev.WorkerReady: lambda _e, _s, _b: _describe("worker.ready", "worker ready", "dim"),
    ev.WorkerExited: _worker_exited,
    ev.Planned: _planned,
    ev.SubtaskStarted: _subtask_started,
    ev.SubtaskEnded: _subtask_ended,
    ev.SubtaskFailed: _subtask_failed,
    ev.AttemptEnded: _attempt_ended,
    ev.AttemptStarted: _attempt_started,
    ev.Escalated: _escalated,
    ev.ActionAllowed: _allowed,
    ev.ActionFinished: _action_finished,
    ev.ActionBlocked: _action_blocked,
    ev.ActionInterrupted: _interrupted,
    ev.LoopDetected: _loop,
    ev.Intervened: _intervened,
    ev.Thought: _thought,
    ev.CheckProposed: _check_proposed,
    ev.CheckFinished: _check,
    ev.FinishRefused: _finish_refused,
    ev.CheckedBefore: _checked_before,
    ev.FinishQuestioned: lambda e, _s, _b: _describe(
        "finish.questioned", f"says it is done: asked back, since #{e.of} has failed", "magenta"
    ),
    ev.FeedbackGiven: lambda e, _s, _b: _describe(
        "feedback.given", f"feedback: {short(e.text, TEXT_CHARS)}", "cyan"
    ),
    snap.SnapshotsMissing: _snapshots_missing,
    snap.UndoStarted: _undo_started,
    snap.UndoFinished: _undo_finished,
    ev.Unblocked: lambda e, _s, _b: _describe(
        "action.unblocked", f"unblocked: {short(e.signature.replace('::', ' ', 1))}", "cyan"
    ),
}


def past_entry(goal: str, seq: int, event: ev.Event, began: ev.Event | None) -> FeedEntry | None:
    """Return the entry of a past event of an action; `began` is the event that the action began with."""
    action = ""
    if isinstance(began, ev.ActionAllowed | ev.ActionBlocked):
        action = clean(action_text(began.tool, began.args))
    return _entry(State(goal_id=goal, seq=seq), event, seq, _Before(action))


def status_entry(state: State, waits: str = "") -> FeedEntry:
    """Return an entry on a goal's status, with the reason; `waits` is what a queued goal waits for."""
    view = status_view(state, waits=waits)
    status = str(view["status"])
    text = f"{standing(view)} {percent(view['progress'])}"
    reason = "" if state.paused or status in ("in_progress", "completed") else view["reason"] or ""
    if view["waiting"]:
        reason = _waited_for(reason, view["waiting"]["until"])
    style = STATUS_STYLE.get(status, "")
    at = (state.ended and state.ended_at) or state.updated_at
    question = state.question if status == "blocked" else ""
    text += f": {short(reason, 2 * TEXT_CHARS)}" if reason else ""
    return FeedEntry(at, state.goal_id, f"goal.{status}", text, style=style, output=question)


def waiting_entry(state: State, waits: str, until: str | None, at: float) -> FeedEntry:
    """Return an entry on what a goal waits for now, according to the daemon."""
    text = f"waiting: {_waited_for(waits, until)}"
    return FeedEntry(at, state.goal_id, "goal.waiting", text, style=STATUS_STYLE["waiting"])


def note(event: str, text: str) -> FeedEntry:
    """Return an entry that is about no goal."""
    return FeedEntry(time.time(), "", event, text, style="yellow")


def _waited_for(waits: str, until: str | None) -> str:
    if moment := its_time(waits):
        return f"until {moment}"
    what = short(waited_for(waits), TEXT_CHARS)
    parts = [what] if waits else []
    parts += [f"until {local(until)}"] if until and "until" not in waits else []
    return ", ".join(parts)
