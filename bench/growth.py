"""What grows with the record: a step, memory, `state.json`, a snapshot, recovery, commands: python -m bench.growth.

Homes are made (`bench.grown`) with many recorded actions of one goal in progress, or many goals that are over. A real
daemon continues each, is killed with SIGKILL and started again, in turns; so are the commands, beside an empty
home.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
from bench import figures, grown, page, plots
from bench.figures import Recorder, Series
from bench.home import Home, bench_agent, disk_folder, wait_for
from bench.processes import pss_mb

from clew_daemon.record.store import load_state
from clew_shared.ledger import Reader
from clew_shared.record.snapshot import STATE_VERSION, compressed, decompress, dump
from clew_shared.text.redact import redacted
from clew_shared.views.contextdir import FOLDER, ContextDir
from clew_shared.views.publish import state_view

COMMANDS = ("status", "history", "loops")
EMPTY = "an empty home"
TIMES = 5  # what is timed in this process


def step_rounds(homes: dict[str, Home], options: argparse.Namespace, found: Recorder) -> None:
    """Start each home's daemon, let its agent step, kill it, in turns; the first round is not counted."""
    for number in range(options.times + 1):
        for name, home in homes.items():
            times = home.folder / "workspaces" / "grow" / "times.txt"
            hellos = lines(times, "hello")
            home.start()
            wait_for(lambda: len(lines(times, "hello")) > len(hellos))  # noqa: B023 - at once
            if number:
                started = recovery(home, name, found)
                at_work = float(lines(times, "hello")[-1].split()[2])
                found.add(f"{name}: at work again", "ms", (at_work - started) * 1000)
            wait_for(lambda: lines(times)[-1] == "end", 120)  # noqa: B023 - at once
            if number:
                steps = lines(times, "step")[-options.steps :]
                took = Series("", "µs", [float(line.split()[2]) * 1e6 for line in steps])
                found.add(f"{name}: step", "µs", *took.values)
                found.add(f"{name}: step, p99", "µs", took.quantile(0.99))
            weigh(home, name, found)
            home.stop(signal.SIGKILL)


def start_rounds(homes: dict[str, Home], options: argparse.Namespace, found: Recorder) -> None:
    """Start and kill the daemons of homes whose goals are over."""
    for _ in range(options.times):
        for name, home in homes.items():
            home.start()
            recovery(home, name, found)
            weigh(home, name, found)
            home.stop(signal.SIGKILL)


def recovery(home: Home, name: str, found: Recorder) -> float:
    """Add how long the last start took; return its moment."""
    at = {e["event"]: e["at"] for e in home.events()}
    found.add(f"{name}: recovery", "ms", (at["daemon.ready"] - at["daemon.started"]) * 1000)
    return float(at["daemon.started"])


def lines(path: Path, begin: str = "") -> list[str]:
    text = path.read_text() if path.exists() else ""
    return [line for line in text.splitlines() or [""] if line.startswith(begin)]


def weigh(home: Home, name: str, found: Recorder) -> None:
    found.add(f"{name}: daemon", "MB", pss_mb([psutil.Process(home.pid)]))


class WithoutSnapshot:
    """A ledger whose snapshots are gone, or of an earlier clew."""

    def __init__(self, reader: Reader) -> None:
        self.read = reader.read

    def latest_snapshot(self, _goal: str, _version: int) -> None:
        return None


def in_process(home: Home, name: str, found: Recorder) -> None:
    """Time what a daemon does with the state: fold from a snapshot and from nothing, dump it, publish it."""
    workspace = home.folder / "workspaces" / "grow"
    with Reader.open(home.folder / "state" / "ledger.db") as reader:
        state = found.time(f"{name}: load", lambda: load_state(reader, grown.GOAL))
        if snapshot := reader.latest_snapshot(grown.GOAL, STATE_VERSION):
            found.add(f"{name}: snapshot", "kB", len(snapshot[1]) / 1000)
            found.add(f"{name}: snapshot behind", "events", state.seq - snapshot[0])
        bare = WithoutSnapshot(reader)
        found.time(f"{name}: fold of all", lambda: load_state(bare, grown.GOAL))  # type: ignore[arg-type]
    for _ in range(TIMES):
        dumped = found.time(f"{name}: dump", lambda: dump(state))
        body = found.time(f"{name}: pack", lambda: compressed(dumped))  # noqa: B023 - at once
        found.time(f"{name}: decompress", lambda: decompress(body))  # noqa: B023 - at once
        began = time.perf_counter()
        view = found.time(f"{name}: view", lambda: state_view(state))
        ContextDir(str(workspace)).rebuild(redacted(view), [], [])
        found.add(f"{name}: publish", "ms", (time.perf_counter() - began) * 1000)
    shown = workspace / FOLDER / "state.json"
    found.add(f"{name}: state.json", "kB", shown.stat().st_size / 1000)


