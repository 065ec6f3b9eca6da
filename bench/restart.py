"""From SIGKILL of an agent to the next one back at its subtask: python -m bench.restart [--help].

A real daemon on a throw-away home runs the built-in `llm` agent against a small HTTP server on loopback. The agent
waits for its model's answer when it is killed. Back is the new one when its `hello` was answered (the log's
`worker.ready`, durable) and, beside that, when its first question has reached the model; acted has it when the first
action after that is on record. Then 50 workers are killed at the same moment. Memory is that of idle workers, beside
fresh Pythons that have imported and built the same. What a restart costs at the least is measured in turns with it.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from bench import figures, page, restart_marks
from bench.endpoint import Asked, Endpoint, tool_call
from bench.figures import Series
from bench.home import Home, throw_away, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = "python -m bench.restart"
PAUSE_S = 0.25
"""So long is a worker left alone before it is killed."""

FLOORS = {
    "spawn": "posix_spawn of a tiny Python, bare pidfd loop",
    "fork": "fork from a warm process, bare pidfd loop",
    "cold": "posix_spawn of a Python with these imports",
}
PARTS = (
    ("the agent's processes die, and it is noticed", "", "noticed begins"),
    ("what is left of the worker ends", "noticed begins", "torn down ends"),
    ("its end is recorded", "torn down ends", "end recorded ends"),
    ("decision, next session", "end recorded ends", "asked for a cell begins"),
    ("the nursery has the request", "asked for a cell begins", "nursery spawn begins"),
    ("mounts", "nursery spawn begins", "closed off ends"),
    ("environment, limits", "closed off ends", "confined begins"),
    ("Landlock, capabilities, seccomp", "confined begins", "confined ends"),
    ("event loop, connection", "confined ends", "says hello begins"),
    (
        "hello answered (its start and that it is ready recorded)",
        "says hello begins",
        "hello answered ends",
    ),
    ("the model's client, prompt, question", "hello answered ends", "asked"),
)
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
MODULES = ("clew_worker.agent.llm", "openai")
MB = 1e6


def config(url: str, mode: str, workers: int) -> str:
    """Every crash is the first of its window, and so is followed by a restart at once."""
    return f"""
[daemon]
max_workers = {workers}
settle_s = 0.02
[restart]
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


class Watched:
    """A home whose log is read as it grows, and the endpoint that its agents ask."""

    def __init__(self, home: Home, llm: Endpoint) -> None:
        self.home = home
        self.llm = llm
        self.events: list[dict[str, Any]] = []
        self._read = 0

    def seen(self, event: str, since: int = 0) -> list[dict[str, Any]]:
        """The lines of that event from a place in the log on."""
        with self.home.log.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                with contextlib.suppress(ValueError):
                    self.events.append(json.loads(line))
        return [e for e in self.events[since:] if e.get("event") == event]

    def agents(self) -> dict[str, int]:
        """The agents' newest processes, by goal."""
        return {e["goal"]: int(e["pid"]) for e in self.seen("worker.started")}

    def submit(self, count: int) -> None:
        """Give so many goals, and wait until each agent asks its model."""
        for n in range(count):
            text = f"# Goal of worker {n}\n## Write\n- [ ] Write a.txt of worker {n}\n"
            self.home.drop(f"g{n}.md", text)
        wait_for(lambda: len({a.worker for a in self.llm.asked}) == count)


