"""What `clew watch` costs and how soon it shows an action: python -m bench.live [--help]

The daemon's processor time beside a goal that waits in one long action, over the same stretch with and without a
`clew watch`, in turns. Then a goal of many short actions, watched in a pipe: from the moment at which the log says that
an action's end is durable until its line arrives.
"""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from bench import page, runner
from bench.figures import Recorder, Result, short
from bench.home import Home, temporary, wait_for
from bench.processes import spent

AIMS = ("", "+ 0.5 %", "300 ms")
CONFIG = "[daemon]\nsettle_s = 0.05\n"
RESTING = "# Wait\n## Do\n- [ ] Wait\n  ```sh\n  sleep 100000\n  ```\n"
STEP = "- [ ] Step {0}\n  ```sh\n  sleep 0.2; echo {0}\n  ```\n"


@contextmanager
def watch(home: Home, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A `clew watch` of all goals beside the block."""
    streams = {"stdout": subprocess.PIPE if options else subprocess.DEVNULL, "text": True}
    command = home.command("watch", *options)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **streams) as one:
        time.sleep(2.0)  # it starts
        yield one
        one.terminate()


def costs(stretch_s: float, rounds: int, found: Recorder) -> None:
    """Measure the daemon's share of a core, in per cent, beside a goal that waits in an action."""

    def look(name: str) -> None:
        before, began = spent(daemon).cpu_s, time.monotonic()
        time.sleep(stretch_s)
        used_s = spent(daemon).cpu_s - before
        found.add(name, "%", 100 * used_s / (time.monotonic() - began))

    with temporary(CONFIG) as home:
        home.start().drop("wait.md", RESTING)
        wait_for(lambda: home.count("action.allowed"))
        daemon = [psutil.Process(home.pid)]
        for _ in range(rounds):
            look("not watched")
            with watch(home):
                look("watched")


def delays(actions: int, found: Recorder) -> None:
    """Measure from the log's line of an action's end until that of `clew watch`, in ms."""
    arrived: dict[int, float] = {}
    with temporary(CONFIG) as home, watch(home.start(), "--json") as one:

        def read() -> None:
            for line in one.stdout or ():
                entry = json.loads(line)
                if entry["event"] == "action.finished":
                    arrived[entry["seq"]] = time.time()

        threading.Thread(target=read, daemon=True).start()
        home.drop("count.md", "# Count\n## Do\n" + "".join(map(STEP.format, range(actions))))
        wait_for(lambda: home.count("goal.completed"), 3.0 * actions + 60)
        wait_for(lambda: len(arrived) == actions)
        for ended in home.events("action.finished"):
            found.add("durable to shown", "ms", 1e3 * (arrived[ended["seq"]] - ended["at"]))


def text(result: Result) -> tuple[str, ...]:
    rows = [
        [one.name, one, f"{short(max(one.values))} {one.unit}", aim]
        for one, aim in zip(result.series.values(), AIMS, strict=True)
    ]
    return result.source, page.table(["", "median (5 to 95 %)", "most", "aim"], rows)


def measure(options: runner.Options, found: Recorder) -> None:
    costs(options.stretch, options.rounds, found)
    delays(options.actions, found)


if __name__ == "__main__":
    runner.main(
        measure,
        stretch=(20.0, "seconds of each look"),
        rounds=(3, "looks of each kind"),
        actions=(100, "that are watched"),
    )
