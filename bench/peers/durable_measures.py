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
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from bench.figures import Series
from bench.home import disk_folder, wait_for
from bench.peers.options import Options
from bench.peers.steppers import CONFIG, HERE, TIMES, ClewProgram, Running, Way, python, running
from bench.processes import spent

SIZES = (10, 100, 1000, 3000, 10000)
LIMIT = {"clew": 10000, "dbos-two": 100, "langgraph-two": 100}  # finished steps; else 3,000
TURNS = 5
AT_ONCE = {"clew": (1, 8, 64), "dbos": (1, 8), "dbos-wal": (1, 8), "langgraph-constant": (1, 8)}
SYNC_CALLS = "fsync,fdatasync,sync_file_range,msync"
_SYNC = re.compile(rf"\b({SYNC_CALLS.replace(',', '|')})\((?!.*resumed)")
MAIN = ("clew", "dbos", "langgraph")
IMPORTS = {
    "dbos": "import dbos",
    "langgraph": "import langgraph.graph, langgraph.checkpoint.sqlite",
    "clew": "import clew_daemon.app.lifecycle",  # what a daemon imports; its workers are forked
}
IDLE_S, FAIL_S = 10.0, 120
HEARTBEAT_S = 10  # clew's default
ENDLESS = 10**9  # steps
AT_ONCE_AGAIN = CONFIG + "window_s = 0.1\n"  # each crash is the first in its window
Ways = dict[str, Way]


def _clew(config: str = CONFIG, mode: str = "durable") -> Way:
    return Way("clew", "clew", partial(ClewProgram, config=config, mode=mode))


def _main(ways: Ways) -> Ways:
    return {name: ways[name] for name in MAIN if name in ways}


def growth(ways: Ways, options: Options) -> list[Series]:
    """Microseconds a step, and megabytes on the disk, by the number of finished steps of one workflow."""
    found: list[Series] = []
    with running(*((way, 1) for way in ways.values())) as everyone:
        done = dict.fromkeys(ways, 0)
        for size in SIZES[: 2 if options.quick else None]:
            pairs = zip(ways, everyone, strict=True)
            going = {name: one for name, one in pairs if size <= LIMIT.get(name, 3000)}
            for name, one in going.items():
                one.steps(size - done[name])
                found.append(Series(f"{name}: file at {size}", "MB", [one.size_mb()]))
            for name, values in _in_turns(going, 1 if size == SIZES[0] else TURNS).items():
                done[name] = size + len(values)
                found.append(Series(f"{name}: step at {size}", "µs", [s * 1e6 for s in values]))
    return found


def _in_turns(going: dict[str, Running], turns: int) -> dict[str, list[float]]:
    """Twenty steps each, back and forth, so that none always follows the same other one."""
    took: dict[str, list[float]] = {name: [] for name in going}
    for turn in range(turns):
        for name in list(going)[:: -1 if turn % 2 else 1]:
            took[name] += going[name].steps(20)
    return took


def rates(ways: Ways, options: Options) -> list[Series]:
    """Steps a second of several workflows at once, of one program each; a value for each turn."""
    most = 8 if options.quick else 64
    wanted = [(n, many) for n in AT_ONCE if n in ways for many in AT_ONCE[n] if many <= most]
    found = [Series(f"{name}: {many} at once", "steps a second", []) for name, many in wanted]
    with running(*((ways[name], many) for name, many in wanted)) as everyone:
        for one in everyone:
            one.steps(10)
        for _ in range(options.count(20, 5)):
            for (_, many), one, series in zip(wanted, everyone, found, strict=True):
                steps, began = 10 if many > 8 else 25, time.monotonic()
                one.steps(steps)
                series.values.append(steps * many / (time.monotonic() - began))
    return found


def syncs(ways: Ways, steps: int = 50) -> tuple[list[Series], dict[str, str]]:
    """Calls that wait for the disk, a step; and the settings that the live connections report."""
    found, pragmas = [], {}
    for name, way in ways.items():
        with running((way, 1)) as (one,):
            one.steps(10)
            for message in one.wires[0].skipped:
                if "pragmas" in message:
                    pragmas[name] = ", ".join(f"{k} = {v}" for k, v in message["pragmas"].items())
            calls = _traced(one, steps)
            if calls is not None:
                found.append(Series(f"{name}: syncs", "calls a step", [calls / steps]))
    return found, pragmas


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


def recovery(ways: Ways, options: Options) -> tuple[list[Series], dict[str, dict[str, int]], int]:
    """Milliseconds until the first new step by number of steps, what was lost or done twice, the seed.

    A program is killed at a random moment during its steps, launched again, and continues with the same workflow.
    """
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    chance = random.Random(seed)
    wanted = _main(ways)
    if "clew" in wanted:
        wanted["clew-worker"] = _clew(AT_ONCE_AGAIN)
    found, counts = [], {name: Counter[str]() for name in wanted}
    sizes = ((100, options.count(20, 4)), (1000, options.count(10, 2)))
    for size, turns in sizes[: 1 if options.quick else None]:
        values: dict[str, list[float]] = {name: [] for name in wanted}
        with running(*((way, 1) for way in wanted.values())) as everyone:
            for one in everyone:
                one.steps(size)
            for _ in range(turns):
                for name, one in zip(wanted, everyone, strict=True):
                    took = _recover(one, counts[name], chance, worker="worker" in name)
                    values[name].append(took)
            for name, one in zip(wanted, everyone, strict=True):
                counts[name].update(_carried_out(one))
        found += [Series(f"{name}: recovery at {size}", "ms", v) for name, v in values.items()]
    return found, {name: dict(of) for name, of in counts.items()}, seed


