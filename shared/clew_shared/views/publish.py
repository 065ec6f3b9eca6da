"""The JSON shapes of a goal for people and programs, pure: `.agent_context/`, `status`, `loops`; never read back."""

import shlex
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, TypeVar, cast

from clew_shared.proof.judges import Patterns, is_judge
from clew_shared.record import events as ev
from clew_shared.record.fold import EventFold, takes
from clew_shared.record.model import Action, Goal, GoalStatus, Subtask
from clew_shared.record.moment import iso
from clew_shared.record.state import AttemptState, InFlight, SnapshotState, State
from clew_shared.snapshots.names import unquoted
from clew_shared.text.redact import redact
from clew_shared.text.words import action_text
from clew_shared.views import goal_view as shapes

OUTPUT_CHARS = 1_000
SHOWN = 1_000  # counted and blocked signatures that are shown, the last ones; as many as the default `max_actions`
LOOPS_KEPT = 1_000  # entries of loops.json, the last ones; all of them are in the ledger
VERSION = 1
View = dict[str, object]  # what is shown of something, as JSON; clew reads none of it back
Began = ev.ActionAllowed | ev.ActionBlocked
Ended = ev.ActionFinished | ev.ActionInterrupted
EndedAction = tuple[Action, int]
_Form = TypeVar("_Form")


def state_view(state: State) -> dict[str, Any]:
    """Return the content of `state.json`; of a probe from before the last change nothing is known."""
    return {
        "version": VERSION,
        "goal_id": state.goal_id,
        "goal": goal_view(state.goal),
        **_same(state, "current_task_idx", "current_subtask_idx"),
        "loop_counts": dict(list(state.loop_counts.items())[-SHOWN:]),
        "blocked_actions": state.blocked_actions[-SHOWN:],
        "last_probe_state": {n: one.passed for n, one in state.probes.items() if state.holds(one)},
        **_same(state, "iteration", "epoch", "restarts", "seq"),
        "attempt": state.attempt.number,
    }


def _same(of: object, *names: str) -> View:
    return {name: getattr(of, name) for name in names}


def _view(form: type[_Form], of: object, **other: object) -> _Form:
    """Return a view of this form: its keys from `other`, else from what `of` has by the same names."""
    keys = [key for key in form.__annotations__ if key in vars(form)["__required_keys__"]]
    return cast("_Form", {key: other[key] if key in other else getattr(of, key) for key in keys})


def goal_view(goal: Goal) -> shapes.Tree:
    tasks = [
        _view(shapes.Task, task, subtasks=[*map(_step_view, task.subtasks)]) for task in goal.tasks
    ]
    return _view(shapes.Tree, goal, tasks=tasks)


def _step_view(one: Subtask) -> shapes.Step:
    failure, actions = one.last_failure or None, list(map(action_view, one.actions))
    return _view(shapes.Step, one, last_failure=failure, actions=actions)


def action_view(action: Action) -> View:
    """Return an action with the fields of history.jsonl except its output."""
    paths = plain_paths(action.paths)
    judges = [path for path in paths if is_judge(path, Patterns(action.judges))]
    own = _same(action, "seq", "timestamp", "name", "args", "result", "duration_s", "changed")
    own |= {"paths": paths, "judges": judges}
    return own | _same(action, "task_idx", "subtask_idx", "epoch", "attempt")


def plain_paths(names: Iterable[str]) -> list[str]:
    """Return quoted names as plain text; what is not UTF-8 is replaced."""
    return [unquoted(name).decode(errors="replace") for name in names]


def path_view(name: str) -> dict[str, str]:
    """Return a quoted name as JSON: `path` is the plain name, `quoted` is there only where it differs."""
    [path] = plain_paths([name])
    return {"path": redact(path), **({"quoted": redact(name)} if name != path else {})}


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
        **_same(event, "evidence", "escalated_to"),
    }


def needs_person(state: State) -> bool:
    """Return whether only a person can continue a goal: it is blocked, or waits with no time set and is not paused."""
    status, is_endless = state.goal.status, state.wait_until is None and not state.paused
    return status == GoalStatus.BLOCKED or (status == GoalStatus.WAITING and is_endless)


def answer(state: State) -> str:
    goal, asked = shlex.quote(state.goal_id), state.question
    is_question = state.goal.status == GoalStatus.BLOCKED and state.stranger is None
    by_words = "`clew feedback" in asked or "`clew " not in asked
    said = is_question and by_words and not state.gone
    return f'clew feedback {goal} "…"' if said else f"clew continue {goal}"


