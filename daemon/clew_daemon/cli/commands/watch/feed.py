"""What people who watch are told of a goal's events: each becomes an entry, or nothing.

Pure: events and state in, words out. How an entry is shown is `liveview.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.display.goals import why
from clew_daemon.cli.display.output import RESULT_STYLE, STATUS_STYLE, duration, percent
from clew_daemon.cli.display.sanitize import short
from clew_daemon.publish.standing import MARKS, standing
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.moment import iso, local
from clew_shared.record.state import State
from clew_shared.views.publish import status_view

if TYPE_CHECKING:
    from collections.abc import Callable

ACTION_CHARS = 160
SAID_CHARS = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened: `event` is its name in the log, `at` seconds since 1970.

    `text` says it in one line; `action` names the action that it is about, `output` has the head of what that printed.
    `of` is that action's number, and `begins` says that it was only started. `seq` is 0 for what no record tells.
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
        """Return its line of `clew watch --json`."""
        told = {"timestamp": iso(self.at), "goal": self.goal or None, "seq": self.seq or None}
        more = {"of": self.of, "action": self.action, "output": self.output}
        return {**told, "event": self.event, "text": self.text} | {
            k: v for k, v in more.items() if v
        }


def take(state: State, event: ev.Event, seq: int) -> Entry | None:
    """Fold the next event into its goal's state, and return what people are told of it."""
    before = _Before.of(state, event)
    apply(state, event, seq)
    return _entry(state, event, seq, before)


def _entry(state: State, event: ev.Event, seq: int, before: _Before) -> Entry | None:
    describe = _WORDS.get(type(event))
    told = describe(event, state, before) if describe else None
    return Entry(event.at, state.goal_id, seq=seq, **told) if told else None


@dataclass(frozen=True, slots=True)
class _Before:
    """What an event is about that the state no longer tells after it."""

    action: str
    place: str = ""
    subtask: str = ""
    epoch: int = 0

    @classmethod
    def of(cls, state: State, event: ev.Event) -> _Before:
        flight = state.in_flight.get(getattr(event, "of", 0))
        subtask = state.subtask
        return cls(
            action=signature(flight.signature) if flight else "",
            place=place(state),
            subtask=short(subtask.description) if subtask else "",
            epoch=state.epoch,
        )


def signature(text: str) -> str:
    """Return an action's signature as people read it, shortened."""
    return short(text.replace("::", " ", 1), ACTION_CHARS)


def place(state: State) -> str:
    """Return where the current subtask stands in the tree, as in `1.2`."""
    return f"{state.current_task_idx + 1}.{state.current_subtask_idx + 1}"


Told = dict[str, Any]


def _told(event: str, text: str, style: str = "", **more: Any) -> Told:
    return {"event": event, "text": text, "style": style, **more}


def _accepted(_e: ev.GoalAccepted, s: State, _: _Before) -> Told:
    return _told("goal.accepted", f"accepted: {short(s.goal.description)}", "bold")


def _started(_e: ev.GoalStarted, s: State, _: _Before) -> Told:
    done = s.goal.progress()
    text = f"started again, {percent(done)}" if done else "started"
    return _told("goal.started", text, STATUS_STYLE["in_progress"])


def _waiting(e: ev.GoalWaiting, _s: State, _: _Before) -> Told:
    if e.paused:
        return _told("goal.waiting", "paused", "yellow")
    until = f", until {local(e.until)}" if e.until else ""
    return _told("goal.waiting", f"waiting: {short(e.reason, SAID_CHARS)}{until}", "yellow")


def _blocked(e: ev.GoalBlocked, s: State, _: _Before) -> Told:
    text = f"blocked {percent(s.goal.progress())}: {short(e.reason, SAID_CHARS)}"
    return _told("goal.blocked", text, STATUS_STYLE["blocked"], output=e.question)


