"""Many workers at once: python -m bench.fleet [--workers 1 8 64] [--seconds S] [--slower 0 2 5].

Steps and commits a second, records a commit, the daemon's processor time a step, latency, and how the steps spread:
on this disk, and with every commit made so many milliseconds slower, as on a disk with a slower fsync. Each worker
proposes and reports as fast as it is answered.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from bench import figures, home, marks, page, plots
from bench.figures import Series, short


@dataclass(frozen=True)
class FleetRun:
    """What a fleet of workers did; times in seconds, by worker."""

    workers: int
    slower_ms: float
    wall_s: float
    times: list[list[float]]
    commits: int
    jobs: int
    loop_s: float  # processor time of the daemon's main thread
    daemon_s: float

    @property
    def rate(self) -> float:
        return sum(map(len, self.times)) / self.wall_s


def run(workers: int, seconds: float, slower_ms: float) -> FleetRun:
    config = f"[daemon]\nmax_workers = {workers}\n" + home.bench_agent("step", f"{seconds}s", "1")
    with home.temporary(config) as place:
        out = place.folder / "commits.json"
        place.program = [marks.__file__, "step", str(out), str(slower_ms)]
        place.start()
        for number in range(workers):
            place.drop(f"w{number}.md", f"---\nagent: bench\n---\n# Worker {number}\n")
        home.wait_for(lambda: len(place.workspaces("*/here")) == workers, 120)
        folders = [here.parent for here in place.workspaces("*/here")]
        _wait_until_quiet(place.pid)
        used = _cpu_s(place.pid)
        for folder in folders:
            (folder / "go.0").touch()
        home.wait_for(lambda: len(place.workspaces("*/times.0")) == workers)
        loop_s, daemon_s = (b - a for a, b in zip(used, _cpu_s(place.pid), strict=True))
        times = [_floats(folder / "times.0") for folder in folders]
        began = [_floats(folder / "began.0")[0] for folder in folders]
        place.stop()
        batches = json.loads(out.read_text())["batches"]
    ended = max(at + sum(own) for at, own in zip(began, times, strict=True))
    jobs = [jobs for at, jobs in batches if min(began) <= at / 1e9 <= ended]
    wall_s = ended - min(began)
    return FleetRun(workers, slower_ms, wall_s, times, len(jobs), sum(jobs), loop_s, daemon_s)


def _floats(path: Path) -> list[float]:
    return [float(one) for one in path.read_text().split()]


def _wait_until_quiet(pid: int) -> None:
    """Wait until the daemon has started everything: executors start after their agents."""
    quiet = 0
    while quiet < 2:
        before = _cpu_s(pid)[1]
        time.sleep(0.5)
        quiet = quiet + 1 if _cpu_s(pid)[1] - before < 0.05 else 0


def _cpu_s(pid: int) -> tuple[float, float]:
    """Return the processor seconds of a process's main thread, and of all its threads."""
    process = psutil.Process(pid)
    (main,) = (one for one in process.threads() if one.id == pid)
    return main.user_time + main.system_time, sum(process.cpu_times()[:2])


HEAD = (
    *("workers", "steps/s", "times one", "commits/s", "records a commit", "daemon's time a step"),
    *("its loop", "p50", "p99", "p99 of the worst worker"),
    "steps of a worker: fewest, median, most",
)


def row(ran: FleetRun, one: float) -> list[Any]:
    """Return a line of the table; `one` is the rate of one worker on the same disk."""
    every = Series("", "ms", [1e3 * one for times in ran.times for one in times])
    counts = sorted(map(len, ran.times))
    slowest = max(Series("", "", times).quantile(0.99) for times in ran.times if times)
    return [
        ran.workers,
        short(ran.rate),
        f"{ran.rate / one:.1f}",
        short(ran.commits / ran.wall_s),
        short(ran.jobs / max(1, ran.commits)),
        f"{short(1e6 * ran.daemon_s / max(1, sum(counts)))} µs",
        f"{100 * ran.loop_s / ran.wall_s:.0f} %",
        f"{short(every.median)} ms",
        f"{short(every.quantile(0.99))} ms",
        f"{short(1e3 * slowest)} ms",
        f"{counts[0]} / {short(median(counts))} / {counts[-1]}",
    ]


def tables(found: list[FleetRun]) -> str:
    """Return a table for each disk."""
    parts = []
    for slower_ms in sorted({ran.slower_ms for ran in found}):
        same = [ran for ran in found if ran.slower_ms == slower_ms]
        named = f"With each commit {slower_ms:g} ms slower:" if slower_ms else "On this disk:"
        parts += [named, page.table(HEAD, [row(ran, same[0].rate) for ran in same])]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=4.0, help="for each")
    parser.add_argument("--slower", type=float, nargs="+", default=[0, 2, 5], help="ms")
    parser.add_argument("--print", action="store_true", help="save nothing, write no page")
    options = parser.parse_args()
    before, found, series = figures.conditions(), [], []
    curves: plots.Curves = {}
    for slower_ms in options.slower:
        name = f"clew, commits {slower_ms:g} ms slower" if slower_ms else "clew, this disk"
        for workers in options.workers:
            found.append(ran := run(workers, options.seconds, slower_ms))
            print(f"{name}, {workers} workers: {ran.rate:.0f} steps/s", flush=True)
            label = f"{workers} workers, commits {slower_ms:g} ms slower"
            series.append(Series(label, "steps/s", [ran.rate]))
            curves.setdefault(name, []).append((workers, ran.rate))
    table = tables(found)
    print(table)
    if options.print:
        return
    kept, _ = figures.save("fleet", figures.command("fleet"), before, series, table=table)
    plots.lines("fleet", "Steps by workers at once", "workers", "steps/s", curves)
    page.write("fleet", table, page.image("Steps a second by workers", "fleet"), page.under(kept))


if __name__ == "__main__":
    main()
