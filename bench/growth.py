"""What grows with the record: a step, the daemon's memory, `state.json`, a snapshot, recovery, the command line.

Homes are made (`bench.grown`) whose ledger has so many recorded actions of one goal in progress, or so many goals
that are over. A real daemon goes on with each, is killed with SIGKILL and started again, one size after the other,
in turns; so are the commands, beside an empty home.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from bench import figures, grown, page, plots
from bench.figures import Series
from bench.home import Home, command_agent, wait_for

from clew_daemon.record.store import load_state
from clew_shared.ledger import Reader
from clew_shared.record.snapshot import STATE_VERSION, compressed, decompress, dump
from clew_shared.text.redact import redacted
from clew_shared.views.contextdir import FOLDER, ContextDir
from clew_shared.views.publish import state_view

AGENT = Path(__file__).with_name("stepping_agent.py")
COMMANDS = ("status", "history", "loops")
EMPTY = "an empty home"
TIMES = 5  # what is timed in this process


class Figures:
    """The series of one run, by name."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}

    def add(self, name: str, unit: str, *values: float) -> None:
        self.series.setdefault(name, Series(name, unit, [])).values.extend(values)


def step_rounds(homes: dict[str, Home], options: argparse.Namespace, found: Figures) -> None:
    """Start each home's daemon, let its agent step, kill it: one after the other, so many times."""
    for number in range(options.times + 1):
        for name, home in homes.items():
            times = home.folder / "workspaces" / "grow" / "times.txt"
            restarted(home, times, name, found if number else None)
            wait_for(lambda times=times: lines(times)[-1] == "end", 120)
            if number:
                took = [
                    float(line.split()[2]) * 1e6 for line in lines(times)[-1 - options.steps : -1]
                ]
                step = Series("", "µs", took)
                found.add(f"{name}: step", "µs", *step.values)
                found.add(f"{name}: step, p99", "µs", step.quantile(0.99))
            weigh(home, name, found)
            home.stop(signal.SIGKILL)


def restarted(home: Home, times: Path, name: str, found: Figures | None) -> None:
    """Start the daemon; measure from its own start to its being ready, and to the worker's first word."""
    greeted = sum(line.startswith("hello") for line in lines(times))
    home.start()
    wait_for(lambda: sum(line.startswith("hello") for line in lines(times)) > greeted)
    if found is None:
        return
    at = {e["event"]: e["timestamp"] for e in log_of(home)}
    hello = next(line for line in reversed(lines(times)) if line.startswith("hello"))
    started, ready = moment(at["daemon.started"]), moment(at["daemon.ready"])
    found.add(f"{name}: recovery", "ms", (ready - started) * 1000)
    found.add(f"{name}: at work again", "ms", (float(hello.split()[2]) - started) * 1000)


def log_of(home: Home) -> list[dict[str, Any]]:
    """The log's lines, as far as they are whole."""
    whole = [line for line in home.log.read_text().splitlines() if line.endswith("}")]
    return [json.loads(line) for line in whole if line.startswith("{")]