def _ended(e: ev.GoalEnded, s: State, _: _Before) -> Told:
    why = f": {short(e.reason, SAID_CHARS)}" if e.reason else ""
    text = f"{standing(e.status, s.verified)} {percent(s.goal.progress())}{why}"
    return _told(f"goal.{e.status}", text, STATUS_STYLE.get(e.status, ""))


def _worker_started(e: ev.WorkerStarted, _s: State, before: _Before) -> Told:
    if not before.epoch:
        return _told("worker.started", "worker started", "dim")
    return _told("worker.started", f"worker restarted, epoch {e.epoch}", "yellow")


def _worker_exited(e: ev.WorkerExited, _s: State, _: _Before) -> Told | None:
    if not e.crash:
        return None
    return _told(
        "worker.exited", f"worker died: {short(why(e.reason))} (epoch {e.epoch})", "bold red"
    )


def _planned(e: ev.Planned, _s: State, _: _Before) -> Told:
    subtasks = sum(len(task.subtasks) for task in e.tasks)
    again = "replanned" if e.replan else "planned"
    return _told(
        "goal.planned", f"{again}: {counted(len(e.tasks), 'task')}, {counted(subtasks, 'subtask')}"
    )


def _subtask_started(_: ev.SubtaskStarted, s: State, _b: _Before) -> Told:
    described = short(s.subtask.description) if s.subtask else ""
    return _told("subtask.started", f"[{MARKS['in_progress']}] {place(s)} {described}", "bold")


def _subtask_ended(e: ev.SubtaskEnded, s: State, before: _Before) -> Told:
    mark = MARKS.get(e.status, "?")
    text = f"[{mark}] {before.place} {before.subtask} ({percent(s.goal.progress())})"
    return _told(f"subtask.{e.status}", text, STATUS_STYLE.get(e.status, ""))


def _subtask_failed(e: ev.SubtaskFailed, _s: State, before: _Before) -> Told:
    text = f"{before.place} failed: {short(e.failure, SAID_CHARS)}"
    return _told("subtask.failed", text, "red")


def _escalated(e: ev.Escalated, _s: State, before: _Before) -> Told:
    who = "you" if e.to == "person" else f"the {e.to}"
    text = f"{before.place} blocked, left to {who}: {short(e.reason, SAID_CHARS)}"
    return _told("subtask.blocked" if e.to == "task" else "task.blocked", text, "magenta")


def _allowed(e: ev.ActionAllowed, s: State, _: _Before) -> Told:
    action = signature(e.signature)
    return _told("action.allowed", f"#{s.seq}", action=action, of=s.seq, begins=True)


def _action_finished(e: ev.ActionFinished, _s: State, before: _Before) -> Told:
    text = f"#{e.of} {e.result}, {duration(e.duration_s)}"
    style = RESULT_STYLE.get(e.result, "")
    return _told("action.finished", text, style, action=before.action, output=e.head, of=e.of)


def _action_blocked(e: ev.ActionBlocked, s: State, _: _Before) -> Told:
    text = f"#{s.seq} refused ({e.reason})"
    action = signature(e.signature)
    return _told("action.blocked", text, "magenta", action=action, output=e.message, of=s.seq)


def _interrupted(e: ev.ActionInterrupted, _s: State, before: _Before) -> Told:
    text = f"#{e.of} interrupted: {short(why(e.reason))}"
    return _told("action.interrupted", text, "yellow", action=before.action, of=e.of)


def _loop(e: ev.LoopDetected, _s: State, _: _Before) -> Told:
    text = f"loop detected: {e.loop}, {counted(e.attempt_count, 'attempt')}"
    return _told("loop.detected", text, "magenta", action=signature(e.signature))


def _intervened(e: ev.Intervened, _s: State, _: _Before) -> Told:
    return _told("intervention.sent", f"told the agent: {short(e.message, SAID_CHARS)}", "magenta")


def _thought(e: ev.Thought, _s: State, _: _Before) -> Told | None:
    said = short(e.text, SAID_CHARS)
    return _told("agent.thought", f"thinks: {said}", "dim") if said else None