def wall(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()


class Model:
    """Lets every agent wait, but for one action after each kill where that is wanted."""

    def __init__(self) -> None:
        self.wanted = 0
        self._written = 0

    def __call__(self, _: Asked) -> bytes | None:
        if not self.wanted:
            return None
        self.wanted -= 1
        self._written += 1
        return tool_call("write_file", path="a.txt", content=f"{self._written}\n")


@contextlib.contextmanager
def working(mode: str, workers: int, model: Model, marks: Path | None = None) -> Iterator[Watched]:
    """A daemon with so many agents at work; with its times in `marks`, where that is given."""
    with Endpoint(model) as llm, throw_away(config(llm.url, mode, workers)) as home:
        if marks:
            plain = home.command
            starter = [sys.executable, restart_marks.__file__, str(marks)]
            home.command = lambda *arguments: starter + plain(*arguments)[1:]  # type: ignore[method-assign]
        watched = Watched(home.start(), llm)
        watched.submit(workers)
        yield watched


class Floors:
    """The bare loops, each a process that restarts its child when it is told to."""

    def __init__(self) -> None:
        self._loops = {
            kind: subprocess.Popen(
                [sys.executable, "-m", "bench.restart_floors", kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[1],
            )
            for kind in FLOORS
        }
        self.ms: dict[str, list[float]] = {kind: [] for kind in FLOORS}

    def once(self, kind: str) -> None:
        """Restart one child."""
        loop = self._loops[kind]
        assert loop.stdin
        assert loop.stdout
        loop.stdin.write("\n")
        loop.stdin.flush()
        self.ms[kind].append(float(loop.stdout.readline()))

    def close(self) -> None:
        for loop in self._loops.values():
            loop.communicate(timeout=30)


def kill_once(watched: Watched, model: Model) -> tuple[float, float, float]:
    """Kill the one agent; the milliseconds until `hello` was answered, the model asked, an action done."""
    (pid,) = watched.agents().values()
    asked, since = len(watched.llm.asked), len(watched.events)
    model.wanted = 1
    began, at = time.monotonic(), time.time()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(watched.llm.asked) >= asked + 2)
    wait_for(lambda: watched.seen("action.finished", since))
    ready, acted = (watched.seen(e, since)[0] for e in ("worker.ready", "action.finished"))
    question = watched.llm.asked[asked].at
    return 1e3 * (wall(ready) - at), 1e3 * (question - began), 1e3 * (wall(acted) - at)


def single(kills: int) -> tuple[list[Series], dict[str, float]]:
    """Restarts one at a time, in turns with the floors."""
    model, found, floors = Model(), [], Floors()
    try:
        with working("enforce", 1, model) as watched:
            kill_once(watched, model)  # the first one finds nothing warm
            for n in range(kills):
                time.sleep(PAUSE_S)
                found.append(kill_once(watched, model))
                for kind in FLOORS:
                    if kind != "cold" or n % 3 == 0:
                        time.sleep(PAUSE_S / 3)
                        floors.once(kind)
            memory = worker_memory(watched)
    finally:
        floors.close()
    names = ("clew, hello answered", "clew, model asked", "clew, first action done")
    series = [
        Series(n, "ms", list(v)) for n, v in zip(names, zip(*found, strict=True), strict=True)
    ]
    return series + [Series(FLOORS[kind], "ms", ms) for kind, ms in floors.ms.items()], memory


def other_modes(kills: int) -> list[Series]:
    """Restarts with less of a sandbox: without namespaces, and without anything."""
    series = []
    for name, mode, without in (
        ("without namespaces", "enforce", "1"),
        ("[sandbox] mode = off", "off", ""),
    ):
        os.environ[restart_marks.GUARD] = without
        model, found = Model(), []
        with working(mode, 1, model, marks=Path("-")) as watched:
            for _ in range(kills + 1):
                time.sleep(PAUSE_S)
                found.append(kill_once(watched, model)[0])
        series.append(Series(f"clew, {name}", "ms", found[1:]))
    del os.environ[restart_marks.GUARD]
    return series


def parts(kills: int) -> list[Series]:
    """The parts of a restart, with times left on the way."""
    model, found = Model(), []
    with throw_away("") as beside, working("enforce", 1, model, beside.folder / "marks") as watched:
        marks = restart_marks.Marks(beside.folder / "marks")
        for n in range(kills + 1):
            time.sleep(PAUSE_S)
            (pid,) = watched.agents().values()
            asked, since = len(watched.llm.asked), len(watched.events)
            marks.clear()
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: len(watched.llm.asked) > asked)  # noqa: B023 - asked at once
            wait_for(lambda: watched.seen("worker.ready", since))  # noqa: B023 - as above
            if n:
                found.append(marks.read() | {"": began, "asked": watched.llm.asked[asked].at})
            if n % 20 == 19:  # a worker that never does anything is not restarted for ever
                kill_once(watched, model)
    return [Series(name, "ms", [1e3 * (f[b] - f[a]) for f in found]) for name, a, b in PARTS]


def mass(workers: int, rounds: int) -> tuple[list[Series], dict[str, float]]:
    """All workers killed at the same moment: until all are back, and their processor time."""
    model = Model()
    ready: list[float] = []
    asked: list[float] = []
    with working("enforce", workers, model) as watched:
        for _ in range(rounds):
            time.sleep(1.0)
            pids, since = watched.agents().values(), len(watched.events)
            before = len(watched.llm.asked)
            began, at = time.monotonic(), time.time()
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: len(watched.llm.asked) >= before + workers, every_s=0.1)  # noqa: B023
            wait_for(lambda: len(watched.seen("worker.ready", since)) >= workers, every_s=0.1)  # noqa: B023
            ready.append(max(wall(e) for e in watched.seen("worker.ready", since)) - at)
            asked.append(max(a.at for a in watched.llm.asked[before:]) - began)
        time.sleep(1.0)
        memory = worker_memory(watched)
    names = (f"clew, {workers} workers, hello answered", f"clew, {workers} workers, model asked")
    return [Series(names[0], "s", ready), Series(names[1], "s", asked)], memory


