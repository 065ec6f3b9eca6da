"""From SIGKILL of an agent to the next one back at its subtask: python -m bench.restart [--help].

The built-in `llm` agent waits for its model's answer when it is killed. The next one is back when its `hello` was
answered (`worker.ready` in the log, durable) and when its first question has reached the model; it has acted when its
first action is on record. Then 50 workers are killed at once. The least that a restart costs is measured in turns with
it; memory is that of idle workers, beside fresh Pythons with the same imports.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from bench import figures, marks, page
from bench.endpoint import Asked, Endpoint, tool_call
from bench.figures import Series, short
from bench.home import Home, disk_folder, temporary, wait_for

PAUSE_S = 0.25
"""How long a worker is left alone before it is killed."""

FLOORS = {
    "spawn": "posix_spawn of a tiny Python, bare pidfd loop",
    "fork": "fork from a warm process, bare pidfd loop",
    "cold": "posix_spawn of a Python with these imports",
}
PARTS = {
    "the agent's processes die, and it is noticed": ("", "noticed begins"),
    "what is left of the worker ends": ("noticed begins", "torn down ends"),
    "its end is recorded": ("torn down ends", "end recorded ends"),
    "decision, next session": ("end recorded ends", "asked for a cell begins"),
    "the nursery has the request": ("asked for a cell begins", "nursery spawn begins"),
    "mounts": ("nursery spawn begins", "closed off ends"),
    "environment, limits": ("closed off ends", "confined begins"),
    "Landlock, capabilities, seccomp": ("confined begins", "confined ends"),
    "event loop, connection": ("confined ends", "says hello begins"),
    "hello answered (its start and that it is ready recorded)": (
        *("says hello begins", "hello answered ends"),
    ),
    "the model's client, prompt, question": ("hello answered ends", "asked"),
}
COLD = """
import signal, sys
from clew_worker.cell import nursery
nursery.preload(sys.argv[1:])
if len(sys.argv) > 1:
    from clew_worker.agent.llm_client import LlmClient
    llm = LlmClient({"base_url": "http://127.0.0.1:9/v1", "model": "m"}, None, slot=None)
print(flush=True)
signal.pause()
"""
CONFIG = """
[daemon]
max_workers = {workers}
settle_s = 0.02
[restart]  # every crash is the first of its window: the restart follows at once
window_s = 0.001
max_restarts = 1
[limits]
llm_calls = {workers}
[context]
max_iterations = 100000
[sandbox]
mode = "{mode}"
[log]
format = "json"
[agents]
default = "llm"
[agents.llm]
kind = "llm"
base_url = "{url}"
model = "bench"
mode = "tools"
"""


class WatchedDaemon:
    """A daemon whose log is read as it grows, and the endpoint that its agents ask."""

    def __init__(self, home: Home, llm: Endpoint, model: "WaitingModel") -> None:
        self.home, self.llm, self.model = home, llm, model
        self.events: list[dict[str, Any]] = []
        self._offset = 0

    def seen(self, event: str, since: int = 0) -> list[dict[str, Any]]:
        """Return the lines of an event, from a place in the log on."""
        with self.home.log.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                with contextlib.suppress(ValueError):
                    self.events.append(json.loads(line))
        return [e for e in self.events[since:] if e.get("event") == event]

    def agents(self) -> list[int]:
        """Return the newest process of each goal's agent."""
        return [*{e["goal"]: int(e["pid"]) for e in self.seen("worker.started")}.values()]

    def submit(self, count: int) -> None:
        """Drop goals, and wait until each agent asks its model."""
        for n in range(count):
            text = f"# Goal of worker {n}\n## Write\n- [ ] Write a.txt of worker {n}\n"
            self.home.drop(f"g{n}.md", text)
        wait_for(lambda: len({asked.worker for asked in self.llm.asked}) == count)

    def kill(self) -> tuple[float, float, int, int]:
        """Kill all agents; return both clocks, and the numbers of questions and events before."""
        pids, asked, since = self.agents(), len(self.llm.asked), len(self.events)
        began, at = time.monotonic(), time.time()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return began, at, asked, since

    def kill_once(self) -> tuple[float, float, float]:
        """Kill the one agent; milliseconds until `hello` was answered, the model asked, an action done."""
        self.model.wanted = 1
        began, at, asked, since = self.kill()
        wait_for(lambda: len(self.llm.asked) >= asked + 2)
        wait_for(lambda: self.seen("action.finished", since))
        ready, acted = (wall(self.seen(e, since)[0]) for e in ("worker.ready", "action.finished"))
        return 1e3 * (ready - at), 1e3 * (self.llm.asked[asked].at - began), 1e3 * (acted - at)

    def memory(self) -> dict[str, float]:
        """Return the mean PSS and USS in MB of an idle worker with its guards, and of its agent alone."""
        agents = self.agents()
        guards = {psutil.Process(pid).ppid() for pid in agents}
        cells = [p for p in psutil.Process(self.home.pid).children() if is_guard(p)]
        tree = [one for cell in cells for one in (cell, *cell.children(recursive=True))]
        thinking = [one for one in tree if one.pid in guards or one.pid in agents]
        return {
            f"{what} {kind.upper()}": _sum_mb(of, kind) / len(agents)
            for what, of in (("worker", tree), ("agent", thinking))
            for kind in ("pss", "uss")
        }


