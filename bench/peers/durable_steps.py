"""What a durable step costs: at ever more finished steps, with many workflows at once, and in calls of fsync."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figures import Series
from bench.home import wait_for
from bench.peers.steppers import Kind, Running, running

if TYPE_CHECKING:
    from bench.peers.options import Options

SIZES = (10, 100, 1000, 3000, 10000)
LIMIT = {"clew": 10000, "dbos-two": 100, "langgraph-two": 100}  # finished steps; else 3,000
TURNS = 5
AT_ONCE = {"clew": (1, 8, 64), "dbos": (1, 8), "dbos-wal": (1, 8), "langgraph-constant": (1, 8)}
SYNC_CALL = re.compile(r"\b(fsync|fdatasync|sync_file_range|msync)\((?!.*resumed)")


def growth(kinds: dict[str, Kind], options: Options) -> list[Series]:
    """Microseconds a step, and megabytes on the disk, after so many finished steps of one workflow."""
    found: list[Series] = []
    with running(*((kind, 1) for kind in kinds.values())) as everyone:
        done = dict.fromkeys(kinds, 0)
        for size in SIZES[: 2 if options.quick else None]:
            going = {
                way: one
                for way, one in zip(kinds, everyone, strict=True)
                if size <= LIMIT.get(way, 3000)
            }
            for way, one in going.items():
                one.steps(size - done[way])
                done[way] = size
                found.append(Series(f"{way}: file at {size}", "MB", [one.size_mb()]))
            took = _in_turns(going, 1 if size == SIZES[0] else TURNS)
            for way, values in took.items():
                done[way] += len(values)
                found.append(Series(f"{way}: step at {size}", "µs", [s * 1e6 for s in values]))
    return found


def _in_turns(going: dict[str, Running], turns: int) -> dict[str, list[float]]:
    """Twenty steps of the one, then of the next, and again the other way round: nobody is always after the same."""
    took: dict[str, list[float]] = {way: [] for way in going}
    for turn in range(turns):
        for way in list(going)[:: -1 if turn % 2 else 1]:
            took[way] += going[way].steps(20)
    return took


def rates(kinds: dict[str, Kind], options: Options) -> list[Series]:
    """Steps a second of so many workflows at once, of one program each; a value for each turn."""
    most = 8 if options.quick else 64
    wanted = [(w, many) for w in AT_ONCE if w in kinds for many in AT_ONCE[w] if many <= most]
    values: dict[tuple[str, int], list[float]] = {one: [] for one in wanted}
    with running(*((kinds[way], many) for way, many in wanted)) as everyone:
        for one in everyone:
            one.steps(10)
        for _ in range(options.count(20, 5)):
            for (way, many), one in zip(wanted, everyone, strict=True):
                values[way, many].append(_rate(one, 10 if many > 8 else 25))
    return [
        Series(f"{way}: {many} at once", "steps a second", rate)
        for (way, many), rate in values.items()
    ]


def _rate(one: Running, steps: int) -> float:
    began = time.monotonic()
    one.steps(steps)
    return steps * len(one.wires) / (time.monotonic() - began)


def syncs(kinds: dict[str, Kind], steps: int = 50) -> tuple[list[Series], dict[str, str]]:
    """Calls that wait for the disk, a step; and what the live connections say that they run with."""
    found, pragmas = [], {}
    for way, kind in kinds.items():
        with running((kind, 1)) as (one,):
            one.steps(10)
            for said in one.wires[0].said:
                if "pragmas" in said:
                    pragmas[way] = ", ".join(f"{k} = {v}" for k, v in said["pragmas"].items())
            calls = _traced(one, steps)
            if calls is not None:
                found.append(Series(f"{way}: syncs", "calls a step", [calls / steps]))
    return found, pragmas


def _traced(one: Running, steps: int) -> int | None:
    """Count them by strace, attached to the process that writes; None where it may not or is not here."""
    pid = one.program.processes()[0].pid
    calls = "trace=fsync,fdatasync,sync_file_range,msync"
    with tempfile.NamedTemporaryFile("r") as out, tempfile.TemporaryFile("w+") as said:
        try:
            tracer = subprocess.Popen(
                ["strace", "-f", "-e", calls, "-o", out.name, "-p", str(pid)], stderr=said
            )
        except FileNotFoundError:
            return None
        try:
            wait_for(lambda: tracer.poll() is not None or _attached(said.fileno()), 20)
            if tracer.poll() is not None:
                return None
            one.steps(steps)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(20)
        return sum(bool(SYNC_CALL.search(line)) for line in Path(out.name).read_text().splitlines())


def _attached(fd: int) -> bool:
    return "attached" in Path(f"/proc/self/fd/{fd}").read_text()
