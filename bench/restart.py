"""From SIGKILL of an agent to the next one back at its subtask: python -m bench.restart [--help].

The built-in `llm` agent waits for its model's answer when it is killed. The next one is back when its `hello` was
answered (`worker.ready` in the log, durable) and when its first question has reached the model; it has acted when its
first action is on record. Then 50 workers are killed at once. Memory is that of idle workers, beside fresh Pythons with
the same imports.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from bench import page, runner
from bench.endpoint import Asked, Endpoint, tool_call
from bench.figures import Recorder, Result, short
from bench.home import Home, temporary, wait_for

PAUSE_S = 0.25
"""How long a worker is left alone before it is killed."""

ONCE = ("clew, hello answered", "clew, model asked", "clew, first action done")
UNCONFINED = "clew, [sandbox] mode = off"
COLD = """
import signal, sys
from clew_worker.cell import nursery
nursery.preload(sys.argv[1:])
if len(sys.argv) > 1:
    from clew_shared.wire.hello import AgentOptions
    from clew_worker.agent.llm_client import LlmClient
    options = {"mode": "tools", "temperature": 0.2, "timeout_s": 600.0, "reflection": "off"}
    agent = AgentOptions(base_url="http://127.0.0.1:9/v1", model="m", **options)
    llm = LlmClient(agent, None, slot=None)
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


class KilledWorkers:
    """A daemon whose agents are killed, and their model, which lets them wait unless an action is `wanted`."""

    def __init__(self) -> None:
        self.home: Home
        self.llm = Endpoint(self._answer)
        self.wanted = self._written = 0

    def _answer(self, _: Asked) -> bytes | None:
        if not self.wanted:
            return None
        self.wanted -= 1
        self._written += 1
        return tool_call("write_file", path="a.txt", content=f"{self._written}\n")

    def submit(self, count: int) -> None:
        """Drop goals, and wait until each agent asks its model."""
        for n in range(count):
            text = f"# Goal of worker {n}\n## Write\n- [ ] Write a.txt of worker {n}\n"
            self.home.drop(f"g{n}.md", text)
        wait_for(lambda: len({asked.worker for asked in self.llm.asked}) == count)

    def agents(self) -> list[int]:
        """Return the newest process of each goal's agent."""
        return [*{e["goal"]: int(e["pid"]) for e in self.home.events("worker.started")}.values()]

    def kill(self) -> tuple[float, int, int]:
        """Kill all agents; return the moment, and the numbers of questions and of log lines before."""
        pids, asked, since = self.agents(), len(self.llm.asked), self.home.lines
        at = time.time()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return at, asked, since

    def kill_once(self) -> tuple[float, float, float]:
        """Kill the one agent; milliseconds until `hello` was answered, the model asked, an action done."""
        self.wanted = 1
        at, asked, since = self.kill()
        wait_for(lambda: len(self.llm.asked) >= asked + 2)
        acted = wait_for(lambda: self.home.events("action.finished", since))[0]["at"]
        ready = self.home.events("worker.ready", since)[0]["at"]
        return 1e3 * (ready - at), 1e3 * (self.llm.asked[asked].at - at), 1e3 * (acted - at)

    def memory(self) -> dict[str, float]:
        """Return the mean PSS and USS in MB of an idle worker with its guards, and of its agent alone."""
        agents = self.agents()
        guards = {psutil.Process(pid).ppid() for pid in agents}
        cells = [p for p in psutil.Process(self.home.pid).children() if is_guard(p)]
        tree = [one for cell in cells for one in (cell, *cell.children(recursive=True))]
        thinking = [one for one in tree if one.pid in guards or one.pid in agents]
        whole = _sums_mb("worker", tree) | _sums_mb("agent", thinking)
        return {name: mb / len(agents) for name, mb in whole.items()}


