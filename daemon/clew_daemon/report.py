"""The outbox: what became of a goal, in a file that a person reads.

Pure text from state, the last actions and loops, and one atomic write; control characters are made harmless.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from clew_daemon.markdown import code, inline, quoted, visible
from clew_shared.durable import sync
from clew_shared.model import GoalStatus, StepStatus
from clew_shared.moment import iso
from clew_shared.progress import both_ends
from clew_shared.redact import redact
from clew_shared.standing import MARKS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clew_shared.model import Cost
    from clew_shared.state import State

TRIED_MAX = 40
CHECK_CHARS = 400
QUESTION_CHARS = 2_000


def render(
    state: State,
    actions: list[dict[str, Any]],
    loops: list[dict[str, Any]],
    strategies: Sequence[str] = (),
) -> str:
    """Write the report: status, question, tree, checks, what was tried, loops, restarts, cost.

    Of actions and loops the last `TRIED_MAX` are enough. `strategies` are those that the agent was shown last, a
    line each.
    """
    goal = state.goal
    parts = [
        f"# {inline(goal.description)}",
        _facts(state),
        _question(state),
        "## Tree\n\n" + "\n".join(_tree(state)),
        _section("LLM calls", _llm_calls(state)),
        _section("Checks", [_check(n, c.passed, c.output) for n, c in state.checks.items()]),
        _section("What was tried", _tried(state, actions[-TRIED_MAX:])),
        _section("Loops", [_loop(entry) for entry in loops[-TRIED_MAX:]]),
        _section("Feedback", [f"- {inline(text)}" for text in state.feedback]),
        _section("Set aside by replans", [f"- {inline(text)}" for text in state.set_aside]),
        _section("Strategies shown", [f"- {inline(text)}" for text in strategies]),
        _unknown(state),
    ]
    return redact(visible("\n\n".join(part for part in parts if part))) + "\n"


def write(outbox: Path, state: State, text: str) -> Path:
    """Put the report at `outbox/<id>.md`, at once or not at all; raises OSError."""
    outbox.mkdir(parents=True, exist_ok=True)
    path = outbox / f"{state.goal_id}.md"
    temporary = outbox / f".{state.goal_id}.md.tmp"
    with temporary.open("w", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync(outbox)  # that it was written is about to be recorded, so its name must last as well
    return path


def _facts(state: State) -> str:
    cost = state.cost
    rows = [
        ("status", f"**{state.goal.status}**"),
        ("reason", inline(state.reason)),
        ("summary", inline(state.summary)),
        ("progress", f"{state.goal.progress():.0%}"),
        ("accepted", iso(state.accepted_at)),
        ("last change", iso(state.updated_at)),
        ("workspace", code(state.spec.workspace)),
        ("agent", inline(state.spec.agent)),
        ("actions", f"{state.actions_total} allowed, {state.blocked_total} refused"),
        ("restarts", str(state.restarts)),
        ("iterations", str(state.iteration)),
        ("working time", f"{cost.active_s:.1f} s, of it {cost.llm_s:.1f} s in LLM calls"),
        (
            "tokens",
            f"{cost.tokens}: {cost.tokens_in} in ({cost.tokens_cached} cached), {cost.tokens_out} out",
        ),
    ]
    return "\n".join(f"- {name}: {value}" for name, value in rows if value)


def _question(state: State) -> str:
    if state.goal.status != GoalStatus.BLOCKED:
        return ""
    question = quoted(state.question or "How should it go on?", QUESTION_CHARS)
    return (
        f"## A person must answer\n\n{question}\n\n"
        f'    clew feedback {state.goal_id} "…"    # tell the agent, and go on\n'
        f"    clew resume {state.goal_id}            # go on as it is\n"
        f"    clew cancel {state.goal_id}            # give it up"
    )


def _tree(state: State) -> list[str]:
    lines = []
    for task in state.goal.tasks:
        lines.append(f"- [{MARKS[task.status]}] {inline(task.description)}")
        for subtask in task.subtasks:
            mark = MARKS[subtask.status]
            notes = [f"{subtask.actions_total} actions"] if subtask.actions_total else []
            if subtask.attempts:
                notes.append(f"{subtask.attempts} failed attempts")
            suffix = f" ({', '.join(notes)})" if notes else ""
            lines.append(f"  - [{mark}] {inline(subtask.description)}{suffix}")
            if subtask.summary:
                lines.append(f"    {inline(subtask.summary)}")
            lines += [f"    found: {inline(text)}" for text in subtask.insights]
            if subtask.last_failure and subtask.status != StepStatus.COMPLETED:
                lines.append(f"    last failure: {inline(subtask.last_failure)}")
    return lines


def _llm_calls(state: State) -> list[str]:
    """Write what the LLM calls have cost, subtask by subtask, as a table; none without calls."""
    if not state.cost.calls:
        return []
    subtasks = [
        (f"{t}.{s} {inline(subtask.description, 60)}", subtask.cost)
        for t, task in enumerate(state.goal.tasks, start=1)
        for s, subtask in enumerate(task.subtasks, start=1)
        if subtask.cost.calls
    ]
    head = [
        "| subtask | calls | tokens in | cached | tokens out | seconds |",
        "| --- |" + " ---: |" * 5,
    ]
    return head + [_cost_row(name, cost) for name, cost in [*subtasks, ("all", state.cost)]]


def _cost_row(name: str, cost: Cost) -> str:
    numbers = (cost.calls, cost.tokens_in, cost.tokens_cached, cost.tokens_out, f"{cost.llm_s:.1f}")
    return f"| {name.replace('|', '/')} | " + " | ".join(map(str, numbers)) + " |"


def _check(name: str, passed: bool, output: str) -> str:
    ends = both_ends(" ".join(output.split()), CHECK_CHARS)
    said = "" if passed or not ends else f": {inline(ends, 2 * CHECK_CHARS)}"
    return f"- [{'x' if passed else ' '}] {inline(name)}{said}"


def _tried(state: State, actions: list[dict[str, Any]]) -> list[str]:
    left_out = state.actions_total + state.blocked_total - len(state.in_flight) - len(actions)
    lines = [f"- … {left_out} earlier actions (`clew history`)"] if left_out > 0 else []
    for action in actions:
        args = ", ".join(f"{inline(k, 60)}={inline(str(v), 60)}" for k, v in action["args"].items())
        lines.append(f"- {action['seq']} {inline(action['name'])}({args}) → {action['result']}")
    return lines


def _loop(entry: dict[str, Any]) -> str:
    what = f" {code(entry['action_signature'], 100)}" if entry["action_signature"] else ""
    to = f", escalated to {entry['escalated_to']}" if entry["escalated_to"] else ""
    return f"- {entry['kind']}{what}: {inline(entry['evidence'])}{to}"


def _unknown(state: State) -> str:
    if not state.spec.unknown_keys:
        return ""
    return "Front-matter keys that clew does not know were ignored: " + ", ".join(
        map(inline, state.spec.unknown_keys)
    )


def _section(title: str, lines: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join(lines) if lines else ""
