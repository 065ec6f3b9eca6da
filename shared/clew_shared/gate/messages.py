"""The texts of refusals and interventions: what happened last time, and what to do instead; without jargon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from clew_shared.record.model import Action, Result
from clew_shared.record.progress import is_wait
from clew_shared.record.signature import signature
from clew_shared.text.shorten import both_ends, in_one_line, one_line

if TYPE_CHECKING:
    from clew_shared.gate.verdict import AgentCalls, Proposal
    from clew_shared.record.state import State, Tally


WHAT_ELSE = "Do something else:"
"""Begins the advice in a refusal."""

TRIED_MAX = 3
ARGS_CHARS = 120
HEAD_CHARS = 200
_RESULTS = {
    Result.FAILURE: "failed",
    Result.ERROR: "failed",
    Result.TIMEOUT: "ran out of time",
    Result.BLOCKED: "refused",
    Result.SUCCESS: "brought nothing new",
}

_FAILED = frozenset(_RESULTS) - {Result.SUCCESS}


def last_tally(state: State, proposal: Proposal) -> Tally | None:
    """Return the tally of the action in this world, else that of the world in which it was last done."""
    worlds = state.scope.tallies.get(proposal.signature, {})
    here = worlds.get(state.world)
    return here or max(worlds.values(), key=lambda t: t.seq, default=None)


def last_time(state: State, proposal: Proposal, *, in_cycle: bool = False) -> str:
    """Return how the action went the last time, with the head of its output; `in_cycle`: others came in between."""
    tally = last_tally(state, proposal)
    if tally is None:
        died = state.scope.died.get(proposal.signature)
        return f"The last time it was cut off: {died}." if died else ""
    if tally.result == "success":
        output = f' and said: "{tally.head}"' if tally.head else ""
        if in_cycle and state.world not in state.scope.tallies[proposal.signature]:
            return f"It already succeeded{output}, and the workspace has changed since: this goes back and forth."
        return f"It already succeeded{output}. Its effect is already there; doing it again changes nothing."
    output = f' with: "{tally.head}"' if tally.head else ""
    return f"The last time it ended in {tally.result}{output}."


def what_else(state: State, calls: AgentCalls) -> str:
    """Return what to do instead."""
    subtask = state.subtask
    name = f' "{subtask.description}"' if subtask else ""
    return (
        f"{WHAT_ELSE} if the subtask{name} is done, {calls.done}; if the whole goal is done, {calls.finish}; "
        "otherwise try a different action (read the output above, change a file, another command), "
        f"or {calls.failed} to say that this way does not work and a replan is needed."
    )


def tried(state: State, *, stale: int = 0) -> str:
    """Return the last distinct actions of the subtask that failed or were refused, each with its output.

    Successful ones among the last `stale` actions count too: they brought nothing new. Each has a line of its own,
    the first one after a line break; "" if there are none.
    """
    actions = state.subtask.actions if state.subtask else []
    lines: list[str] = []
    seen: set[str] = set()
    for at, action in enumerate(reversed(actions)):
        name = signature(action.name, action.args, state.spec.workspace)
        idle = (
            action.result == Result.SUCCESS and at < stale and not is_wait(action.name, action.args)
        )
        if name not in seen and (idle or action.result in _FAILED):
            lines.append(_tried(state, action, name))
        seen.add(name)
        if len(lines) == TRIED_MAX:
            break
    return "\n".join(["", "Tried so far:", *reversed(lines)]) if lines else ""


def _tried(state: State, action: Action, name: str) -> str:
    worlds = state.scope.tallies.get(name, {})
    last = max(worlds.values(), key=lambda t: t.seq, default=None)
    head = both_ends(one_line(last.head), HEAD_CHARS) if last else ""
    output = f': "{head}"' if head else ""
    args = json.dumps(action.args, sort_keys=True, ensure_ascii=False, default=str)
    return (
        f"- {action.name} {in_one_line(args, ARGS_CHARS)} {_RESULTS[Result(action.result)]}{output}"
    )