def _recover(one: Running, counts: Counter[str], chance: random.Random, *, worker: bool) -> float:
    """Kill it during its steps and let it continue; milliseconds until its first new step."""
    one.wires[0].ask(ENDLESS, tell=True)
    last = one.wires[0].hear("done")["done"]
    time.sleep(chance.uniform(0, 0.01))
    began = time.monotonic()
    if worker:  # the daemon launches the next one
        (agent,) = one.program.agents()  # type: ignore[attr-defined]
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
    (path,) = one.program.effects()
    times = Counter(int(step) for step in path.read_text().split())
    return {
        "steps": len(times),
        "never carried out": max(times) + 1 - len(times),
        "carried out twice": sum(count > 1 for count in times.values()),
    }


def launches(ways: Ways, options: Options) -> list[Series]:
    """Milliseconds from launch on an empty folder to the first step done, and of the imports alone."""
    wanted = _main(ways)
    first = {name: Series(f"{name}: launch", "ms", []) for name in wanted}
    imports = {name: Series(f"{name}: imports", "ms", []) for name in wanted}
    for turn in range(options.count(20, 3)):
        for name, way in wanted.items():
            began = time.monotonic()
            with running((way, 1)) as (one,):
                one.steps(1)
                first[name].values.append((time.monotonic() - began) * 1000)
            if turn % 3 == 0:
                program = sys.executable if name == "clew" else python(name)
                began = time.monotonic()
                subprocess.run([program, "-c", IMPORTS[name]], check=True, timeout=60)
                imports[name].values.append((time.monotonic() - began) * 1000)
    return [*first.values(), *imports.values()]


def idle(ways: Ways, options: Options) -> list[Series]:
    """PSS in MB and CPU in thousandths of a core, with a workflow that waits after a hundred steps."""
    wanted, found = _main(ways), []
    with running(*((way, 1) for way in wanted.values())) as everyone:
        for one in everyone:
            one.steps(100)
        time.sleep(2)
        before = [spent(one.program.processes()).cpu_s for one in everyone]
        began = time.monotonic()
        time.sleep(2 if options.quick else IDLE_S)
        lasted = time.monotonic() - began
        for name, one, earlier in zip(wanted, everyone, before, strict=True):
            cpu = (spent(one.program.processes()).cpu_s - earlier) / lasted * 1000
            found.append(Series(f"{name}: idle CPU", "thousandths of a core", [cpu]))
            found += [Series(f"{name}: PSS{of}", "MB", [mb]) for of, mb in _pss_mb(one).items()]
    return found


def _pss_mb(one: Running) -> dict[str, float]:
    """Return that of the whole tree; of clew also that of the daemon, and what one more workflow adds."""
    try:
        pss = [process.memory_full_info().pss / 1e6 for process in one.program.processes()]
    except psutil.AccessDenied:  # clew's processes show it to root alone
        return {}
    if one.way.peer != "clew":
        return {"": sum(pss)}
    return {"": sum(pss), " of the daemon": pss[0], " of nursery and worker": sum(pss[1:])}


def hangs(ways: Ways, options: Options) -> dict[str, float | None]:
    """Stop the process that does the steps (SIGSTOP); seconds until its workflow did the next one, or None."""
    timeout_s, found = 3 if options.quick else HEARTBEAT_S, {}
    wanted = _main(ways)
    if "clew" in wanted:
        wanted["clew"] = _clew(f"{CONFIG}[heartbeat]\ntimeout_s = {timeout_s}\n")
    with running(*((way, 1) for way in wanted.values())) as everyone:
        for one in everyone:
            one.steps(10)
            program = one.program
            is_clew = isinstance(program, ClewProgram)
            (program.agents() if is_clew else program.processes())[0].send_signal(signal.SIGSTOP)
            one.wires[0].ask(1)
        began = time.monotonic()
        for name, one in zip(wanted, everyone, strict=True):
            wire = one.accept_within(began + timeout_s + 5 - time.monotonic())
            found[name] = None
            if wire:
                one.wires.append(wire)
                wire.ask(1, tell=True)
                found[name] = float(wire.hear("done")["at"] - began)
    return found


def failing(ways: Ways) -> dict[str, dict[str, Any]]:
    """Try one failing step 500 times; what was carried out, and what stopped it."""
    facts: dict[str, dict[str, Any]] = {}
    for name in [name for name in _main(ways) if name != "clew"]:
        with disk_folder() as folder:
            line = [python(name), str(HERE / f"steps_{name}.py"), str(folder), "--fail", str(TIMES)]
            done = subprocess.run(line, check=True, capture_output=True, timeout=FAIL_S)
        facts[name] = json.loads(done.stdout.splitlines()[-1])
    if "clew" in ways:
        with running((_clew(mode="failing"), 1)) as (one,):
            tries = [message for message in one.wires[0].rest() if "tried" in message]
            (goal,) = one.program.asked("status")["goals"]  # type: ignore[attr-defined]
        answers = Counter(one_try["tried"] for one_try in tries)
        facts["clew"] = {
            "tried": len(tries),
            "ran": answers.pop("ran", 0),
            "refused": dict(answers),
            "escalated_to": [level for one_try in tries if (level := one_try["escalated_to"])],
            "goal": goal["status"],
        }
    return facts
