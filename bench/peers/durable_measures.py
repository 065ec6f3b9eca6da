"""What is measured of durable steps: cost and rate, syncs, recovery after SIGKILL, launch, idle cost, and failures."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from bench.figures import Recorder
from bench.home import disk_folder, wait_for
from bench.peers.durable_page import AT_ONCE, SIZES
from bench.peers.options import Options
from bench.peers.steppers import CONFIG, HERE, TIMES, ClewProgram, Running, Way, python, running
from bench.processes import spent

LIMIT = {"clew": 10000, "dbos-two": 100, "langgraph-two": 100}  # finished steps; else 3,000
TURNS = 5
SYNC_CALLS = "fsync,fdatasync,sync_file_range,msync"
_SYNC = re.compile(rf"\b({SYNC_CALLS.replace(',', '|')})\((?!.*resumed)")
IMPORTS = {  # of the main ways
    "clew": "import clew_daemon.app.lifecycle",  # what a daemon imports; its workers are forked
    "dbos": "import dbos",
    "langgraph": "import langgraph.graph, langgraph.checkpoint.sqlite",
}
IDLE_S, FAIL_S = 10.0, 120
HEARTBEAT_S = 10  # clew's default
ENDLESS = 10**9  # steps
AT_ONCE_AGAIN = CONFIG + "window_s = 0.1\n"  # each crash is the first in its window


def _clew(config: str = CONFIG, mode: str = "durable") -> Way:
    return Way("clew", "clew", partial(ClewProgram, config=config, mode=mode))


@dataclass
class StepBench:
    """The ways to do a step that are measured; each method records series and may return facts."""

    ways: dict[str, Way]
    options: Options
    found: Recorder

    @property
    def main(self) -> dict[str, Way]:
        """One way of each peer."""
        return {name: self.ways[name] for name in IMPORTS if name in self.ways}

    def growth(self) -> None:
        """Microseconds a step, and megabytes on the disk, by the number of finished steps of one workflow."""
        with running(self.ways) as everyone:
            done = dict.fromkeys(everyone, 0)
            for size in SIZES[: 2 if self.options.quick else None]:
                going = {n: one for n, one in everyone.items() if size <= LIMIT.get(n, 3000)}
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

    def rates(self) -> None:
        """Steps a second of several workflows at once, of one program each; a value for each turn."""
        most = 8 if self.options.quick else 64
        wanted = [(n, many) for n in AT_ONCE if n in self.ways for many in AT_ONCE[n]]
        counts = {f"{name}: {many} at once": many for name, many in wanted if many <= most}
        programs = {name: self.ways[name.partition(":")[0]] for name in counts}
        with running(programs, counts) as everyone:
            for one in everyone.values():
                one.steps(10)
            for _ in range(self.options.count(20, 5)):
                for name, one in everyone.items():
                    steps, began = 10 if counts[name] > 8 else 25, time.monotonic()
                    one.steps(steps)
                    rate = steps * counts[name] / (time.monotonic() - began)
                    self.found.add(name, "steps a second", rate)

    def syncs(self, steps: int = 50) -> dict[str, Any]:
        """Calls that wait for the disk, a step; return the settings that the live connections report."""
        pragmas = {}
        for name, way in self.ways.items():
            with running({name: way}) as everyone:
                one = everyone[name]
                one.steps(10)
                for message in one.wires[0].skipped:
                    if seen := message.get("pragmas"):
                        pragmas[name] = ", ".join(f"{k} = {v}" for k, v in seen.items())
                calls = _traced(one, steps)
                if calls is not None:
                    self.found.add(f"{name}: syncs", "calls a step", calls / steps)
        return {"pragmas": pragmas}

    def recovery(self) -> dict[str, Any]:
        """Milliseconds until the first new step by number of steps; return what was lost or done twice, and the seed.

        A program is killed at a random moment during its steps, launched again, and continues with the same workflow.
        """
        seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
        chance, wanted = random.Random(seed), self.main
        if "clew" in wanted:
            wanted["clew-worker"] = _clew(AT_ONCE_AGAIN)
        counts = {name: Counter[str]() for name in wanted}
        sizes = {100: self.options.count(20, 4), 1000: self.options.count(10, 2)}
        for size in list(sizes)[: 1 if self.options.quick else None]:
            with running(wanted) as everyone:
                for one in everyone.values():
                    one.steps(size)
                for _ in range(sizes[size]):
                    for name, one in everyone.items():
                        took = _recover(one, counts[name], chance, worker="worker" in name)
                        self.found.add(f"{name}: recovery at {size}", "ms", took)
                for name, one in everyone.items():
                    counts[name].update(_carried_out(one))
        return {"counts": {name: dict(of) for name, of in counts.items()}, "seed": seed}

    def launches(self) -> None:
        """Milliseconds from launch on an empty folder to the first step done, and of the imports alone."""
        for turn in range(self.options.count(20, 3)):
            for name, way in self.main.items():
                began = time.monotonic()
                with running({name: way}) as everyone:
                    everyone[name].steps(1)
                    self.found.add(f"{name}: launch", "ms", (time.monotonic() - began) * 1000)
                if turn % 3 == 0:
                    program = sys.executable if name == "clew" else python(name)
                    line, run = [program, "-c", IMPORTS[name]], partial(subprocess.run, check=True)
                    self.found.time(f"{name}: imports", lambda: run(line, timeout=60))  # noqa: B023

    def idle(self) -> None:
        """PSS in MB and CPU in thousandths of a core, with a workflow that waits after a hundred steps."""
        with running(self.main) as everyone:
            for one in everyone.values():
                one.steps(100)
            time.sleep(2)
            before = {n: spent(one.program.processes()).cpu_s for n, one in everyone.items()}
            began = time.monotonic()
            time.sleep(2 if self.options.quick else IDLE_S)
            lasted = time.monotonic() - began
            for name, one in everyone.items():
                cpu = (spent(one.program.processes()).cpu_s - before[name]) / lasted * 1000
                self.found.add(f"{name}: idle CPU", "thousandths of a core", cpu)
                for of, mb in _pss_mb(one).items():
                    self.found.add(f"{name}: PSS{of}", "MB", mb)

    def hangs(self) -> dict[str, Any]:
        """Stop the process that does the steps (SIGSTOP); return the s until its workflow did the next one, or None."""
        timeout_s = 3 if self.options.quick else HEARTBEAT_S
        found: dict[str, float | None] = {}
        wanted = self.main
        if "clew" in wanted:
            wanted["clew"] = _clew(f"{CONFIG}[heartbeat]\ntimeout_s = {timeout_s}\n")
        with running(wanted) as everyone:
            for one in everyone.values():
                one.steps(10)
                one.program.agents()[0].send_signal(signal.SIGSTOP)
                one.wires[0].ask(1)
            began = time.monotonic()
            for name, one in everyone.items():
                wire = one.accept_within(began + timeout_s + 5 - time.monotonic())
                found[name] = None
                if wire:
                    one.wires.append(wire)
                    wire.ask(1, tell=True)
                    found[name] = float(wire.hear("done")["at"] - began)
        return {"hung_until_s": found}

    def failing(self) -> dict[str, Any]:
        """Try one failing step 500 times; return what was carried out, and what stopped it."""
        facts: dict[str, dict[str, Any]] = {}
        for name in [name for name in self.main if name != "clew"]:
            with disk_folder() as folder:
                script = [python(name), str(HERE / f"steps_{name}.py"), str(folder)]
                line = [*script, "--fail", str(TIMES)]
                done = subprocess.run(line, check=True, capture_output=True, timeout=FAIL_S)
            facts[name] = json.loads(done.stdout.splitlines()[-1])
        if "clew" in self.ways:
            facts["clew"] = _clew_failing()
        return {"failing": facts}


def _clew_failing() -> dict[str, Any]:
    with running({"clew": _clew(mode="failing")}) as everyone:
        tries = [message for message in everyone["clew"].wires[0].rest() if "tried" in message]
        (goal,) = everyone["clew"].program.asked("status")["goals"]
    answers = Counter(one_try["tried"] for one_try in tries)
    return {
        "tried": len(tries),
        "ran": answers.pop("ran", 0),
        "refused": dict(answers),
        "escalated_to": [level for one_try in tries if (level := one_try["escalated_to"])],
        "goal": goal["status"],
    }


def _traced(one: Running, steps: int) -> int | None:
    """Count them by strace, attached to the process that writes; None where it is missing or may not."""
    pid = one.program.processes()[0].pid
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as messages:
        line = ["strace", "-f", "-e", f"trace={SYNC_CALLS}", "-o", out.name, "-p", str(pid)]
        try:
            tracer = subprocess.Popen(line, stderr=Path(messages.name).open("w"))  # noqa: SIM115
        except FileNotFoundError:
            return None
        try:
            text = Path(messages.name).read_text
            wait_for(lambda: tracer.poll() is not None or "attached" in text(), 20)
            if tracer.poll() is not None:
                return None
            one.steps(steps)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(20)
        return sum(bool(_SYNC.search(line)) for line in Path(out.name).read_text().splitlines())


def _recover(one: Running, counts: Counter[str], chance: random.Random, *, worker: bool) -> float:
    """Kill it during its steps and let it continue; milliseconds until its first new step."""
    one.wires[0].ask(ENDLESS, tell=True)
    last = one.wires[0].hear("done")["done"]
    time.sleep(chance.uniform(0, 0.01))
    began = time.monotonic()
    if worker:  # the daemon launches the next one
        (agent,) = one.program.agents()
        began = time.monotonic()
        agent.kill()
    else:
        one.program.kill()
    last = max([last, *(message["done"] for message in one.wires[0].rest() if "done" in message)])
    if worker:
        one.wires[0].close()
    else:
        one.kill()
        began = one.start()
    wire = one.accept()
    one.wires = [wire]
    wire.ask(1, tell=True)
    first = wire.hear("done")
    wire.hear("took_s")
    counts["kills"] += 1
    counts["records lost"] += first["done"] <= last
    counts["told of a step under way"] += any("interrupted" in message for message in wire.skipped)
    return float(first["at"] - began) * 1000


def _carried_out(one: Running) -> dict[str, int]:
    """Count the steps that were carried out never, and more than once."""
    one.kill()
    (path,) = one.files(one.program.EFFECTS)
    times = Counter(int(step) for step in path.read_text().split())
    return {
        "steps": len(times),
        "never carried out": max(times) + 1 - len(times),
        "carried out twice": sum(count > 1 for count in times.values()),
    }


def _pss_mb(one: Running) -> dict[str, float]:
    """Return that of the whole tree; of clew also that of the daemon, and what one more workflow adds."""
    try:
        pss = [process.memory_full_info().pss / 1e6 for process in one.program.processes()]
    except psutil.AccessDenied:  # clew's processes show it to root alone
        return {}
    if one.way.peer != "clew":
        return {"": sum(pss)}
    return {"": sum(pss), " of the daemon": pss[0], " of nursery and worker": sum(pss[1:])}
