"""When an action would run a second time, and whether a runbook's step may: pure rules of a goal's state.

A step that was cut off, or has failed, runs again at a person's word, or that of the goal file: `on_interrupt: retry`
for the one, `retries` for the other. Steps that worked are never proposed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.model import Result
from clew_shared.record.signature import signature

if TYPE_CHECKING:
    from clew_shared.record.model import Action
    from clew_shared.record.state import State


def last_run(state: State, name: str) -> Action | None:
    """Return the last run of this signature in the current subtask."""
    return next((a for a in reversed(_ran(state)) if _signature(state, a) == name), None)


def in_vain(state: State, name: str) -> list[Action]:
    """Return the last runs of this signature in a row that did not succeed, in the present attempt, oldest first."""
    found: list[Action] = []
    for action in reversed(_ran(state)):
        if action.seq <= state.attempt.seq or action.result == Result.SUCCESS:
            break
        if _signature(state, action) != name:
            break
        found.insert(0, action)
    return found


def needs_word(state: State, name: str) -> Action | None:
    """Return the last run of a step if nobody has said yet that it may run again, None where it may."""
    runs = in_vain(state, name)
    if not runs or runs[-1].seq == state.may_rerun:
        return None
    last = runs[-1]
    if last.result == Result.INTERRUPTED:
        return None if state.spec.on_interrupt == "retry" else last
    since = [a for a in runs if a.seq > state.may_rerun and a.result != Result.INTERRUPTED]
    return None if len(since) <= state.spec.retries else last


def has_retries(state: State) -> bool:
    """Return whether the step that failed last may run again, as the goal file says."""
    ran = _ran(state)
    return bool(ran) and needs_word(state, _signature(state, ran[-1])) is None


def run_number(state: State, name: str, *, is_step: bool) -> int:
    """Return the how-many-th run of this action the next one is: of a runbook's step, or of one that was cut off.

    Steps run again where an attempt at their subtask starts over, too. Any other action that an agent repeats is
    work.
    """
    if is_step:
        runs = in_vain(state, name) or [a for a in _ran(state) if a.seq <= state.attempt.seq]
    else:
        runs = [a for a in _ran(state) if a.result == Result.INTERRUPTED]
    return next((a.run + 1 for a in reversed(runs) if _signature(state, a) == name), 1)


def _ran(state: State) -> list[Action]:
    actions = state.subtask.actions if state.subtask else []
    return [action for action in actions if action.result != Result.BLOCKED]


def _signature(state: State, action: Action) -> str:
    return signature(action.name, action.args, state.spec.workspace)
