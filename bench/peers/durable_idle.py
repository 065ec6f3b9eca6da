"""What a launch takes, and what one process of each weighs while its one workflow waits."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
from bench.figures import Series
from bench.peers.install import ENV
from bench.peers.steppers import Kind, Running, running

if TYPE_CHECKING:
    from bench.peers.options import Options

WAYS = ("clew", "dbos", "langgraph")
IMPORTS = {
    "dbos": "import dbos",
    "langgraph": "import langgraph.graph, langgraph.checkpoint.sqlite",
    "clew": "import clew_daemon.app.lifecycle",  # what a daemon imports; its workers are forked
}
IDLE_S = 10.0


def launches(kinds: dict[str, Kind], options: Options) -> list[Series]:
    """Milliseconds from launch on an empty folder to the first step done, and of the imports alone."""
    wanted = {way: kinds[way] for way in WAYS if way in kinds}
    first: dict[str, list[float]] = {way: [] for way in wanted}
    imports: dict[str, list[float]] = {way: [] for way in wanted}
    for turn in range(options.count(20, 3)):
        for way, kind in wanted.items():
            began = time.monotonic()
            with running((kind, 1)) as (one,):
                one.steps(1)
                first[way].append((time.monotonic() - began) * 1000)
            if turn % 3 == 0:
                imports[way].append(_imported(way))
    return [
        *(Series(f"{way}: launch", "ms", values) for way, values in first.items()),
        *(Series(f"{way}: imports", "ms", values) for way, values in imports.items()),
    ]


def _imported(way: str) -> float:
    python = sys.executable if way == "clew" else str(ENV / way / "bin" / "python")
    began = time.monotonic()
    subprocess.run([python, "-c", IMPORTS[way]], check=True, timeout=60)
    return (time.monotonic() - began) * 1000


def idle(kinds: dict[str, Kind], options: Options) -> list[Series]:
    """PSS in MB and CPU in thousandths of a core, with a workflow that waits after a hundred steps."""
    wanted = {way: kinds[way] for way in WAYS if way in kinds}
    found = []
    with running(*((kind, 1) for kind in wanted.values())) as everyone:
        for one in everyone:
            one.steps(100)
        time.sleep(2)
        before, began = [_cpu_s(one) for one in everyone], time.monotonic()
        time.sleep(2 if options.quick else IDLE_S)
        lasted = time.monotonic() - began
        for way, one, earlier in zip(wanted, everyone, before, strict=True):
            cpu = (_cpu_s(one) - earlier) / lasted
            found.append(Series(f"{way}: idle CPU", "thousandths of a core", [cpu * 1000]))
            found += [Series(f"{way}: PSS{of}", "MB", [mb]) for of, mb in _pss_mb(one).items()]
    return found


def _cpu_s(one: Running) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in one.program.processes())


def _pss_mb(one: Running) -> dict[str, float]:
    """Of the whole tree; of clew also of the daemon, and of what one more workflow adds."""
    try:
        pss = [process.memory_full_info().pss / 1e6 for process in one.program.processes()]
    except psutil.AccessDenied:  # clew's processes show it to root alone
        return {}
    if one.kind.peer != "clew":
        return {"": sum(pss)}
    return {"": sum(pss), " of the daemon": pss[0], " of nursery and worker": sum(pss[1:])}
