"""The same failing step again and again on LangGraph: fails_langgraph.py FOLDER TIMES; prints what was seen as JSON."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy
from typing_extensions import TypedDict

FOLDER, TIMES = Path(sys.argv[1]), int(sys.argv[2])
seen = {"ran": 0, "retried": 0}


class State(TypedDict):
    tries: int
    error: str


def failing(state: State) -> State:
    """A tool's error goes into the state, as an agent's does, and the next step tries the same."""
    seen["ran"] += 1
    return {"tries": state["tries"] + 1, "error": "pytest nowhere.py: no such file"}


def retried(_: State) -> State:
    seen["retried"] += 1
    raise ConnectionError("refused")  # a kind that is retried by default


def stubborn(times: int) -> Any:
    builder = StateGraph(State)
    builder.add_node("failing", failing)
    builder.add_edge(START, "failing")
    builder.add_conditional_edges(
        "failing", lambda state: END if state["tries"] >= times else "failing"
    )
    return builder


def retries_end_with() -> str:
    builder = StateGraph(State)
    builder.add_node("retried", retried, retry_policy=RetryPolicy(initial_interval=0.01))
    builder.add_edge(START, "retried")
    try:
        builder.compile().invoke({"tries": 0, "error": ""})
    except Exception as error:  # noqa: BLE001 what it is, is what we ask
        return type(error).__name__
    return "no error"


def limit() -> int | None:
    """After how many steps a graph that never ends is stopped, with nothing set; None: not in 20,000."""
    before = seen["ran"]
    try:
        stubborn(20_000).compile().invoke({"tries": 0, "error": ""})
    except GraphRecursionError:
        return seen["ran"] - before
    return None


def main() -> None:
    saver = SqliteSaver(sqlite3.connect(FOLDER / "fails.sqlite", check_same_thread=False))
    config: Any = {"configurable": {"thread_id": "1"}}
    graph = stubborn(TIMES).compile(checkpointer=saver)
    facts: dict[str, Any] = {"tried": TIMES}
    graph.invoke({"tries": 0, "error": ""}, config, durability="sync")
    facts |= {"ran": seen["ran"], "stopped_after": limit()}
    facts |= {"retries_end_with": retries_end_with(), "retried": seen["retried"]}
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