@contextlib.contextmanager
def working(workers: int = 1, mode: str = "enforce") -> Iterator[KilledWorkers]:
    """A daemon with agents at work."""
    killed = KilledWorkers()
    with killed.llm as llm:
        config = CONFIG.format(url=llm.url, mode=mode, workers=workers)
        with temporary(config) as killed.home:
            killed.home.start()
            killed.submit(workers)
            yield killed


def single(kills: int, found: Recorder) -> dict[str, float]:
    """Measure restarts one at a time; return an idle worker's memory."""
    with working() as killed:
        killed.kill_once()  # nothing is warm for the first one
        for _ in range(kills):
            time.sleep(PAUSE_S)
            for name, took_ms in zip(ONCE, killed.kill_once(), strict=True):
                found.add(name, "ms", took_ms)
        return killed.memory()


def unconfined(kills: int, found: Recorder) -> None:
    """Measure restarts without a sandbox."""
    with working(mode="off") as killed:
        for into in [Recorder()] + [found] * kills:
            time.sleep(PAUSE_S)
            into.add(UNCONFINED, "ms", killed.kill_once()[0])


def mass(workers: int, rounds: int, found: Recorder) -> dict[str, float]:
    """Kill all workers at the same moment, and measure until all are back; return one's memory."""
    with working(workers) as killed:
        asked, events = killed.llm.asked, killed.home.events
        for _ in range(rounds):
            time.sleep(1.0)
            at, before, since = killed.kill()
            wait_for(lambda: len(asked) >= before + workers, every_s=0.1)  # noqa: B023 - at once
            wait_for(lambda: len(events("worker.ready", since)) >= workers, every_s=0.1)  # noqa: B023
            ready_s = max(event["at"] for event in events("worker.ready", since)) - at
            asked_s = max(one.at for one in asked[before:]) - at
            found.add(f"clew, {workers} workers, hello answered", "s", ready_s)
            found.add(f"clew, {workers} workers, model asked", "s", asked_s)
        time.sleep(1.0)
        return killed.memory()


def is_guard(process: psutil.Process) -> bool:
    """Return whether it is a guard at work, which holds nothing open, as the nursery does."""
    return not any(Path(f"/proc/{process.pid}/fd").iterdir())


def _sums_mb(name: str, processes: Iterable[psutil.Process]) -> dict[str, float]:
    held = [process.memory_full_info() for process in processes]
    return {f"{name} {k.upper()}": sum(getattr(h, k) for h in held) / 1e6 for k in ("pss", "uss")}


def cold_memory() -> dict[str, float]:
    """Return PSS and USS in MB of fresh Pythons: one as an agent, one as an executor."""
    held = []
    for modules in (("clew_worker.agent.llm", "openai"), ()):
        command = [sys.executable, "-c", COLD, *modules]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as one:
            assert one.stdout
            assert one.stdout.readline(), "it ended at once"
            held.append(_sums_mb("agent", [psutil.Process(one.pid)]))
            one.kill()
    agent, executor = held
    worker = {name.replace("agent", "worker"): agent[name] + executor[name] for name in agent}
    return worker | agent


def text(result: Result) -> tuple[str, ...]:
    """Return the page's part: tables of restarts and of memory."""
    memory = result.facts["memory"]
    restarts = [(one.name, one, len(one.values)) for one in result.series.values()]
    kinds = next(iter(memory.values()))
    idle = [(f"{kind}, MB", *(short(held[kind]) for held in memory.values())) for kind in kinds]
    return (
        result.source,
        page.table(["from SIGKILL", "median (5 to 95 %)", "n"], restarts),
        page.table(["idle", *memory], idle),
    )


def measure(options: runner.Options, found: Recorder) -> dict[str, Any]:
    alone = single(options.kills, found)
    unconfined(max(5, options.kills // 3), found)
    among = mass(options.workers, options.rounds, found)
    each = f"each of {options.workers} clew workers"
    return {"memory": {"cold": cold_memory(), "one clew worker": alone, each: among}}


if __name__ == "__main__":
    runner.main(
        measure,
        kills=(30, "single restarts"),
        workers=(50, "workers killed at once"),
        rounds=(5, "how often they are"),
    )
