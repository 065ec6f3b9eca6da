"""What grows with the record: a step, memory, files, recovery, commands: python -m bench.growth.

Homes are made (`bench.grown`) with many recorded actions of one goal in progress, or many goals that are over. A real
daemon continues each, is killed with SIGKILL and started again, in turns; so are the commands, beside an empty
home.
"""

import asyncio
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
from bench import grown, page, runner
from bench.figures import Recorder, Result, Series
from bench.home import Home, bench_agent, disk_folder, wait_for

from clew_daemon.record.store import load_state
from clew_shared.ledger.reader import Reader
from clew_shared.record.codec import STATE_VERSION
from clew_shared.views.contextdir import FOLDER

EMPTY = "an empty home"
READY = "from `daemon.started` (Python and imports done) to `daemon.ready`"
OF_ACTIONS = {
    "step": "a step, p50 (5 to 95 %)",
    "step, p99": "a step, p99",
    "daemon": "the daemon's memory (PSS)",
    "state.json": "`state.json`",
    "snapshot": "a snapshot",
    "recovery": READY,
    "at work again": "from `daemon.started` to the worker's hello",
    "load": "of it, the goal's state",
    "fold of all": "the goal's state without a snapshot",
}
OF_GOALS = {"recovery": READY, "daemon": "the daemon's memory (PSS)"}
COMMANDS = {command: f"`clew {command}`" for command in ("status", "history")}
Homes = dict[str, Home]


def step_rounds(homes: Homes, options: runner.Options, found: Recorder) -> None:
    """Start each home's daemon, let its agent step, kill it, in turns; the first round is not counted."""
    for into in [Recorder()] + [found] * options.times:
        for name, home in homes.items():
            times = home.folder / "workspaces" / "grow" / "times.txt"
            hellos = len(lines(times, "hello"))
            home.start()
            wait_for(lambda: len(lines(times, "hello")) > hellos)  # noqa: B023 - at once
            started = recovery(home, name, into)
            at_work = float(lines(times, "hello")[-1].split()[2])
            into.add(f"{name}: at work again", "ms", (at_work - started) * 1000)
            wait_for(lambda: lines(times)[-1] == "end", 120)  # noqa: B023 - at once
            steps = lines(times, "step")[-options.steps :]
            took = Series("", "µs", [float(line.split()[2]) * 1e6 for line in steps])
            into.add(f"{name}: step", "µs", *took.values)
            into.add(f"{name}: step, p99", "µs", took.quantile(0.99))
            weigh_and_kill(home, name, found)


def start_rounds(homes: Homes, options: runner.Options, found: Recorder) -> None:
    """Start and kill the daemons of homes whose goals are over."""
    for _ in range(options.times):
        for name, home in homes.items():
            home.start()
            recovery(home, name, found)
            weigh_and_kill(home, name, found)


def recovery(home: Home, name: str, found: Recorder) -> float:
    """Add how long the last start took; return its moment."""
    started, ready = (home.events(f"daemon.{event}")[-1]["at"] for event in ("started", "ready"))
    found.add(f"{name}: recovery", "ms", (ready - started) * 1000)
    return float(started)


def lines(path: Path, begin: str = "") -> list[str]:
    text = path.read_text() if path.exists() else ""
    return [line for line in text.splitlines() or [""] if line.startswith(begin)]


def weigh_and_kill(home: Home, name: str, found: Recorder) -> None:
    found.add(f"{name}: daemon", "MB", psutil.Process(home.pid).memory_full_info().pss / 1e6)
    home.stop(signal.SIGKILL)


class WithoutSnapshot:
    """A ledger whose snapshots are gone, or of an earlier clew."""

    def __init__(self, reader: Reader) -> None:
        self.read = reader.read

    def latest_snapshot(self, _goal: str, _version: int) -> None:
        return None


def in_process(home: Home, name: str, found: Recorder) -> None:
    """Time the fold of a goal's state, from a snapshot and from nothing; weigh snapshot and `state.json`."""
    with Reader.open(home.folder / "state" / "ledger.db") as reader:
        found.time(f"{name}: load", lambda: load_state(reader, grown.GOAL))
        if snapshot := reader.latest_snapshot(grown.GOAL, STATE_VERSION):
            found.add(f"{name}: snapshot", "kB", len(snapshot[1]) / 1000)
        bare: Any = WithoutSnapshot(reader)
        found.time(f"{name}: fold of all", lambda: load_state(bare, grown.GOAL))
    shown = home.folder / "workspaces" / "grow" / FOLDER / "state.json"
    found.add(f"{name}: state.json", "kB", shown.stat().st_size / 1000)


def ask(homes: Homes, goal: str, options: runner.Options, found: Recorder) -> None:
    """Time the commands on each home, in turns, without a daemon."""
    for _ in range(options.times):
        for command in COMMANDS:
            for name, home in homes.items():
                asked = (goal if name != EMPTY else "one",) if command == "history" else ()
                line, output = home.command(command, *asked), {"stdout": subprocess.DEVNULL}
                run = subprocess.run
                found.time(f"{name}: {command}", lambda: run(line, check=True, **output))  # noqa: B023


def text(result: Result) -> tuple[str, ...]:
    """Return the tables of a run."""
    live, over = (
        {f"{n} {kind}": f"{n:,} {kind}" for n in result.facts[kind]}
        for kind in ("actions", "goals")
    )
    tables = [
        page.grid(result.series, kinds, homes, name="{column}: {row}")
        for kinds, homes in (
            (OF_ACTIONS, live),
            (OF_GOALS, over),
            (COMMANDS, {EMPTY: EMPTY} | live | over),
        )
    ]
    return *tables, result.source


def made(folder: Path, kind: str, count: int, config: str) -> Home:
    """Make a home with many actions of one goal, with many goals that are over, or with one new goal."""
    state, workspaces = folder / "state", folder / "workspaces"
    (workspaces / "grow").mkdir(parents=True)
    began = time.monotonic()
    asyncio.run(
        {
            "actions": lambda: grown.live_goal(state, count, workspaces / "grow"),
            "goals": lambda: grown.ended_goals(state, count, workspaces),
            "": lambda: grown.idle_goal(state, workspaces / "one"),
        }[kind]()
    )
    print(f"  {count} {kind}: recorded in {time.monotonic() - began:.1f} s", flush=True)
    return Home(folder, config)


def measure(options: runner.Options, found: Recorder) -> dict[str, Any]:
    actions = options.actions or [100, 1_000, 10_000, *(100_000,) * options.full]
    goals = options.goals or ([1_000, 5_000] if options.full else [500])
    config = bench_agent("grow", str(options.steps), "times.txt")
    with disk_folder() as folder:
        empty = {EMPTY: made(folder / "empty", "", 0, config)}
        live, over = (
            {f"{n} {kind}": made(folder / f"{n}-{kind}", kind, n, config) for n in sizes}
            for kind, sizes in (("actions", actions), ("goals", goals))
        )
        try:
            step_rounds(live, options, found)
            start_rounds(over, options, found)
        finally:
            for home in (live | over).values():
                home.stop()
        for name, home in live.items():
            in_process(home, name, found)
        ask(empty | live, grown.GOAL, options, found)
        ask(empty | over, "over-00000", options, found)
    return {"actions": actions, "goals": goals}


if __name__ == "__main__":
    runner.main(
        measure,
        full=(False, "up to 100,000 actions and 5,000 goals (some minutes)"),
        times=(3, "restarts and calls"),
        steps=(100, "steps after each start"),
        actions=([], "other sizes"),
        goals=([], "other numbers of goals"),
    )
