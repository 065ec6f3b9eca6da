"""An event of a goal in words: the one table of all views. Pure. A new event needs a log line in `eventlog`, too."""

from dataclasses import dataclass, replace
from functools import partial

from clew_daemon.reading.output import RESULT_STYLE, STATUS_STYLE
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.goal_status import status_view
from clew_daemon.record.goal_view import MARKS, GoalView, ground_facts, standing, stands_for
from clew_shared.core.questions import last_said
from clew_shared.proof import label
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.moment import local
from clew_shared.record.state import State
from clew_shared.text import words
from clew_shared.text.plain import percent

TEXT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened: `kind` is that of its event, `title` a line on it, `level` the style of that line.

    `detail` is the head of an output, a question, or why an action was refused. `action` is the command that it is
    about; `begins` says that this has only started. `seq` is 0 for what is not on record.
    """

    at: float
    goal: str
    kind: str
    title: str
    level: str = ""
    detail: str = ""
    action: str = ""
    begins: bool = False
    seq: int = 0


def advance(state: State, event: ev.Event, seq: int) -> Entry | None:
    """Fold the next event into its goal's state, and return its entry, None if people need none."""
    flight = state.in_flight.get(getattr(event, "of", 0))
    action = clean(words.action_text(flight.action.name, flight.action.args)) if flight else ""
    apply(state, event, seq)
    return describe(event, state, action)


def describe(event: ev.Event, state: State, action: str = "") -> Entry | None:
    """Return the entry of an event, None if people need none; `state` is after it, `action` the one that it ends."""
    tables = (_of_action, _of_work, _of_worker_and_workspace, _of_goal, _of_finish)
    found = next((one for one in (of(event, state) for of in tables) if one.title), None)
    if found is None:
        return None
    found = replace(found, at=event.at, goal=state.goal_id, kind=event.kind, seq=state.seq)
    return replace(found, action=found.action or action)


def stands(view: GoalView, at: float) -> Entry:
    """Return an entry on where a goal stands, from its view."""
    status, reason = str(view["status"]), stands_for(view)
    text = f"{standing(view)} {percent(view['progress'])}"
    text += f": {short(reason, 2 * TEXT_CHARS)}" if reason else ""
    asks = (view["question"] or "") if status == "blocked" else ""
    return Entry(at, view["id"], f"goal_{status}", text, STATUS_STYLE.get(status, ""), asks)


_say = partial(Entry, 0.0, "", "")  # an entry with all but its place


def _cut(text: str) -> str:
    return short(text, TEXT_CHARS)


def _of_goal(event: ev.Event, state: State) -> Entry:
    title, style, detail = "", "cyan", ""
    match event:
        case ev.GoalAccepted():
            title, style = f"accepted: {short(state.goal.description)}", "bold"
        case ev.GoalStarted():
            done = state.goal.progress()
            title, style = f"started again, {percent(done)}" if done else "started", "bold cyan"
        case ev.GoalWaiting():
            until = f", until {local(event.until)}" if event.until else ""
            title = "paused" if event.paused else f"waiting: {_cut(event.reason)}{until}"
            style = "yellow"
        case ev.GoalBlocked():
            title = f"blocked {percent(state.goal.progress())}: {_cut(event.reason)}"
            style, detail = STATUS_STYLE["blocked"], event.question
        case ev.GoalRequeued():
            title = "queued again"
        case ev.GoalEnded():
            why = f": {_cut(event.reason)}" if event.reason else ""
            but = f"; but {words.passed_before(event.passed_before)}" if event.passed_before else ""
            done = state.goal.progress()
            title = f"{standing(status_view(state))} {percent(done)}{why}{but}"
            style = STATUS_STYLE.get(event.status, "")
        case ev.GoalEdited():
            title = f"edited: {', '.join(event.changed)}"
        case ev.FeedbackGiven():
            title = f"feedback: {_cut(event.text)}"
        case ev.Unblocked():
            title = f"unblocked: {short(words.signature_text(event.signature))}"
    return _say(title, style, detail=detail)


_NEXT = {
    "task": "another plan is needed for its task",
    "goal": "another plan is needed for the goal",
    "person": "it is blocked",
}


_UNDOS = {"subtask": "undo of a subtask", "undo": "undo reverted", "attempt": "next attempt"}


