"""A judged and recorded step against two bare WAL commits, in turns: python -m bench.step [--help].

A real daemon and a real worker that proposes and reports (`changed` given, so that only judging and recording is
measured). In turns with it: pairs of bare commits (`synchronous=FULL`, one row of 400 bytes, the log reused), and the
floor, two messages to a Python process that reads JSON, commits it and answers, and does nothing else.
"""

import asyncio
import json
import os
import socket
import time
from pathlib import Path

import apsw
import uvloop
from bench import home, page, runner
from bench.figures import Recorder, Result, short

GOAL = "---\nagent: bench\n---\n# Many steps\n"
CLEW, BARE, FLOOR = "clew: a step", "two bare commits", "two messages, each committed"


def bare_database(path: Path) -> apsw.Connection:
    """Return a database that takes one row a commit."""
    database = apsw.Connection(str(path))
    for pragma in ("journal_mode=wal", "synchronous=full", "wal_autocheckpoint=0"):
        database.execute(f"pragma {pragma}").fetchall()
    database.execute("create table t(a integer primary key, b blob)")
    return database


def bare_pairs(database: apsw.Connection, count: int) -> list[float]:
    """Return the seconds of pairs of commits; the log is reused, as the ledger's is."""
    database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        for _ in range(2):
            database.execute("insert into t(b) values(?)", (b"x" * 400,))
        times.append(time.perf_counter() - began)
    return times


async def answering(end: socket.socket, database: apsw.Connection) -> None:
    """Answer each line once what it says is committed, as the barest daemon would."""
    reader, writer = await asyncio.open_connection(sock=end)
    while line := await reader.readline():
        message = json.loads(line)
        database.execute("insert into t(b) values(?)", (json.dumps(message).encode(),))
        writer.write(json.dumps({"id": message["id"], "result": {}}).encode() + b"\n")


def floor_process(path: Path) -> socket.socket:
    """Start a process that answers what is sent; it ends with the socket."""
    ours, theirs = socket.socketpair()
    if not os.fork():
        ours.close()
        uvloop.run(answering(theirs, bare_database(path)))
        os._exit(0)
    theirs.close()
    return ours


def floor_pairs(to: socket.socket, count: int) -> list[float]:
    """Return the seconds of pairs of messages with their answers."""
    line = json.dumps({"id": 1, "method": "propose", "params": "x" * 300}).encode() + b"\n"
    times = []
    for _ in range(count):
        began = time.perf_counter()
        for _ in range(2):
            to.sendall(line)
            to.recv(1 << 16)
        times.append(time.perf_counter() - began)
    return times


def one_round(folder: Path, number: int) -> list[float]:
    """Let the agent in a folder make its next steps; return their seconds."""
    (folder / f"go.{number}").touch()
    times = folder / f"times.{number}"
    home.wait_for(times.exists)
    return home.floats(times)


def compared(steps: int, rounds: int, found: Recorder) -> None:
    """Measure all in turns, in microseconds."""

    def add(name: str, seconds: list[float]) -> None:
        found.add(name, "µs", *(1e6 * one for one in seconds))

    with home.temporary(home.bench_agent("step", str(steps), str(rounds))) as place:
        database = bare_database(place.folder / "bare.db")
        bare_pairs(database, 500)
        floor = floor_process(place.folder / "floor.db")
        place.start()
        place.drop("steps.md", GOAL)
        folder = home.wait_for(lambda: place.workspaces("*/here"))[0].parent
        for number in range(rounds):
            add(CLEW, one_round(folder, number))
            add(BARE, bare_pairs(database, steps))
            add(FLOOR, floor_pairs(floor, steps))


def text(result: Result) -> tuple[str, ...]:
    """Return the page's part."""
    base = result.series[BARE].median
    rows = [
        [
            s.name,
            *(f"{short(s.quantile(q))} µs" for q in (0.5, 0.9, 0.99)),
            f"{s.median / base:.2f}",
        ]
        for s in result.series.values()
    ]
    return (
        page.table(("", "median", "p90", "p99", "times two bare commits"), rows),
        result.source,
    )


def measure(options: runner.Options, found: Recorder) -> None:
    compared(options.steps, options.rounds, found)


if __name__ == "__main__":
    runner.main(measure, rounds=(20, "rounds"), steps=(100, "a round"))