def wall(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()


class WaitingModel:
    """Lets every agent wait, except for one action after each kill where that is wanted."""

    def __init__(self) -> None:
        self.wanted = self._written = 0

    def __call__(self, _: Asked) -> bytes | None:
        if not self.wanted:
            return None
        self.wanted -= 1
        self._written += 1
        return tool_call("write_file", path="a.txt", content=f"{self._written}\n")


@contextlib.contextmanager
def working(mode: str, workers: int, marked: Path | None = None) -> Iterator[WatchedDaemon]:
    """A daemon with agents at work; the times of its restarts go to `marked`."""
    model = WaitingModel()
    with (
        Endpoint(model) as llm,
        temporary(CONFIG.format(url=llm.url, mode=mode, workers=workers)) as home,
    ):
        if marked:
            home.program = [marks.__file__, "restart", str(marked)]
        watched = WatchedDaemon(home.start(), llm, model)
        watched.submit(workers)
        yield watched


class Floors:
    """The bare loops, each a process that restarts its child when asked."""

    def __init__(self) -> None:
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        module, root = [sys.executable, "-m", "bench.restart_floors"], Path(__file__).parents[1]
        self._loops = {k: subprocess.Popen([*module, k], cwd=root, **options) for k in FLOORS}
        self.series = {kind: Series(name, "ms", []) for kind, name in FLOORS.items()}

    def once(self, kind: str) -> None:
        loop = self._loops[kind]
        loop.stdin.write("\n")
        loop.stdin.flush()
        self.series[kind].values.append(float(loop.stdout.readline()))

    def close(self) -> None:
        for loop in self._loops.values():
            loop.communicate(timeout=30)


def single(kills: int) -> tuple[list[Series], dict[str, float]]:
    """Measure restarts one at a time, in turns with the floors."""
    found = []
    with contextlib.closing(Floors()) as floors, working("enforce", 1) as watched:
        watched.kill_once()  # nothing is warm for the first one
        for n in range(kills):
            time.sleep(PAUSE_S)
            found.append(watched.kill_once())
            for kind in FLOORS:
                if kind != "cold" or n % 3 == 0:
                    time.sleep(PAUSE_S / 3)
                    floors.once(kind)
        memory = watched.memory()
    names = ("clew, hello answered", "clew, model asked", "clew, first action done")
    columns = zip(names, zip(*found, strict=True), strict=True)
    series = [Series(name, "ms", list(values)) for name, values in columns]
    return [*series, *floors.series.values()], memory


def other_modes(kills: int) -> list[Series]:
    """Measure restarts without namespaces, and without a sandbox."""
    series = []
    modes = (("without namespaces", "enforce", "1"), ("[sandbox] mode = off", "off", ""))
    for name, mode, without in modes:
        os.environ[marks.GUARD] = without
        found = []
        with working(mode, 1, marked=Path("-")) as watched:
            for _ in range(kills + 1):
                time.sleep(PAUSE_S)
                found.append(watched.kill_once()[0])
        series.append(Series(f"clew, {name}", "ms", found[1:]))
    del os.environ[marks.GUARD]
    return series


def parts(kills: int) -> list[Series]:
    """Measure the parts of a restart, by marks on the way."""
    found = []
    with disk_folder() as folder, working("enforce", 1, folder / "marks") as watched:
        seen = marks.Marks(folder / "marks")
        for n in range(kills + 1):
            time.sleep(PAUSE_S)
            seen.clear()
            began, _, asked, since = watched.kill()
            wait_for(lambda: len(watched.llm.asked) > asked)  # noqa: B023 - asked at once
            wait_for(lambda: watched.seen("worker.ready", since))  # noqa: B023 - as above
            if n:
                found.append(seen.read() | {"": began, "asked": watched.llm.asked[asked].at})
            if n % 20 == 19:  # a worker that never acts is not restarted for ever
                watched.kill_once()
    return [
        Series(name, "ms", [1e3 * (f[last] - f[first]) for f in found])
        for name, (first, last) in PARTS.items()
    ]


def mass(workers: int, rounds: int) -> tuple[list[Series], dict[str, float]]:
    """Kill all workers at the same moment, and measure until all are back."""
    ready = Series(f"clew, {workers} workers, hello answered", "s", [])
    asked = Series(f"clew, {workers} workers, model asked", "s", [])
    with working("enforce", workers) as watched:
        llm = watched.llm
        for _ in range(rounds):
            time.sleep(1.0)
            began, at, before, since = watched.kill()
            wait_for(lambda: len(llm.asked) >= before + workers, every_s=0.1)  # noqa: B023
            wait_for(lambda: len(watched.seen("worker.ready", since)) >= workers, every_s=0.1)  # noqa: B023
            ready.values.append(max(wall(e) for e in watched.seen("worker.ready", since)) - at)
            asked.values.append(max(one.at for one in llm.asked[before:]) - began)
        time.sleep(1.0)
        memory = watched.memory()
    return [ready, asked], memory


def is_guard(process: psutil.Process) -> bool:
    """Return whether it is a guard at work, which holds nothing open; the nursery and a spare guard do."""
    return not any(Path(f"/proc/{process.pid}/fd").iterdir())


def _sum_mb(processes: list[psutil.Process], what: str) -> float:
    return sum(getattr(p.memory_full_info(), what) for p in processes) / 1e6


def cold_memory() -> dict[str, float]:
    """Return PSS and USS in MB of fresh Pythons: one as an agent, one as an executor."""
    held = {}
    for name, modules in (("agent", ("clew_worker.agent.llm", "openai")), ("executor", ())):
        command = [sys.executable, "-c", COLD, *modules]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as one:
            one.stdout.readline()
            process = [psutil.Process(one.pid)]
            held[name] = {kind.upper(): _sum_mb(process, kind) for kind in ("pss", "uss")}
            one.kill()
    agent, executor = held["agent"], held["executor"]
    worker = {f"worker {kind}": mb + executor[kind] for kind, mb in agent.items()}
    return worker | {f"agent {kind}": mb for kind, mb in agent.items()}


def text(kept: figures.Kept) -> tuple[str, ...]:
    """Return the page's part: tables of restarts, of their parts, and of memory."""
    series, memory = kept[1], kept[0]["facts"]["memory"]
    restarts = [(s.name, s, len(s.values)) for s in series.values() if s.name not in PARTS]
    spent = [(name, short(series[name].median)) for name in PARTS]
    kinds = next(iter(memory.values()))
    idle = [(f"{kind}, MB", *(short(held[kind]) for held in memory.values())) for kind in kinds]
    return (
        page.under(kept[0]),
        page.table(["from SIGKILL", "median (5 to 95 %)", "n"], restarts),
        page.image("A restart", "restart"),
        page.table(["part", "ms"], spent),
        page.table(["idle", *memory], idle),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="single restarts (30)")
    parser.add_argument("--workers", type=int, default=50, help="workers killed at once (50)")
    parser.add_argument("--rounds", type=int, default=5, help="how often they are (5)")
    parser.add_argument("--no-page", action="store_true", help="print, and write nothing")
    chosen = parser.parse_args()
    before = figures.conditions()
    series, alone = single(chosen.kills)
    series += other_modes(max(5, chosen.kills // 3))
    series += parts(max(5, chosen.kills // 3))
    many, among = mass(chosen.workers, chosen.rounds)
    series += many
    each = f"each of {chosen.workers} clew workers"
    memory = {"cold": cold_memory(), "one clew worker": alone, each: among}
    for one in series:
        print(f"{one.name:62} {one}")
    for name, held in memory.items():
        print(f"{name:24}", ", ".join(f"{what} {mb:.1f} MB" for what, mb in held.items()))
    whole = sum(statistics.median(s.values) for s in series if s.name in PARTS)
    print(f"the parts together: {whole:.1f} ms")
    if chosen.no_page:
        return
    from bench import plots

    kept = figures.save("restart", figures.command("restart"), before, series, memory=memory)
    page.write("restart", *text(kept))
    shown = [s for s in kept[1].values() if s.unit == "ms" and s.name not in PARTS]
    plots.dots("restart", "SIGKILL until the next one is there", shown)


if __name__ == "__main__":
    main()
