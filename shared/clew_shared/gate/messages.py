"""The texts of refusals and interventions: what happened last time, and what to do instead; without jargon."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from clew_shared.record.fold.thoughts import streak_of
from clew_shared.record.model import Action, Result
from clew_shared.record.signature import signature
from clew_shared.text.shorten import both_ends, in_one_line, one_line

if TYPE_CHECKING:
    from clew_shared.gate.verdict import AgentCalls, Proposal
    from clew_shared.judge.memory import Memory
    from clew_shared.record.events import Intervened, Stays
    from clew_shared.record.state import State, Tally


WHAT_ELSE = "Do something else:"
"""Begins the advice in a refusal."""

TRIED_MAX = 3
NEWS_CHARS = 120
ARGS_CHARS = 120
HEAD_CHARS = 200
_RESULTS = {
    Result.FAILURE: "failed",
    Result.ERROR: "failed",
    Result.TIMEOUT: "ran out of time",
    Result.BLOCKED: "refused",
    Result.SUCCESS: "brought nothing new",
}

_REPEATS = {
    "theme": "{} thoughts in a row about the same, and nothing new came of them",
    "repeated_planning": "{} thoughts in a row without an action",
    "no_progress": "{} turns in a row that changed no file and brought no new answer",
    "stuck": "the agent called itself stuck {} times in a row",
}
"""What an intervention was raised from, by its name and the length of the streak."""

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


def nothing_new_message(memory: Memory, stays: Stays | None, calls: AgentCalls) -> str:
    """Return the facts: which steps brought nothing new, the last thing that was new, and the answer that stays."""
    else_ = f"Do something that can bring something new, or, if the work is done, {calls.finish}."
    news = in_one_line(memory.news, NEWS_CHARS)
    last = f' The last new thing: "{news}".' if news else ""
    if stays:
        text = in_one_line(stays.text, NEWS_CHARS)
        return f'The same answer {stays.times} times, whatever was done: "{text}".{last} {else_}'
    steps = Counter(label for _, label in memory.idle)
    names = "; ".join(f"{name} ({n} times)" if n > 1 else name for name, n in steps.items())
    count = max(memory.since_gain, len(memory.idle))
    return f"The last {count} steps brought nothing new: {names}.{last} {else_}"


def what_repeats(state: State, told: Intervened) -> str:
    """Return for a person what an intervention was raised from."""
    if told.intervention == "nothing_new":
        return _what_brought_nothing(state.scope.memory, told)
    return _REPEATS[told.intervention].format(streak_of(state, told.intervention))


def _what_brought_nothing(memory: Memory, told: Intervened) -> str:
    """Return, a line each, what was said, the steps that brought nothing, and the last that did."""
    said = "told again" if told.again else "told"
    steps = [f"#{seq} {label}" for seq, label in memory.idle]
    last = f'last new: #{memory.gained_seq} "{in_one_line(memory.news, NEWS_CHARS)}"'
    stays = (
        f'the answer that stays, {told.stays.times} times: "{told.stays.text}"'
        if told.stays
        else ""
    )
    lines = [
        f"the agent was {said} that {told.since_gain} steps had brought nothing new",
        in_one_line(stays, 2 * NEWS_CHARS),
        *(f"brought nothing: {step}" for step in steps),
        last if memory.news else "",
    ]
    return "\n".join(line for line in lines if line)


def tried(state: State) -> str:
    """Return the last distinct actions of the subtask that failed or were refused, each with its output.

    Each has a line of its own, the first one after a line break; "" if there are none.
    """
    actions = state.subtask.actions if state.subtask else []
    lines: list[str] = []
    seen: set[str] = set()
    for action in reversed(actions):
        name = signature(action.name, action.args, state.spec.workspace)
        if name not in seen and action.result in _FAILED:
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
