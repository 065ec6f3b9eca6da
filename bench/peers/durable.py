"""A durable step, and recovery after SIGKILL: python -m bench.peers.durable [--help].

clew, DBOS on SQLite, LangGraph with its SQLite checkpointer, with the same step for all: decide on an action, carry it
out (append its number to a file), record its outcome. clew records the decision before it is acted on, too; of the
others this is measured as a way of its own.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import psutil
from bench import runner
from bench.figures import Recorder
from bench.peers import durable_page
from bench.peers.durable_page import AT_ONCE, SIZES
from bench.peers.steppers import (
    CONFIG,
    PACKAGES,
    ClewProgram,
    StepProgram,
    Way,
    python,
    running,
    ways,
)
from bench.processes import pss_mb, spent

PEERS = ("clew", *PACKAGES)
LIMIT = {"clew": 10000, "dbos-two": 100, "langgraph-two": 100}  # finished steps; else 3,000
TURNS = 5
IDLE_S = 10.0
ENDLESS = 10**9  # steps
AT_ONCE_AGAIN = CONFIG + "window_s = 0.1\n"  # each crash is the first in its window


def measure(options: runner.Options, found: Recorder) -> dict[str, Any]:
    """Measure the chosen peers; return the facts."""
    options.print |= options.quick or set(options.only) != set(PEERS)
    chosen, missing = ways(options.only)
    bench = StepBench(chosen, options, found)
    facts: dict[str, Any] = {}
    for part in (bench.growth, bench.rates, bench.recovery, bench.launches, bench.idle):
        print(f"{time.strftime('%H:%M:%S')} durable: {part.__name__}", file=sys.stderr, flush=True)
        facts |= part() or {}
    return facts | {"missing": missing, "versions": _versions(chosen)}


def _versions(found: dict[str, Way]) -> dict[str, str]:
    versions = {"clew": version("clew")}
    ask = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    for peer, packages in PACKAGES.items():
        if peer in found:
            line = [python(peer), "-c", ask, *packages]
            done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=60)
            versions |= dict(zip(packages, done.stdout.split(), strict=True))
    return versions


@dataclass
class StepBench:
    """The ways to do a step that are measured; each method records series and may return facts."""

    ways: dict[str, Way]
    options: runner.Options
    found: Recorder

    def count(self, usual: int, quick: int) -> int:
        return int(self.options.rounds or (quick if self.options.quick else usual))

    @property
    def main(self) -> dict[str, Way]:
        """One way of each peer."""
        return {name: self.ways[name] for name in PEERS if name in self.ways}

    def growth(self) -> dict[str, Any]:
        """Microseconds a step, and megabytes on the disk, by the number of finished steps of one workflow.

        Return the settings of the disk that the peers' live connections report.
        """
        with running(self.ways) as programs:
            done = dict.fromkeys(programs, 0)
            for size in SIZES[: 2 if self.options.quick else None]:
                going = {n: one for n, one in programs.items() if size <= LIMIT.get(n, 3000)}
                for name, one in going.items():
                    one.steps(size - done[name])
                    done[name] = size
                    self.found.add(f"{name}: file at {size}", "MB", one.size_mb())
                for turn in range(1 if size == SIZES[0] else TURNS):
                    # back and forth, so that none always follows the same other one
                    for name in list(going)[:: -1 if turn % 2 else 1]:
                        took = going[name].steps(20)
                        done[name] += len(took)
                        self.found.add(f"{name}: step at {size}", "µs", *(s * 1e6 for s in took))
            skipped = {name: one.wires[0].skipped for name, one in programs.items()}
        reported = {name: seen[0]["pragmas"] for name, seen in skipped.items() if seen}
        return {
            "pragmas": {
                name: ", ".join(f"{pragma} = {value}" for pragma, value in values.items())
                for name, values in reported.items()
            }
        }

    def rates(self) -> None:
        """Steps a second of several workflows at once, of one program each; a value for each turn."""
        most = 8 if self.options.quick else 64
        wanted = [(n, many) for n in AT_ONCE if n in self.ways for many in AT_ONCE[n]]
        counts = {f"{name}: {many} at once": many for name, many in wanted if many <= most}
        at_once = {name: self.ways[name.partition(":")[0]] for name in counts}
        with running(at_once, counts) as programs:
            for one in programs.values():
                one.steps(10)
            for _ in range(self.count(20, 5)):
                for name, one in programs.items():
                    steps, began = 10 if counts[name] > 8 else 25, time.monotonic()
                    one.steps(steps)
                    rate = steps * counts[name] / (time.monotonic() - began)
                    self.found.add(name, "steps a second", rate)

    def recovery(self) -> dict[str, Any]:
        """Milliseconds until the first new step by number of steps; return what was lost or done twice, and the seed.

        A program is killed at a random moment during its steps, launched again, and continues with the same workflow.
        """
        seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
        chance, wanted = random.Random(seed), self.main
        if "clew" in wanted:
            wanted["clew-worker"] = partial(ClewProgram, config=AT_ONCE_AGAIN)
        counts = {name: Counter[str]() for name in wanted}
        sizes = {100: self.count(20, 4), 1000: self.count(10, 2)}
        for size in list(sizes)[: 1 if self.options.quick else None]:
            with running(wanted) as programs:
                for one in programs.values():
                    one.steps(size)
                for _ in range(sizes[size]):
                    for name, one in programs.items():
                        took_ms = _recover(one, counts[name], chance, worker="worker" in name)
                        self.found.add(f"{name}: recovery at {size}", "ms", took_ms)
                for name, one in programs.items():
                    counts[name].update(_carried_out(one))
        return {"counts": {name: dict(of) for name, of in counts.items()}, "seed": seed}

    def launches(self) -> None:
        """Milliseconds from launch on an empty folder to the first step done."""
        for _ in range(self.count(20, 3)):
            for name, way in self.main.items():
                began = time.monotonic()
                with running({name: way}) as programs:
                    programs[name].steps(1)
                    self.found.add(f"{name}: launch", "ms", (time.monotonic() - began) * 1000)

    def idle(self) -> None:
        """PSS in MB and CPU in thousandths of a core, with a workflow that waits after a hundred steps."""
        with running(self.main) as programs:
            for one in programs.values():
                one.steps(100)
            time.sleep(2)
            before = {n: spent(one.processes()).cpu_s for n, one in programs.items()}
            began = time.monotonic()
            time.sleep(2 if self.options.quick else IDLE_S)
            lasted_s = time.monotonic() - began
            for name, one in programs.items():
                cpu = (spent(one.processes()).cpu_s - before[name]) / lasted_s * 1000
                self.found.add(f"{name}: idle CPU", "thousandths of a core", cpu)
                with suppress(
                    psutil.AccessDenied
                ):  # that of clew's processes is shown to root alone
                    self.found.add(f"{name}: PSS", "MB", pss_mb(one.processes()))


def _recover(
    one: StepProgram, counts: Counter[str], chance: random.Random, *, worker: bool
) -> float:
    """Kill it during its steps and let it continue; milliseconds until its first new step."""
    one.wires[0].ask(ENDLESS, tell=True)
    last = one.wires[0].hear("done")["done"]
    time.sleep(chance.uniform(0, 0.01))
    if worker and isinstance(one, ClewProgram):  # the daemon launches the next one
        agent = one.agent()
        began = time.monotonic()
        agent.kill()
    else:
        one.end_processes()
    last = max([last, *(message["done"] for message in one.wires[0].rest() if "done" in message)])
    if worker:
        one.wires[0].close()
    else:
        one.kill()
        began = time.monotonic()
        one.launch()
    one.wires = [one.accept()]
    one.wires[0].ask(1, tell=True)
    first = one.wires[0].hear("done")
    one.wires[0].hear("took_s")
    counts["kills"] += 1
    counts["records lost"] += first["done"] <= last
    reported = any("interrupted" in message for message in one.wires[0].skipped)
    counts["reported as interrupted"] += reported
    return float(first["at"] - began) * 1000


def _carried_out(one: StepProgram) -> dict[str, int]:
    """Count the steps that were carried out never, and more than once."""
    one.kill()
    (path,) = one.folder.glob(one.EFFECTS)
    times = Counter(int(step) for step in path.read_text().split())
    return {
        "steps": len(times),
        "never carried out": max(times) + 1 - len(times),
        "carried out twice": sum(count > 1 for count in times.values()),
    }


if __name__ == "__main__":
    runner.main(
        measure,
        durable_page,
        only=([*PEERS], "these alone; prints only"),
        rounds=(0, "how often each is measured; 0: as usual"),
        quick=(False, "few rounds: some two minutes; prints only"),
    )