def ask(homes: dict[str, Home], goal: str, options: argparse.Namespace, found: Recorder) -> None:
    """Time the commands on each home, in turns, without a daemon."""
    for _ in range(options.times):
        for command in COMMANDS:
            for name, home in homes.items():
                asked = (goal if name != EMPTY else "one",) if command == "history" else ()
                line, output = home.command(command, *asked), {"stdout": subprocess.DEVNULL}
                run = subprocess.run
                found.time(f"{name}: {command}", lambda: run(line, check=True, **output))  # noqa: B023


CURVES = {
    "at work again": "clew: a killed daemon's start to its worker's first word",
    "history": "clew history",
    "load": "a goal's state, from its snapshot and what follows",
    "fold of all": "a goal's state without a snapshot",
}
READY = "from `daemon.started` (Python and imports done) to `daemon.ready`"
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
    "recovery": READY,
    "at work again": "from `daemon.started` to the worker's first word",
    "load": "of it, the goal's state",
    "fold of all": "the goal's state without a snapshot",
}
OF_GOALS = {"recovery": READY, "daemon": "the daemon's memory (PSS)"}
OF_COMMANDS = {command: f"`clew {command}`" for command in COMMANDS}


def text(kept: figures.Kept) -> tuple[str, ...]:
    """Return the tables of a run."""
    series, facts = kept[1], kept[0]["facts"]
    live, over = [f"{n} actions" for n in facts["actions"]], [f"{n} goals" for n in facts["goals"]]

    def table(kinds: dict[str, str], names: list[str]) -> str:
        heads = [f"{int(n.split()[0]):,} {n.split()[1]}" if n != EMPTY else n for n in names]
        cells = {kind: [series.get(f"{name}: {kind}", "") for name in names] for kind in kinds}
        return page.table(["", *heads], [[kinds[kind], *row] for kind, row in cells.items()])

    return (
        table(OF_ACTIONS, live),
        table(OF_GOALS, over),
        table(OF_COMMANDS, [EMPTY, *live, *over]),
        page.under(kept[0]),
        page.image("What a long record costs", "growth"),
    )


def write(kept: figures.Kept) -> None:
    page.write("growth", *text(kept))
    sizes, series = kept[0]["facts"]["actions"], kept[1]
    curves: plots.Curves = {
        label: [(n, series[f"{n} actions: {kind}"].median) for n in sizes]
        for kind, label in CURVES.items()
    }
    plots.lines("growth", "What a long record costs", "recorded actions", "ms", curves)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    full = "up to 100,000 actions and 5,000 goals (some minutes)"
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--times", type=int, default=3, help="restarts and calls (3)")
    parser.add_argument("--steps", type=int, default=100, help="steps after each start (100)")
    parser.add_argument("--actions", type=int, nargs="*", help="other sizes")
    parser.add_argument("--goals", type=int, nargs="*", help="other numbers of goals")
    homes = "use the homes in this folder; made if absent, and not removed"
    parser.add_argument("--homes", type=Path, help=homes)
    parser.add_argument("--make", action="store_true", help="only make the homes")
    parser.add_argument("--print", action="store_true", help="save nothing, write no page")
    options = parser.parse_args()
    if options.actions is None:
        options.actions = [100, 1_000, 10_000, *(50_000, 100_000) * options.full]
    if options.goals is None:
        options.goals = [1_000, 5_000] if options.full else [500]
    return options


def made(folder: Path, options: argparse.Namespace) -> dict[str, Home]:
    """Make the homes that do not exist yet."""
    config = bench_agent("grow", str(options.steps), "times.txt")
    sizes = [("actions", n) for n in options.actions] + [("goals", n) for n in options.goals]
    homes = {}
    for kind, count in [("", 0), *sizes]:
        name = f"{count} {kind}" if kind else EMPTY
        home = folder / name.replace(" ", "-")
        exists = home.exists()
        home.mkdir(parents=True, exist_ok=True)
        homes[name] = Home(home, config)
        if exists:
            continue
        began, state, workspaces = time.monotonic(), home / "state", home / "workspaces"
        if kind == "actions":
            (workspaces / "grow").mkdir(parents=True)
            asyncio.run(grown.live_goal(state, count, workspaces / "grow"))
        elif kind == "goals":
            asyncio.run(grown.ended_goals(state, count, workspaces))
        else:
            asyncio.run(grown.idle_goal(state, workspaces / "one"))
        print(f"  {name}: recorded in {time.monotonic() - began:.1f} s")
    return homes


def main() -> None:
    options = parsed()
    with disk_folder() as folder:
        homes = made(options.homes or folder, options)
        if not options.make:
            measure(homes, options)


def measure(homes: dict[str, Home], options: argparse.Namespace) -> None:
    before, found = figures.conditions(), Recorder()
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
    series = list(found.series.values())
    if options.print:
        print(*(f"{one.name:50} {one}" for one in series), sep="\n")
        return
    facts = {"actions": options.actions, "goals": options.goals}
    write(figures.save("growth", figures.command("growth"), before, series, **facts))


if __name__ == "__main__":
    main()