def _of_worker_and_workspace(event: ev.Event, state: State) -> Entry:
    title, style, begun = "", "dim", state.attempts.fresh_starts[-1:]
    match event:
        case ev.WorkerStarted(epoch=1):
            title = "worker started"
        case ev.WorkerStarted() if begun and begun[0].epoch == event.epoch:
            title = f"worker started for attempt {state.attempt.number}, epoch {event.epoch}"
        case ev.WorkerStarted():
            title, style = f"worker restarted, epoch {event.epoch}", "yellow"
        case ev.WorkerExited(crash=True):
            title = f"worker died, epoch {event.epoch}: {short(words.ending(event.reason))}"
            style = "bold red"
        case ev.SnapshotsMissing():
            gone = "no snapshots: clew undo has nothing to go by"
            gone = "its snapshots are gone" if event.removed else gone
            title, style = f"{gone}: {_cut(event.reason)}", "yellow"
        case ev.UndoStarted():
            title = f"{_UNDOS.get(event.scope, 'undo')}: {words.counted(event.entries, 'file')} to put back or remove"
        case ev.UndoFinished():
            left = f", {event.left_total} left: changed meanwhile" if event.left_total else ""
            title = f"{_UNDOS.get(state.snapshots.scope, 'undo')}: {words.put_back(event.restored)}{left}"
    return _say(title, style)


def _of_work(event: ev.Event, state: State) -> Entry:
    title, style = "", "bold"
    place = f"{state.current_task_idx + 1}.{state.current_subtask_idx + 1}"
    step = f"{place} {short(state.subtask.description) if state.subtask else ''}"
    match event:
        case ev.Planned():
            again = "replanned" if event.replan else "planned"
            subtasks = words.counted(sum(len(task.subtasks) for task in event.tasks), "subtask")
            title, style = f"{again}: {words.counted(len(event.tasks), 'task')}, {subtasks}", ""
        case ev.SubtaskStarted():
            title = f"[{MARKS['in_progress']}] {step}"
        case ev.SubtaskEnded():
            done = percent(state.goal.progress())
            title = f"[{MARKS.get(event.status, '?')}] {step} ({done})"
            style = STATUS_STYLE.get(event.status, "")
        case ev.SubtaskFailed():
            title, style = f"{place} failed: {_cut(event.failure)}", "red"
        case ev.AttemptEnded():
            why = _cut(words.ending(event.reason))
            title, style = f"{place} attempt {event.attempt} ended: {why}", "yellow"
        case ev.AttemptStarted():
            ground = ground_facts(event.restored, event.kept, event.left)
            facts = "; ".join(_cut(fact) for fact in (event.rung, *ground) if fact)
            title = f"{place} attempt {event.attempt} begins{f': {facts}' if facts else ''}"
        case ev.Escalated():
            title, style = f"{place} {_cut(event.reason)}; {_NEXT[event.to]}", "magenta"
    return _say(title, style)


def _of_action(event: ev.Event, state: State) -> Entry:
    title, style, detail, action = "", "magenta", "", ""
    match event:
        case ev.ActionAllowed() | ev.ActionBlocked():
            action = clean(words.action_text(event.tool, event.args))
            title, style = f"#{state.seq}", ""
            if isinstance(event, ev.ActionBlocked):
                count = state.loops.scope.loop_counts.get(event.signature, 0)
                detail = words.why_refused(event.reason, count, last_said(state, event.signature))
                title, style = f"{title} refused", "magenta"
        case ev.ActionFinished():
            title = f"#{event.of} {words.outcome(event.result)}, {words.duration(event.duration_s)}"
            style, detail = RESULT_STYLE.get(event.result, ""), event.head
        case ev.ActionInterrupted():
            why = short(words.cut_off(event.reason))
            title, style = f"#{event.of} interrupted: {why}", "yellow"
        case ev.Intervened():
            again = " again" if event.again else ""
            title = f"warned{again}: {words.warned(event.intervention)}"
        case ev.Thought():
            title, style = f"thinks: {_cut(event.text)}" if event.text else "", "dim"
    return _say(title, style, detail, action, begins=isinstance(event, ev.ActionAllowed))


def _of_finish(event: ev.Event, _: State) -> Entry:
    title, style, detail = "", "magenta", ""
    match event:
        case ev.CheckFinished():
            what = "suggested check" if event.suggested else "check"
            title = f"{what} {short(event.name)}: {'passed' if event.passed else 'failed'}"
            style = "green" if event.passed else "red"
            detail = "" if event.passed else event.output
        case ev.CheckedBefore(passed=True):
            title, style = words.passed_before([short(event.name)]), "yellow"
        case ev.FinishRefused():
            fails = "fails" if len(event.failing) == 1 else "fail"
            why = f"{short(', '.join(event.failing))} {fails}"
            title = f"{_REFUSED}{why if event.failing else 'there are steps left'}"
        case ev.FinishQuestioned():
            title = f"says it is done: asked back, since #{event.of} has failed"
        case ev.ProofMade():
            title = f"proof: {_cut(label.words(event.label, event.why, event.accepted))}"
            style = "green" if event.label == "proven" else "yellow"
            detail = words.key_line(event.output) if event.label not in label.ENDS else ""
        case ev.ProofRefused():
            title = f"{_REFUSED}{_cut(label.words(event.label, event.why))}"
        case ev.ProofAccepted():
            why = f": {_cut(event.why)}" if event.why else ""
            title, style = f"accepted by a person{why}", "cyan"
    return _say(title, style, detail)


_REFUSED = "says it is done: refused, "