def worker_memory(watched: Watched) -> dict[str, float]:
    """PSS and USS in MB of one idle worker (guards and payloads), by the mean; of its agent alone."""
    assert watched.home.daemon
    agents = watched.agents().values()
    guards = {psutil.Process(pid).ppid() for pid in agents}
    daemon = psutil.Process(watched.home.daemon.pid)
    cells = [p for p in daemon.children() if is_guard(p)]
    tree = [one for cell in cells for one in (cell, *cell.children(recursive=True))]
    thinking = [one for one in tree if one.pid in guards or one.pid in agents]
    return {
        "worker PSS": _sum(tree, "pss") / len(agents),
        "worker USS": _sum(tree, "uss") / len(agents),
        "agent PSS": _sum(thinking, "pss") / len(agents),
        "agent USS": _sum(thinking, "uss") / len(agents),
    }


def is_guard(process: psutil.Process) -> bool:
    """A guard at work holds nothing open; the nursery its line to the daemon, a guard in store its leash."""
    return not any(Path(f"/proc/{process.pid}/fd").iterdir())


def _sum(processes: list[psutil.Process], what: str) -> float:
    return sum(getattr(p.memory_full_info(), what) for p in processes) / MB


def cold_memory() -> dict[str, float]:
    """PSS and USS in MB of fresh Pythons: one as an agent, one as an executor."""
    held: dict[str, tuple[float, float]] = {}
    for name, modules in (("agent", MODULES), ("executor", ())):
        with subprocess.Popen(
            [sys.executable, "-c", COLD, *modules], stdout=subprocess.PIPE
        ) as one:
            assert one.stdout
            one.stdout.readline()
            info = psutil.Process(one.pid).memory_full_info()
            held[name] = info.pss / MB, info.uss / MB
            one.kill()
    (agent, executor) = held["agent"], held["executor"]
    return {
        "worker PSS": agent[0] + executor[0],
        "worker USS": agent[1] + executor[1],
        "agent PSS": agent[0],
        "agent USS": agent[1],
    }


def text(kept: dict[str, Any], series: dict[str, Series]) -> str:
    """The page's part: tables of restarts, of their parts, and of memory."""
    names = [name for name, _, _ in PARTS]
    rest = [s for s in series.values() if s.name not in names]
    restarts = page.table(
        ["from SIGKILL", "median (5 to 95 %)", "n"], [(s.name, s, len(s.values)) for s in rest]
    )
    spent = page.table(
        ["part", "ms"], [(name, figures.short(series[name].median)) for name in names]
    )
    memory = kept["facts"]["memory"]
    columns = list(memory)
    rows = [
        (f"{what}, MB", *(figures.short(memory[c][what]) for c in columns))
        for what in memory[columns[0]]
    ]
    return "\n\n".join(
        (
            page.under(kept),
            restarts,
            "![A restart](performance/restart.svg)",
            spent,
            page.table(["idle", *columns], rows),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=30, help="single restarts (default 30)")
    parser.add_argument(
        "--workers", type=int, default=50, help="workers killed at once (default 50)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="times that they are (default 5)")
    parser.add_argument("--no-page", action="store_true", help="print, and write nothing")
    chosen = parser.parse_args()
    before = figures.conditions()
    series, alone = single(chosen.kills)
    series += other_modes(max(5, chosen.kills // 3))
    series += parts(max(5, chosen.kills // 3))
    many, among = mass(chosen.workers, chosen.rounds)
    series += many
    memory = {
        "cold": cold_memory(),
        "one clew worker": alone,
        f"each of {chosen.workers} clew workers": among,
    }
    for one in series:
        print(f"{one.name:62} {one}")
    for name, held in memory.items():
        print(f"{name:24}", ", ".join(f"{what} {mb:.1f} MB" for what, mb in held.items()))
    whole = sum(statistics.median(s.values) for s in series if s.name in {n for n, _, _ in PARTS})
    print(f"the parts together: {whole:.1f} ms")
    if chosen.no_page:
        return
    from bench import plots

    figures.save("restart", figures.command("restart"), before, series, memory=memory)
    kept, named = figures.load("restart")
    page.write("restart", text(kept, named))
    shown = [s for s in named.values() if s.unit == "ms" and s.name not in {n for n, _, _ in PARTS}]
    plots.dots("restart", "SIGKILL until the next one is there", shown)


if __name__ == "__main__":
    main()
