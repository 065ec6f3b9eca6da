"""Makes the views of a goal from its state, for `clew status` and all who look on; pure."""

import shlex
from dataclasses import asdict

from clew_daemon.record.goal_view import GoalDetail, GoalView, Part
from clew_shared.record.model import GoalStatus
from clew_shared.record.moment import iso
from clew_shared.record.state import AttemptState, InFlight, State
from clew_shared.text.redact import redact
from clew_shared.text.words import action_text
from clew_shared.views.publish import SHOWN, goal_view, plain_paths, same


def path_view(name: str) -> dict[str, str]:
    """Return a quoted name as JSON: `path` is the plain name, `quoted` is there only where it differs."""
    [path] = plain_paths([name])
    return {"path": redact(path), **({"quoted": redact(name)} if name != path else {})}


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
) -> GoalView:
    """Return an entry of `clew status --json`; a queued goal `waits` for something, `stuck`: a person must end that."""
    task, subtask, made = state.task, state.subtask, state.proofs.made
    memory, told = state.loops.scope.memory, ("label", "why", "accepted", "seconds")
    at_work, undone = state.goal.status == GoalStatus.IN_PROGRESS, state.snapshots.undone
    return {
        "id": state.goal_id,
        "description": state.goal.description,
        "status": str(state.goal.status),
        "progress": state.goal.progress(),
        "task": task.description if task else None,
        "subtask": subtask.description if subtask else None,
        "epoch": state.epoch,
        "pid": state.pid,
        "restarts": state.restarts,
        "iteration": state.iteration,
        "verified": state.verified,
        "undone": state.goal.status == GoalStatus.COMPLETED and bool(undone),
        "undone_in_part": bool(undone) and "goal" not in undone.values(),
        "paused": state.paused,
        "blocked_actions": state.blocked_actions[-SHOWN:],
        "blocked_total": state.loops.blocked_total,
        "reason": waits or state.reason or None,
        "updated_at": iso(state.updated_at),
        "name": state.spec.name or None,
        "agent": state.spec.agent,
        "attempt": state.attempt.number,
        "passed_before": list(state.passed_before),
        "proof": {**same(made, *told), "files": list(made.files)} if made else None,
        "tokens": state.cost.tokens,
        "age_s": round(max(0.0, now - state.accepted_at), 3),
        "accepted_at": iso(state.accepted_at),
        "needs_person": stuck or needs_person(state),
        "question": state.question or None,
        "answer": answer(state) if needs_person(state) else None,
        "now": None,
        "waiting": _waiting(state, now, waits),
        "since_gain": memory.since_gain if at_work else None,
        "debt": round(memory.debt.steps, 1) if at_work else None,
    }


def _waiting(state: State, now: float, waits: str) -> Part | None:
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
    state: State,
    now: float = 0.0,
    waits: str = "",
    *,
    stuck: bool = False,
    actions: bool = True,
) -> GoalDetail:
    """Return one goal in full, its tree without `actions` faster; `subtask_details` are apart: its shape is fixed."""
    cost, proofs, known = state.cost, state.proofs, state.snapshots
    undo = {"undo": "under way" if known.undoing else "done" if known.undone else None}
    counts = same(cost, "calls", "tokens", "tokens_in", "tokens_out", "tokens_cached")
    return {
        **status_view(state, now, waits, stuck=stuck),
        "goal": goal_view(state.goal, actions=actions),
        "current_task_idx": state.current_task_idx,
        "current_subtask_idx": state.current_subtask_idx,
        "in_flight": list(map(_flight_view, state.in_flight.values())),
        "summary": state.summary or None,
        "checks": {name: same(one, "passed", "output") for name, one in proofs.checks.items()},
        "check_commands": dict(state.spec.checks),
        "checked_before": {name: asdict(one) for name, one in proofs.before.items()},
        "suggested_checks": [{"name": name, "cmd": cmd} for name, cmd in proofs.suggested.items()],
        "workspace": state.spec.workspace,
        "ended_at": iso(state.ended_at) if state.ended and state.ended_at else None,
        "actions_total": state.actions_total,
        "loops_total": state.loops.found_total,
        "wait_until": iso(state.wait_until) if state.wait_until else None,
        "snapshots": same(known, "taken", "left_out") | {"missing": known.missing or None} | undo,
        "replan_required": state.plan.replan_required or None,
        "set_aside": state.replaced,
        "attempts": list(map(_fresh_start_view, state.attempts.fresh_starts)),
        "attempt_limit": None,
        "continued": state.attempts.actions_granted > 0,
        "reruns": list(map(asdict, state.attempts.reruns)),
        "cost": {**counts, "llm_s": round(cost.llm_s, 3), "active_s": round(cost.active_s, 3)},
        "subtask_details": [
            {
                "task_idx": t,
                "subtask_idx": s,
                "summary": one.summary or None,
                "insights": [*one.insights],
            }
            for t, task in enumerate(state.goal.tasks)
            for s, one in enumerate(task.subtasks)
        ],
    }


def _flight_view(one: InFlight) -> Part:
    text = action_text(one.action.name, one.action.args)
    return {**same(one, "seq", "signature"), "name": one.action.name, "text": text}


def _fresh_start_view(one: AttemptState) -> Part:
    """Return the start of an attempt after the first; `reason` is why the one before it ended."""
    return {
        **same(one, "epoch", "reason", "restored"),
        "attempt": one.number,
        "task_idx": one.place[0],
        "subtask_idx": one.place[1],
        "started_at": iso(one.at),
        "rung": one.rung or None,
        "kept": one.kept or None,
        "left": list(one.left),
    }
