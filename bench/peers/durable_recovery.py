"""Recovery after SIGKILL: how long until the next new step is done, and what became of the steps before.

In each turn a program does steps until it is killed in the midst of one, at a random moment; then it is launched again
and goes on with the same workflow. Of clew the daemon is killed in one home and the worker alone in another.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING

from bench.figures import Series
from bench.peers.steppers import CONFIG, Clew, Kind, Running, running

if TYPE_CHECKING:
    from bench.peers.options import Options

FREE = 10**9  # steps: on and on
# each crash is the first in its window, and so is restarted at once
WORKER = CONFIG + "window_s = 0.1\n"
Told = dict[str, int]


def recovery(kinds: dict[str, Kind], options: Options) -> tuple[list[Series], dict[str, Told], int]:
    """Milliseconds until the first new step after so many steps, what was lost or done twice, and the seed."""
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    chance = random.Random(seed)
    wanted = {way: kinds[way] for way in ("clew", "dbos", "langgraph") if way in kinds}
    if "clew" in wanted:
        wanted["clew-worker"] = Kind("clew", "clew", lambda f, n: Clew(f, n, WORKER))
    found, told = [], {way: Counter[str]() for way in wanted}
    sizes = ((100, options.count(20, 4)), (1000, options.count(10, 2)))
    for size, turns in sizes[: 1 if options.quick else None]:
        values: dict[str, list[float]] = {way: [] for way in wanted}
        with running(*((kind, 1) for kind in wanted.values())) as everyone:
            for one in everyone:
                one.steps(size)
            for _ in range(turns):
                for way, one in zip(wanted, everyone, strict=True):
                    values[way].append(_killed(one, told[way], chance, worker="worker" in way))
            for way, one in zip(wanted, everyone, strict=True):
                told[way].update(_counted(one))
        found += [Series(f"{way}: recovery at {size}", "ms", v) for way, v in values.items()]
    return found, {way: dict(counts) for way, counts in told.items()}, seed


def _killed(one: Running, told: Counter[str], chance: random.Random, *, worker: bool) -> float:
    """Kill it in the midst of its steps and let it go on; milliseconds until its first new step."""
    one.wires[0].ask(FREE, tell=True)
    done = one.wires[0].hear("done")["done"]
    time.sleep(chance.uniform(0, 0.01))
    told_later, began = _worker_killed(one) if worker else _all_killed(one)
    last = max([done, *told_later])
    wire = one.accept()
    one.wires = [wire]
    wire.ask(1, tell=True)
    first = wire.hear("done")
    wire.hear("took_s")
    told["kills"] += 1
    told["records lost"] += first["done"] <= last
    told["told of a step under way"] += any("interrupted" in said for said in wire.said)
    return float(first["at"] - began) * 1000


def _worker_killed(one: Running) -> tuple[list[int], float]:
    """What else was done, and the moment of the kill: the daemon launches the next worker."""
    (agent,) = one.program.agents()  # type: ignore[attr-defined]
    began = time.monotonic()
    agent.kill()
    done = _done(one)
    one.wires[0].close()
    return done, began


def _all_killed(one: Running) -> tuple[list[int], float]:
    """What else was done, and the moment of the launch."""
    one.program.kill()
    done = _done(one)
    one.kill()
    return done, one.start()


def _done(one: Running) -> list[int]:
    """Steps that it said were done before it was killed."""
    return [said["done"] for said in one.wires[0].rest() if "done" in said]


def _counted(one: Running) -> Told:
    """Which steps were carried out never, and which more than once."""
    one.kill()
    (path,) = one.program.effects()
    times = Counter(int(step) for step in path.read_text().split())
    return {
        "steps": len(times),
        "never carried out": max(times) + 1 - len(times),
        "carried out twice": sum(count > 1 for count in times.values()),
    }
