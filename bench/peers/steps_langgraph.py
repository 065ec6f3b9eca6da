"""Durable steps on LangGraph: a node per super-step, SqliteSaver, durability="sync". Run by its own interpreter.

steps_langgraph.py FOLDER PORT WORKFLOWS [--state growing|delta|constant] [--decide].
Where the folder holds threads, they continue, as its docs have it: `invoke(None)` with the same thread_id.
The state: the last action, and the results of all steps as an agent's transcript has them (`growing`: a list with a
reducer that appends; `delta`: the same list in a DeltaChannel, which is in beta; `constant`: no list).
`--decide`: the decision is a node of its own, so that it is on record before it is acted on.
"""

import argparse
import operator
import sqlite3
import threading
from pathlib import Path
from typing import Annotated, Any

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("workflows", type=int)
    parser.add_argument("--state", choices=STATES, default="growing")
    parser.add_argument("--decide", action="store_true")
    options = parser.parse_args()
    database = options.folder / "langgraph.sqlite"
    new = not database.exists()
    connection = sqlite3.connect(database, check_same_thread=False)
    saver = SqliteSaver(connection)
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
