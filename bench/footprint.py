"""What an idle daemon costs, how long `clew status` takes, and a thousand goals at once: python bench/footprint.py.

A real daemon on a throw-away home. Printed: PSS and CPU of the idle daemon with its nursery over 10 s, the median
wall time of `clew status` (10 runs), and how many of 1,000 files dropped at once were accepted, each once.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

FILES = 1000


def wait_for(what, timeout_s=60.0):
    until = time.monotonic() + timeout_s
    while not (found := what()):
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.05)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(
        prefix="clew-bench-", dir=os.environ.get("BENCH_DIR", "/var/tmp")
    ) as name:
        home = Path(name)
        (home / "config.toml").write_text("[daemon]\nmax_workers = 1\n")
        log = home / "log"
        with log.open("w") as out:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "clew_daemon", "--home", name, "run"], stdout=out
            )
        wait_for(lambda: "daemon.ready" in log.read_text())
        process = psutil.Process(daemon.pid)
        tree = [process, *process.children(recursive=True)]
        time.sleep(2)
        before, began = sum(sum(p.cpu_times()[:2]) for p in tree), time.perf_counter()
        time.sleep(10)
        cpu = (sum(sum(p.cpu_times()[:2]) for p in tree) - before) / (time.perf_counter() - began)
        print(f"load {os.getloadavg()[0]:.2f}")
        for one in tree:
            full = one.memory_full_info()
            print(
                f"idle {' '.join(one.cmdline()[1:4])[:40]}: PSS {full.pss / 1e6:.1f} MB, RSS {full.rss / 1e6:.1f} MB,"
                f" {one.num_threads()} threads, {one.num_fds()} descriptors"
            )
        print(f"idle CPU of the tree: {cpu * 100:.2f} % of a core")
        clew = [sys.executable, "-m", "clew_daemon", "--home", name, "status", "--json"]
        times = []
        for _ in range(10):
            t = time.perf_counter()
            subprocess.run(clew, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - t)
        print(f"clew status --json: median {statistics.median(times):.3f} s")
        goal = "---\nnot_before: 2099-01-01T00:00:00Z\n---\n# Goal {}\ntext\n"
        for i in range(FILES):
            (home / "inbox" / f"g{i:04}.md").write_text(goal.format(i))
        began = time.perf_counter()
        wait_for(lambda: not list((home / "inbox").glob("*.md")), 120)
        took = time.perf_counter() - began
        accepted = log.read_text().count('"event": "goal.accepted"')
        print(
            f"{FILES} files dropped: {accepted} accepted in {took:.2f} s after the last was written"
        )
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(20)


if __name__ == "__main__":
    main()
