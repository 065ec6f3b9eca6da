"""What a goal has cost, for its report: time, tokens, and the LLM calls by subtask and by agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_daemon.publish.markdown import inline
from clew_shared.views.publish import costs_by_agent

if TYPE_CHECKING:
    from clew_shared.record.model import LlmCost
    from clew_shared.record.state import State


def spent(state: State) -> list[str]:
    """Return the goal's working time and its tokens, a line each."""
    cost = state.cost
    if not cost.calls:
        return [f"- working time: {cost.active_s:.1f} s"]
    split = f"{cost.tokens_in} in ({cost.tokens_cached} cached), {cost.tokens_out} out"
    return [
        f"- working time: {cost.active_s:.1f} s, {cost.llm_s:.1f} s of it in LLM calls",
        f"- tokens: {cost.tokens}: {split}",
    ]


def llm_calls(state: State) -> list[str]:
    """Return what the LLM calls have cost, subtask by subtask, as a table; none without calls."""
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


def by_agent(state: State) -> list[str]:
    """Return the share of each agent in the LLM calls, as a table; none where there was only one."""
    costs = costs_by_agent(state)
    if len(costs) < 2:
        return []
    head = ["| agent | calls | tokens | share of tokens |", "| --- |" + " ---: |" * 3]
    total = state.cost.tokens
    rows = [
        f"| {inline(name or 'default', 60).replace('|', '/')} | {cost.calls} | {cost.tokens} "
        f"| {cost.tokens / total if total else 0:.0%} |"
        for name, cost in costs.items()
    ]
    return head + rows


def _cost_row(name: str, cost: LlmCost) -> str:
    numbers = (cost.calls, cost.tokens_in, cost.tokens_cached, cost.tokens_out, f"{cost.llm_s:.1f}")
    return f"| {name.replace('|', '/')} | " + " | ".join(map(str, numbers)) + " |"