def _check_proposed(e: ev.CheckProposed, _s: State, _: _Before) -> Told:
    text = f"check suggested by the agent: {short(e.name)}: {short(e.cmd, ACTION_CHARS)}"
    return _told("check.proposed", text, "dim")


def _check(e: ev.CheckFinished, _s: State, _: _Before) -> Told:
    name = f"check.{'passed' if e.passed else 'failed'}"
    what = "suggested check" if e.suggested else "check"
    text = f"{what} {short(e.name)}: {'passed' if e.passed else 'failed'}"
    return _told(name, text, "green" if e.passed else "red", output="" if e.passed else e.output)


_WORDS: dict[type[ev.Event], Callable[[Any, State, _Before], Told | None]] = {
    ev.GoalAccepted: _accepted,
    ev.GoalStarted: _started,
    ev.GoalWaiting: _waiting,
    ev.GoalBlocked: _blocked,
    ev.GoalRequeued: lambda _e, _s, _b: _told("goal.requeued", "queued again", "cyan"),
    ev.GoalEnded: _ended,
    ev.WorkerStarted: _worker_started,
    ev.WorkerReady: lambda _e, _s, _b: _told("worker.ready", "worker ready", "dim"),
    ev.WorkerExited: _worker_exited,
    ev.Planned: _planned,
    ev.SubtaskStarted: _subtask_started,
    ev.SubtaskEnded: _subtask_ended,
    ev.SubtaskFailed: _subtask_failed,
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
    ev.FinishQuestioned: lambda e, _s, _b: _told(
        "finish.questioned", f"finish questioned: {short(e.message, SAID_CHARS)}", "magenta"
    ),
    ev.FeedbackGiven: lambda e, _s, _b: _told(
        "feedback.given", f"feedback: {short(e.text, SAID_CHARS)}", "cyan"
    ),
    ev.Unblocked: lambda e, _s, _b: _told(
        "action.unblocked", "unblocked", "cyan", action=signature(e.signature)
    ),
}


def counted(number: int, what: str) -> str:
    """Return a number with its noun, which gets an s for all numbers but one."""
    return f"{number} {what}{'' if number == 1 else 's'}"


# -- for a watch that begins later -----------------------------------------------------------------------


def of_past(goal: str, seq: int, event: ev.Event, began: str) -> Entry | None:
    """Return the entry of an action's event that is past; `began` is the signature that the action began with."""
    return _entry(State(goal_id=goal, seq=seq), event, seq, _Before(signature(began)))


def standing_of(state: State, waits: str = "") -> Entry:
    """Return an entry that says where a goal stands, and why; `waits` is what a queued goal waits for."""
    view = status_view(state, waits=waits)
    status = str(view["status"])
    text = f"{standing(view)} {percent(view['progress'])}"
    said = "" if state.paused or status in ("in_progress", "completed") else view["reason"] or ""
    if view["waiting"]:
        said = _awaited(said, view["waiting"]["until"])
    style = STATUS_STYLE.get(status, "")
    at = (state.ended and state.ended_at) or state.updated_at
    question = state.question if status == "blocked" else ""
    text += f": {short(said, 2 * SAID_CHARS)}" if said else ""
    return Entry(at, state.goal_id, f"goal.{status}", text, style=style, output=question)


def waiting_of(state: State, waits: str, until: str | None, at: float) -> Entry:
    """Return an entry that says what a goal waits for now, as the daemon tells."""
    text = f"waiting: {_awaited(waits, until)}"
    return Entry(at, state.goal_id, "goal.waiting", text, style=STATUS_STYLE["waiting"])


def _awaited(waits: str, until: str | None) -> str:
    said = (
        [short(waits.removeprefix("waits for ").removeprefix("waits "), SAID_CHARS)]
        if waits
        else []
    )
    return ", ".join(
        [*said, *([f"until {local(until)}"] if until and "until" not in waits else [])]
    )
