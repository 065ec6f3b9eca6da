"""What `clew watch` costs and how soon it shows an action: python -m bench.live [--help]

A real daemon, and a goal that waits in one long action: the daemon's processor time over the same stretch with and
without a `clew watch` beside it, in turns. Then a goal of many short actions, watched in a pipe: from the moment at
which the log says that an action's end is durable until its line arrives.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench import figures, page
from bench.figures import Series
from bench.home import Home, throw_away, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTIONS = 100
AIM_MS, AIM_PERCENT = 300, 0.5
CONFIG = "[daemon]\nsettle_s = 0.05\n"
RESTING = "# Wait\n## Do\n- [ ] Wait\n  ```sh\n  sleep 100000\n  ```\n"
BUSY = "# Count\n## Do\n" + "".join(
    f"- [ ] Step {n}\n  ```sh\n  sleep 0.2; echo {n}\n  ```\n" for n in range(ACTIONS)
)


def cpu_s(pid: int) -> float:
    """Processor time of all threads of a process so far, in seconds."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@contextmanager
def watched(home: Home, *, really: bool) -> Iterator[None]:
    """A `clew watch` of all goals beside the block."""
    if not really:
        yield
        return
    with subprocess.Popen(
        home.command("watch"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as one:
        time.sleep(2.0)  # it starts
        yield
        one.send_signal(signal.SIGINT)


def costs(stretch_s: float, rounds: int) -> list[Series]:
    """The daemon's share of a core, in per cent, beside a goal that waits in an action."""
    found = {False: Series("not watched", "%", []), True: Series("watched", "%", [])}
    with throw_away(CONFIG) as home:
        home.start().drop("wait.md", RESTING)
        wait_for(lambda: "action.allowed" in home.log.read_text())
        assert home.daemon is not None
        for _ in range(rounds):
            for really, series in found.items():
                with watched(home, really=really):
                    before, began = cpu_s(home.daemon.pid), time.monotonic()
                    time.sleep(stretch_s)
                    used_s = cpu_s(home.daemon.pid) - before
                    series.values.append(100 * used_s / (time.monotonic() - began))
    return [*found.values()]


def delays() -> Series:
    """From the log's line of an action's end until that of `clew watch`, in ms."""
    arrived: dict[int, float] = {}
    with throw_away(CONFIG) as home:
        home.start()
        with subprocess.Popen(
            home.command("watch", "--json"), stdout=subprocess.PIPE, text=True
        ) as one:
            time.sleep(2.0)

            def read() -> None:
                for line in one.stdout or ():
                    entry = json.loads(line)
                    if entry["event"] == "action.finished":
                        arrived[entry["seq"]] = time.time()

            reading = threading.Thread(target=read)
            reading.start()
            home.drop("count.md", BUSY)
            wait_for(lambda: "goal.completed" in home.log.read_text(), 300.0)
            wait_for(lambda: len(arrived) == ACTIONS)
            one.send_signal(signal.SIGINT)
            reading.join()
        logged = [json.loads(line) for line in home.log.read_text().splitlines()]
    ended = {
        one["seq"]: datetime.fromisoformat(one["timestamp"]).timestamp()
        for one in logged
        if one["event"] == "action.finished"
    }
    return Series(
        "durable to shown", "ms", [1e3 * (arrived[seq] - at) for seq, at in ended.items()]
    )


def tables() -> str:
    kept, series = figures.load("live")
    rows = [
        [name, str(one), f"{figures.short(max(one.values))} {one.unit}"]
        for name, one in series.items()
    ]
    rows = [
        [*row, aim]
        for row, aim in zip(rows, ("", f"+ {AIM_PERCENT} %", f"{AIM_MS} ms"), strict=True)
    ]
    return f"{page.under(kept)}\n\n{page.table(['', 'median (5 to 95 %)', 'most', 'aim'], rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.live")
    parser.add_argument(
        "--stretch", type=float, default=20.0, help="seconds of a look at the daemon"
    )
    parser.add_argument("--rounds", type=int, default=3, help="looks of each kind")
    parser.add_argument("--print", action="store_true", help="keep nothing, write no page")
    given = parser.parse_args()
    before = figures.conditions()
    series = [*costs(given.stretch, given.rounds), delays()]
    for one in series:
        print(f"{one.name}: {one}, at most {figures.short(max(one.values))} {one.unit}")
    if not given.print:
        figures.save("live", figures.command("live"), before, series)
        page.write("live", tables())


if __name__ == "__main__":
    main()