def status_view(
    state: State, now: float = 0.0, waits: str = "", *, stuck: bool = False
) -> shapes.GoalView:
    """Return an entry of `clew status --json`; a queued goal `waits` for something, `stuck`: a person must end that."""
    task, subtask, memory, made = (
        state.task,
        state.subtask,
        state.loops.scope.memory,
        state.proofs.made,
    )
    at_work = state.goal.status == GoalStatus.IN_PROGRESS
    return _view(
        shapes.GoalView,
        state,
        id=state.goal_id,
        description=state.goal.description,
        status=str(state.goal.status),
        progress=state.goal.progress(),
        task=task.description if task else None,
        subtask=subtask.description if subtask else None,
        blocked_actions=state.blocked_actions[-SHOWN:],
        blocked_total=state.loops.blocked_total,
        reason=waits or state.reason or None,
        updated_at=iso(state.updated_at),
        name=state.spec.name or None,
        agent=state.spec.agent,
        attempt=state.attempt.number,
        passed_before=list(state.passed_before),
        proof=made and _view(shapes.Proof, made, files=list(made.files)),
        tokens=state.cost.tokens,
        age_s=round(max(0.0, now - state.accepted_at), 3),
        accepted_at=iso(state.accepted_at),
        needs_person=stuck or needs_person(state),
        question=state.question or None,
        answer=answer(state) if needs_person(state) else None,
        now=None,
        waiting=_waiting(state, now, waits),
        since_gain=memory.since_gain if at_work else None,
        debt=round(memory.debt.steps, 1) if at_work else None,
    )


def _waiting(state: State, now: float, waits: str) -> shapes.Waiting | None:
    """Return what a goal waits for, since when, and when it continues on its own; None if it does not wait."""
    until = None
    if state.goal.status == GoalStatus.WAITING:
        until = iso(state.wait_until) if state.wait_until and not state.paused else None
    elif state.goal.status != GoalStatus.QUEUED:
        return None
    elif (not_before := state.spec.not_before) and not_before > now:
        moment = iso(not_before)
        until = moment if waits in ("", f"waits until {moment}") else None
    since = iso(state.waiting_since or state.accepted_at)
    return {"for": waits or state.reason or "a worker", "since": since, "until": until}


def goal_detail(
    state: State, now: float = 0.0, waits: str = "", *, stuck: bool = False
) -> shapes.GoalDetail:
    """Return one goal in full; `subtask_details` are apart from the tree, whose shape is fixed."""
    cost, proofs = state.cost, state.proofs
    subtasks = [
        {
            "task_idx": t,
            "subtask_idx": s,
            "summary": one.summary or None,
            "insights": list(one.insights),
        }
        for t, task in enumerate(state.goal.tasks)
        for s, one in enumerate(task.subtasks)
    ]
    return _view(
        shapes.GoalDetail,
        state,
        **status_view(state, now, waits, stuck=stuck),
        goal=goal_view(state.goal),
        in_flight=list(map(_flight_view, state.in_flight.values())),
        summary=state.summary or None,
        checks={name: _view(shapes.Check, one) for name, one in proofs.checks.items()},
        check_commands=dict(state.spec.checks),
        checked_before={name: asdict(one) for name, one in proofs.before.items()},
        suggested_checks=[{"name": name, "cmd": cmd} for name, cmd in proofs.suggested.items()],
        workspace=state.spec.workspace,
        ended_at=iso(state.ended_at) if state.ended and state.ended_at else None,
        loops_total=state.loops.found_total,
        wait_until=iso(state.wait_until) if state.wait_until else None,
        snapshots=_snapshots_view(state.snapshots),
        replan_required=state.plan.replan_required or None,
        set_aside=state.replaced,
        attempts=list(map(_fresh_start_view, state.attempts.fresh_starts)),
        continued=state.attempts.actions_granted > 0,
        reruns=list(map(asdict, state.attempts.reruns)),
        cost=_view(shapes.Cost, cost, llm_s=round(cost.llm_s, 3), active_s=round(cost.active_s, 3)),
        subtask_details=subtasks,
    )


def _snapshots_view(known: SnapshotState) -> shapes.Snapshots:
    undo = "under way" if known.undoing else "done" if known.undone else None
    return _view(shapes.Snapshots, known, missing=known.missing or None, undo=undo)


def _flight_view(one: InFlight) -> shapes.Flight:
    text = action_text(one.action.name, one.action.args)
    return _view(shapes.Flight, one, name=one.action.name, text=text)


def _fresh_start_view(one: AttemptState) -> shapes.FreshStart:
    return _view(
        shapes.FreshStart,
        one,
        attempt=one.number,
        task_idx=one.place[0],
        subtask_idx=one.place[1],
        started_at=iso(one.at),
        rung=one.rung or None,
        kept=one.kept or None,
        left=list(one.left),
    )


class HistoryFold(EventFold[EndedAction]):
    """Finds the actions that end, each with the event of its output, those `flying`, and the entries of loops.json."""

    def __init__(self) -> None:
        super().__init__()
        self.flying: dict[int, Action] = {}
        self._at = (0, 0)
        self.loops: list[View] = []
        self._judges: tuple[str, ...] = ()

    @takes(ev.GoalAccepted)
    def _accepted(self, _seq: int, event: ev.GoalAccepted) -> None:
        self._judges = event.spec.judges

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
        action.judges = self._judges
        return action, seq