def moment(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def lines(path: Path) -> list[str]:
    return (path.read_text().splitlines() if path.exists() else []) or [""]


def weigh(home: Home, name: str, found: Figures) -> None:
    assert home.daemon is not None
    info = psutil.Process(home.daemon.pid).memory_full_info()
    found.add(f"{name}: daemon", "MB", info.pss / 1e6)


def in_process(home: Home, name: str, found: Figures) -> None:
    """Time what a daemon does with the state: fold from a snapshot and from nothing, keep it, publish it."""
    workspace = home.folder / "workspaces" / "grow"
    with Reader.open(home.folder / "state" / "ledger.db") as reader:
        began = time.perf_counter()
        state = load_state(reader, grown.GOAL)
        found.add(f"{name}: load", "ms", (time.perf_counter() - began) * 1000)
        snapshot = reader.latest_snapshot(grown.GOAL, STATE_VERSION)
        if snapshot:
            found.add(f"{name}: snapshot", "kB", len(snapshot[1]) / 1000)
            found.add(f"{name}: snapshot behind", "events", state.seq - snapshot[0])
        began = time.perf_counter()
        load_state(WithoutSnapshot(reader), grown.GOAL)  # type: ignore[arg-type]
        found.add(f"{name}: fold of all", "ms", (time.perf_counter() - began) * 1000)
    for _ in range(TIMES):
        began = time.perf_counter()
        dumped = dump(state)
        done = time.perf_counter()
        body = compressed(dumped)
        found.add(f"{name}: dump", "ms", (done - began) * 1000)
        found.add(f"{name}: pack", "ms", (time.perf_counter() - done) * 1000)
        began = time.perf_counter()
        decompress(body)
        found.add(f"{name}: unpack", "ms", (time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        view = state_view(state)
        found.add(f"{name}: view", "ms", (time.perf_counter() - began) * 1000)
        ContextDir(str(workspace)).rebuild(redacted(view), [], [])
        found.add(f"{name}: publish", "ms", (time.perf_counter() - began) * 1000)
    shown = workspace / FOLDER / "state.json"
    found.add(f"{name}: state.json", "kB", shown.stat().st_size / 1000)


class WithoutSnapshot:
    """A ledger whose snapshots are gone, or of an earlier clew."""

    def __init__(self, reader: Reader) -> None:
        self.read = reader.read

    def latest_snapshot(self, _goal: str, _version: int) -> None:
        """Give none."""


def start_rounds(homes: dict[str, Home], options: argparse.Namespace, found: Figures) -> None:
    """Start and kill the daemons of homes whose goals are over."""
    for _ in range(options.times):
        for name, home in homes.items():
            home.start()
            at = {e["event"]: e["timestamp"] for e in log_of(home)}
            took = moment(at["daemon.ready"]) - moment(at["daemon.started"])
            found.add(f"{name}: recovery", "ms", took * 1000)
            weigh(home, name, found)
            home.stop(signal.SIGKILL)


def ask(homes: dict[str, Home], goal: str, options: argparse.Namespace, found: Figures) -> None:
    """Time the commands on each home, in turns, without a daemon."""
    for _ in range(options.times):
        for command in COMMANDS:
            for name, home in homes.items():
                asked = (goal if name != EMPTY else "one",) if command == "history" else ()
                began = time.perf_counter()
                line = home.command(command, *asked)
                subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
                found.add(f"{name}: {command}", "ms", (time.perf_counter() - began) * 1000)


def write() -> None:
    """Write the tables and the plots of the last run."""
    kept, series = figures.load("growth")
    sizes, goals = kept["facts"]["actions"], kept["facts"]["goals"]

    def table(kinds: dict[str, str], names: list[str]) -> str:
        rows = [
            [told, *(str(series.get(f"{name}: {kind}", "")) for name in names)]
            for kind, told in kinds.items()
        ]
        return page.table(
            ["", *(f"{int(n.split()[0]):,} {n.split()[1]}" if n != EMPTY else n for n in names)],
            rows,
        )

    asked = {command: f"`clew {command}`" for command in COMMANDS}
    live, over = [f"{n} actions" for n in sizes], [f"{n} goals" for n in goals]
    text = [
        table(OF_ACTIONS, live),
        table(OF_GOALS, over),
        table(asked, [EMPTY, *live, *over]),
        page.under(kept),
        "![What a long record costs](performance/growth.svg)",
    ]
    page.write("growth", "\n\n".join(text))
    curves = {
        told: [(n, series[f"{n} actions: {kind}"].median) for n in sizes]
        for kind, told in CURVES.items()
    }
    plots.lines("growth", "What a long record costs", "recorded actions", "ms", curves, log="xy")


CURVES = {
    "at work again": "clew: a killed daemon's start to its worker's first word",
    "history": "clew history",
    "load": "a goal's state, from its snapshot and what follows",
    "fold of all": "a goal's state without a snapshot",
}
OF_ACTIONS = {
    "step": "a step, p50 (5 to 95 %)",
    "step, p99": "a step, p99",
    "daemon": "the daemon's memory (PSS)",
    "state.json": "`state.json`",
    "view": "its view, on the daemon's loop",
    "publish": "its view, redaction and writing",
    "snapshot": "a snapshot",
    "dump": "a snapshot, on the daemon's loop",
    "pack": "its packing, in a thread",
    "snapshot behind": "how far a snapshot was behind",
    "recovery": "from `daemon.started` (Python and imports done) to `daemon.ready`",
    "at work again": "from `daemon.started` to the worker's first word",
    "load": "of it, the goal's state",
    "fold of all": "the goal's state without a snapshot",
}
OF_GOALS = {
    "recovery": "from `daemon.started` (Python and imports done) to `daemon.ready`",
    "daemon": "the daemon's memory (PSS)",
}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    full = "up to 100,000 actions and 5,000 goals (some minutes)"
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--times", type=int, default=3, help="restarts and calls (3)")
    parser.add_argument("--steps", type=int, default=100, help="steps after each start (100)")
    parser.add_argument("--actions", type=int, nargs="*", help="other sizes")
    parser.add_argument("--goals", type=int, nargs="*", help="other numbers of goals")
    parser.add_argument(
        "--homes", type=Path, help="use the homes in this folder; made if absent, kept"
    )
    parser.add_argument("--make", action="store_true", help="only make the homes")
    options = parser.parse_args()
    if options.actions is None:
        options.actions = [100, 1_000, 10_000, *(50_000, 100_000) * options.full]
    if options.goals is None:
        options.goals = [1_000, 5_000] if options.full else [500]
    return options


def made(folder: Path, options: argparse.Namespace) -> dict[str, Home]:
    """Make the homes that are not there yet."""
    config = grown.CONFIG + command_agent("bench", AGENT, str(options.steps), "times.txt")
    sizes = [("actions", n) for n in options.actions] + [("goals", n) for n in options.goals]
    homes = {}
    for kind, count in [("", 0), *sizes]:
        name = f"{count} {kind}" if kind else EMPTY
        home = folder / name.replace(" ", "-")
        there = home.exists()
        home.mkdir(exist_ok=True)
        homes[name] = Home(home, config)
        if there:
            continue
        began = time.monotonic()
        workspaces = home / "workspaces"
        match kind:
            case "actions":
                (workspaces / "grow").mkdir(parents=True)
                making = grown.live_goal(home / "state", count, workspaces / "grow")
            case "goals":
                making = grown.ended_goals(home / "state", count, workspaces)
            case _:
                making = grown.idle_goal(home / "state", workspaces / "one")
        asyncio.run(making)
        print(f"  {name}: recorded in {time.monotonic() - began:.1f} s")
    return homes


def main() -> None:
    options = parsed()
    where = os.environ.get("BENCH_DIR", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="clew-bench-", dir=where) as made_here:
        folder = options.homes or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        homes = made(folder, options)
        if not options.make:
            measure(homes, options)


def measure(homes: dict[str, Home], options: argparse.Namespace) -> None:
    before, found = figures.conditions(), Figures()
    print(f"load {os.getloadavg()[0]:.2f}")
    live = {name: home for name, home in homes.items() if "actions" in name}
    over = {name: home for name, home in homes.items() if "goals" in name}
    try:
        step_rounds(live, options, found)
        start_rounds(over, options, found)
    finally:
        for home in homes.values():
            home.stop()
    for name, home in live.items():
        in_process(home, name, found)
    empty = {EMPTY: homes[EMPTY]}
    ask(empty | live, grown.GOAL, options, found)
    ask(empty | over, "over-00000", options, found)
    command = figures.command("growth")
    series = list(found.series.values())
    figures.save("growth", command, before, series, actions=options.actions, goals=options.goals)
    write()


if __name__ == "__main__":
    main()
