"""Many workers at once: python -m bench.fleet [--workers 1 8 64] [--seconds S] [--slower 0 5].

Steps a second, records a commit, the daemon's processor time a step, and latency: on this disk, and with each commit
some milliseconds slower, as on a disk with a slower fsync. Each worker proposes and reports as fast as it is answered.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

import psutil
from bench import home, page, runner, slow_disk
from bench.figures import Recorder, Result, Series, short


@dataclass(frozen=True)
class FleetRun:
    """What a fleet of workers did; times in seconds, by worker."""

    workers: int
    wall_s: float
    times: list[list[float]]
    commits: int
    jobs: int
    daemon_s: float  # processor time of the daemon

    @property
    def rate(self) -> float:
        return sum(map(len, self.times)) / self.wall_s


def run(workers: int, seconds: float, slower_ms: float) -> FleetRun:
    config = f"[daemon]\nmax_workers = {workers}\n" + home.bench_agent("step", f"{seconds}s", "1")
    with home.temporary(config) as place:
        out = place.folder / "commits.json"
        place.program = [slow_disk.__file__, str(out), str(slower_ms)]
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
        daemon_s = _cpu_s(place.pid) - used
        times = [home.floats(folder / "times.0") for folder in folders]
        began = [home.floats(folder / "began.0")[0] for folder in folders]
        place.stop()
        batches = json.loads(out.read_text())
    ended = max(at + sum(own) for at, own in zip(began, times, strict=True))
    jobs = [jobs for at, jobs in batches if min(began) <= at <= ended]
    return FleetRun(workers, ended - min(began), times, len(jobs), sum(jobs), daemon_s)


def _wait_until_quiet(pid: int) -> None:
    """Wait until the daemon has started everything, for 20 s at most: executors start after their agents."""
    quiet, until = 0, time.monotonic() + 20
    while quiet < 2 and time.monotonic() < until:
        before = _cpu_s(pid)
        time.sleep(0.5)
        quiet = quiet + 1 if _cpu_s(pid) - before < 0.05 else 0


def _cpu_s(pid: int) -> float:
    """Return the processor seconds of all threads of a process."""
    return sum(psutil.Process(pid).cpu_times()[:2])


def row(ran: FleetRun) -> dict[str, Any]:
    """Return a line of the table."""
    every = Series("", "ms", [1e3 * one for times in ran.times for one in times])
    return {
        "workers": ran.workers,
        "steps/s": short(ran.rate),
        "records a commit": short(ran.jobs / max(1, ran.commits)),
        "daemon's time a step": f"{short(1e6 * ran.daemon_s / max(1, len(every.values)))} µs",
        "p50": f"{short(every.median)} ms",
        "p99": f"{short(every.quantile(0.99))} ms",
    }


def measure(options: runner.Options, found: Recorder) -> dict[str, str]:
    """Measure each number of workers on each disk; the fact `table` holds a table for each disk."""
    parts = []
    for slower_ms in options.slower:
        ran = []
        for workers in options.workers:
            ran.append(run(workers, options.seconds, slower_ms))
            name = f"{workers} workers, commits {slower_ms:g} ms slower"
            found.add(name, "steps/s", ran[-1].rate)
            print(found[name].name, found[name], flush=True)
        rows = [row(one) for one in ran]
        named = f"With each commit {slower_ms:g} ms slower:" if slower_ms else "On this disk:"
        parts += [named, page.table(rows[0], [one.values() for one in rows])]
    return {"table": "\n\n".join(parts)}


def text(result: Result) -> tuple[str, ...]:
    return result.facts["table"], result.source


if __name__ == "__main__":
    runner.main(
        measure,
        workers=([1, 8, 64], "how many"),
        seconds=(4.0, "for each"),
        slower=([0.0, 5.0], "ms"),
    )
