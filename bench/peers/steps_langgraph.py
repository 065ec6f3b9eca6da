"""Durable steps on LangGraph: a node per super-step, SqliteSaver, durability="sync". Run by its own interpreter.

steps_langgraph.py FOLDER PORT WORKFLOWS [--state growing|delta|constant] [--decide].
Where the folder holds threads, they continue, as its docs have it: `invoke(None)` with the same thread_id.
The state: the last action, and the results of all steps as an agent's transcript has them (`growing`: a list with a
reducer that appends; `delta`: the same list in a DeltaChannel, which is in beta; `constant`: no list).
`--decide`: the decision is a node of its own, so that it is on record before it is acted on.
`steps_langgraph.py FOLDER --fail TIMES` tries one failing step again and again, and prints what was seen as JSON.
"""

import argparse
import json
import operator
import sqlite3
import threading
from pathlib import Path
from typing import Annotated, Any

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy
from steps_line import Effects, Line, action, result
from typing_extensions import TypedDict


def appended(results: list[Any], batches: list[list[Any]]) -> list[Any]:
    return [*results, *(one for batch in batches for one in batch)]


class Constant(TypedDict):
    step: int
    last: dict[str, Any]


class Growing(Constant):
    results: Annotated[list[dict[str, Any]], operator.add]


class Delta(Constant):
    results: Annotated[list[dict[str, Any]], DeltaChannel(appended)]


STATES = {"constant": Constant, "growing": Growing, "delta": Delta}


class Work:
    """One thread's nodes, and its connection to the bench."""

    def __init__(self, options: argparse.Namespace, index: int) -> None:
        self.name = f"work-{index}"
        self._options = options
        self._line = Line(options.port, self.name)
        self._effects = Effects(options.folder / f"{self.name}.effects")
        self._underway: int | None = None

    def graph(self, saver: SqliteSaver) -> Any:
        builder = StateGraph(STATES[self._options.state])
        builder.add_node("act", self.act if self._options.decide else self.decide_and_act)
        builder.add_edge(START, "decide" if self._options.decide else "act")
        if self._options.decide:
            builder.add_node("decide", self.decide)
            builder.add_edge("decide", "act")
        builder.add_edge("act", "decide" if self._options.decide else "act")
        return builder.compile(checkpointer=saver)

    def decide_and_act(self, state: dict[str, Any]) -> dict[str, Any]:
        return self.act({**state, **self.decide(state)})

    def decide(self, state: dict[str, Any]) -> dict[str, Any]:
        """A node that begins shows that the one before is durable: the checkpoint is written in between."""
        if self._underway is not None:
            self._line.done(self._underway)
        self._line.turn()
        return {"last": action(state["step"])}

    def act(self, state: dict[str, Any]) -> dict[str, Any]:
        if self._options.decide and self._underway is None:
            self._line.turn()  # resumed between the two nodes
        step = self._underway = state["step"]
        self._effects.carry_out(step)
        done = {**state["last"], **result(step)}
        update: dict[str, Any] = {"step": step + 1, "last": done}
        return update if self._options.state == "constant" else {**update, "results": [done]}

    def run(self, saver: SqliteSaver, new: bool, pragmas: dict[str, Any]) -> None:
        self._line.say({"pragmas": pragmas})
        begin = {"step": 0, "last": {}} if new else None
        config = {"configurable": {"thread_id": self.name}, "recursion_limit": 1_000_000}
        self.graph(saver).invoke(begin, config, durability="sync")


class Tries(TypedDict):
    """The state of the failing graph."""

    tries: int
    error: str


FIRST = {"tries": 0, "error": ""}
seen = {"ran": 0, "retried": 0}


def failing(state: Tries) -> Tries:
    """Put a tool's error into the state, as an agent does; the next step tries the same."""
    seen["ran"] += 1
    return {"tries": state["tries"] + 1, "error": "pytest nowhere.py: no such file"}


def retried(_: Tries) -> Tries:
    seen["retried"] += 1
    raise ConnectionError("refused")  # a kind that is retried by default


def one_node(node: Any, **options: Any) -> Any:
    builder = StateGraph(Tries)
    builder.add_node("node", node, **options)
    builder.add_edge(START, "node")
    return builder


def stubborn(times: int) -> Any:
    again = lambda state: END if state["tries"] >= times else "node"  # noqa: E731
    return one_node(failing).add_conditional_edges("node", again)


def ends_with(graph: Any) -> str:
    """Return the class of the error with which a graph ends."""
    try:
        graph.compile().invoke(FIRST)
    except Exception as error:  # noqa: BLE001 its class is the question
        return type(error).__name__
    return "no error"


def fail(saver: SqliteSaver, times: int) -> None:
    graph = stubborn(times).compile(checkpointer=saver)
    graph.invoke(FIRST, {"configurable": {"thread_id": "1"}}, durability="sync")
    ran, facts = seen["ran"], {"tried": times, "ran": seen["ran"]}
    limited = ends_with(stubborn(20_000)) == GraphRecursionError.__name__
    facts["stopped_after"] = seen["ran"] - ran if limited else None
    end = ends_with(one_node(retried, retry_policy=RetryPolicy(initial_interval=0.01)))
    print(json.dumps({**facts, "retries_end_with": end, "retried": seen["retried"]}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("workflows", type=int, nargs="?")
    parser.add_argument("--state", choices=STATES, default="growing")
    parser.add_argument("--decide", action="store_true")
    parser.add_argument("--fail", type=int, default=0)
    options = parser.parse_args()
    database = options.folder / "langgraph.sqlite"
    new = not database.exists()
    connection = sqlite3.connect(database, check_same_thread=False)
    saver = SqliteSaver(connection)
    if options.fail:
        fail(saver, options.fail)
        return
    saver.setup()
    names = ("journal_mode", "synchronous")
    pragmas = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}
    threads = [
        threading.Thread(target=Work(options, index).run, args=(saver, new, pragmas))
        for index in range(options.workflows)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:  # the interpreter takes no new work while it ends
        thread.join()


if __name__ == "__main__":
    main()
