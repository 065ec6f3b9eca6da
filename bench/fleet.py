"""Many workers at once: `python -m bench.fleet [--workers 1 8 64] [--seconds S] [--slower 0 2 5]`.

Steps a second, commits a second, records a commit, the daemon's processor time a step, a step's p50 and p99, and how
the steps spread over the workers: on this disk, and with every commit made so many milliseconds slower in the writer
thread, as on disks with a slower fsync. Each worker is a process that the daemon has started, and proposes and reports
as fast as it is answered.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import figures, home, page, plots
from bench.figures import Series, short
from bench.step import AGENT, WATCHED

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ran:
    """What came of so many workers; times in seconds, of each worker its own."""

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

    @property
    def all(self) -> Series:
        return Series("", "ms", [1e3 * one for times in self.times for one in times])


def run(workers: int, seconds: float, slower_ms: float) -> Ran:
    """So many workers on a daemon of their own, all at once for so long."""
    config = (
        f"[daemon]\nmax_workers = {workers}\n[limits]\nmax_actions = 1000000\n"
        + home.command_agent("bench", AGENT, f"{seconds}s", "1")
    )
    with home.throw_away(config) as place:
        out = place.folder / "commits.json"
        place.program = [str(WATCHED), str(out), str(slower_ms)]
        place.start()
        for number in range(workers):
            place.drop(f"w{number}.md", f"---\nagent: bench\n---\n# Worker {number}\n")
        home.wait_for(lambda: len(place.workspaces("*/here")) == workers, 120)
        folders = [here.parent for here in place.workspaces("*/here")]
        assert place.daemon is not None
        _rest(place.daemon.pid)
        used = _used(place.daemon.pid)
        for folder in folders:
            (folder / "go.0").touch()
        home.wait_for(lambda: len(place.workspaces("*/times.0")) == workers)
        loop_s, daemon_s = (
            after - before for after, before in zip(_used(place.daemon.pid), used, strict=True)
        )
        times = [_floats(folder / "times.0") for folder in folders]
        began = [_floats(folder / "began.0")[0] for folder in folders]
        place.stop()
        batches = json.loads(out.read_text())["batches"]
    ended = max(at + sum(own) for at, own in zip(began, times, strict=True))
    kept = [jobs for at, jobs in batches if min(began) <= at / 1e9 <= ended]
    wall_s = ended - min(began)
    return Ran(workers, slower_ms, wall_s, times, len(kept), sum(kept), loop_s, daemon_s)


def _floats(path: Path) -> list[float]:
    return [float(one) for one in path.read_text().split()]


def _rest(pid: int) -> None:
    """Wait until the daemon has started all that it starts: executors come up behind their agents."""
    quiet = 0
    while quiet < 2:
        before = _used(pid)[1]
        time.sleep(0.5)
        quiet = quiet + 1 if _used(pid)[1] - before < 0.05 else 0


def _used(pid: int) -> tuple[float, float]:
    """Processor seconds of a process's main thread, and of all its threads."""
    return _ticks(Path(f"/proc/{pid}/task/{pid}/stat")), _ticks(Path(f"/proc/{pid}/stat"))


def _ticks(path: Path) -> float:
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def row(ran: Ran, one: float) -> list[Any]:
    """A line of the table; `one` is the rate of one worker on the same disk."""
    every, counts = ran.all, sorted(map(len, ran.times))
    slowest = max(Series("", "", times).quantile(0.99) for times in ran.times if times)
    return [
        ran.workers,
        f"{short(ran.rate)}",
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


HEAD = (
    *(
        "workers",
        "steps/s",
        "times one",
        "commits/s",
        "records a commit",
        "daemon's time a step",
        "its loop",
    ),
    *("p50", "p99", "p99 of the worst worker", "steps of a worker: fewest, median, most"),
)


def tables(found: list[Ran]) -> str:
    """A table for each disk."""
    parts = []
    for slower_ms in sorted({ran.slower_ms for ran in found}):
        same = [ran for ran in found if ran.slower_ms == slower_ms]
        named = f"With each commit {slower_ms:g} ms slower:" if slower_ms else "On this disk:"
        parts += [named, page.table(HEAD, [row(ran, same[0].rate) for ran in same])]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=4.0, help="for each")
    parser.add_argument("--slower", type=float, nargs="+", default=[0, 2, 5], help="ms")
    options = parser.parse_args()
    before = figures.conditions()
    found = []
    for slower_ms in options.slower:
        for workers in options.workers:
            found.append(run(workers, options.seconds, slower_ms))
            print(
                f"{slower_ms:g} ms slower, {workers} workers: {found[-1].rate:.0f} steps/s",
                flush=True,
            )
    series = [
        Series(f"{ran.workers} workers, commits {ran.slower_ms:g} ms slower", "steps/s", [ran.rate])
        for ran in found
    ]
    table = tables(found)
    print(table)
    figures.save("fleet", figures.command("fleet"), before, series, table=table)
    curves = {
        f"clew, commits {slower_ms:g} ms slower" if slower_ms else "clew, this disk": [
            (ran.workers, ran.rate) for ran in found if ran.slower_ms == slower_ms
        ]
        for slower_ms in options.slower
    }
    plots.lines("fleet", "Steps by workers at once", "workers", "steps/s", curves, log="xy")
    kept, _ = figures.load("fleet")
    picture = "![Steps a second by workers](performance/fleet.svg)"
    page.write("fleet", "\n\n".join((table, picture, page.under(kept))))


if __name__ == "__main__":
    main()
