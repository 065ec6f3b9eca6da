"""What clew weighs when nothing happens, and how long its commands take to start: python -m bench.footprint [--help]

Real daemons: without goals, with ten that wait, with a hundred that are over, with eight idle workers (each waits for
an LLM's answer), and one for the commands. Measured are memory (PSS), CPU and wake-ups (voluntary context switches) of
daemon, nursery and workers, over the same stretch for all; commands in turns with bare Python, with byte-code; the
daemon's start and stop; a thousand files dropped at once.
"""

import importlib.util
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from bench import page, plots, runner
from bench.endpoint import Endpoint
from bench.figures import Recorder, Result, Series, short
from bench.home import Home, temporary, wait_for
from bench.processes import pss_mb, spent

from clew_daemon import cli
from clew_daemon.reading.client import call

WORKERS, FILES = 8, 1000
LATER = "---\nnot_before: 2099-01-01T00:00:00Z\n---\n# Goal {}\ntext\n"
NOW = "# Goal {}\ntext\n"
RUNBOOK = "# Say hello\n## Do it\n- [ ] Say it\n  ```sh\n  echo hello\n  ```\n"
CONFIG = "[daemon]\nmax_workers = 8\n"
WAITING, OVER, WORKING = "10 waiting goals", "100 goals that are over", "8 idle workers"
COMMANDS = (  # GOAL is the id of one
    "clew --help",
    "clew --version",
    "clew status",
    "clew status --json",
    "clew status GOAL",
    "clew history GOAL",
    "clew loops",
    "clew logs",
)
FORMATS = {
    "processes": "{:.0f}",
    "PSS": "{:.1f} MB",
    "threads": "{:.0f}",
    "descriptors": "{:.0f}",
    "wake-ups a minute": "{}",
    "CPU a minute": "{} ms",
}
"""What is seen of processes at rest; without a format of its own, with three digits."""


def commands(home: Home, goal: str) -> dict[str, list[str]]:
    """Return what is started in turns: bare Python, and clew by its installed program."""
    beside = Path(sys.executable).with_name("clew")
    clew = [str(beside)] if beside.exists() else [sys.executable, "-m", "clew_daemon"]
    found = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
    }
    for name in COMMANDS:
        words = [goal if word == "GOAL" else word for word in name.split()[1:]]
        at = [] if words[0].startswith("--") else ["--home", str(home.folder)]
        found[name] = [*clew, *at, *words]
    return found


def in_turns(named: dict[str, list[str]], rounds: int, found: Recorder) -> None:
    """Run every command once a round, after a round that is not counted and writes the byte-code."""
    for into in [Recorder()] + [found] * rounds:
        for name, command in named.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run = partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
            into.time(name, run)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            into.add(f"{name}: CPU", "ms", used_s * 1e3)


def measure_commands(rounds: int, found: Recorder) -> None:
    """Measure commands beside a daemon; `bench.growth` measures those that read the ledger without one."""
    with temporary(CONFIG) as home:
        home.start().drop("hello.md", RUNBOOK)
        wait_for(lambda: home.count("goal.completed"))
        goal = call(home.socket, "status")["goals"][0]["id"]
        in_turns(commands(home, goal), rounds, found)


def parts(home: Home) -> dict[str, list[psutil.Process]]:
    """Return the processes of a daemon: itself, its nursery, and the rest, which work or are spare."""
    daemon = psutil.Process(home.pid)
    below = daemon.children(recursive=True)
    nursery = min(below, key=lambda one: one.create_time())  # all workers are forked from it
    rest = [one for one in below if one != nursery]
    found = {"daemon": [daemon], "nursery": [nursery], "workers and spares": rest}
    return {part: processes for part, processes in found.items() if processes}


def at_rest(homes: dict[str, Home], stretch_s: float) -> dict[str, dict[str, dict[str, float]]]:
    """Measure what each part of each daemon weighs, and does in a minute in which nothing happens."""
    all_parts = [(n, part, of) for n, home in homes.items() for part, of in parts(home).items()]
    before = [spent(processes) for _, _, processes in all_parts]
    began = time.monotonic()
    time.sleep(stretch_s)
    minutes = (time.monotonic() - began) / 60
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in homes}
    for (name, part, processes), earlier in zip(all_parts, before, strict=True):
        now = spent(processes)
        found[name][part] = {
            "processes": len(processes),
            "PSS MB": pss_mb(processes),
            "threads": sum(one.num_threads() for one in processes),
            "descriptors": sum(one.num_fds() for one in processes),
            "wake-ups a minute": (now.switches - earlier.switches) / minutes,
            "CPU ms a minute": (now.cpu_s - earlier.cpu_s) * 1e3 / minutes,
        }
    return found


@contextmanager
def resting() -> Iterator[dict[str, Home]]:
    """Four daemons side by side, which come to rest while other things are measured."""
    with ExitStack() as stack:
        url = stack.enter_context(Endpoint(lambda _: None)).url
        llm = f'kind = "llm"\nbase_url = "{url}"\nmodel = "none"\ntimeout_s = 600\n'
        working = f"{CONFIG}[limits]\nllm_calls = {WORKERS}\n[agents.default]\n{llm}"
        configs = {"no goals": CONFIG, WAITING: CONFIG, OVER: CONFIG, WORKING: working}
        homes = {
            state: stack.enter_context(temporary(config)).start()
            for state, config in configs.items()
        }
        drop(homes[WAITING], 10)
        drop(homes[OVER], 100)
        for goal in call(homes[OVER].socket, "status", limit=100)["goals"]:
            call(homes[OVER].socket, "cancel", goal=goal["id"])
        drop(homes[WORKING], WORKERS, NOW)
        wait_for(lambda: homes[WORKING].count("worker.ready") >= WORKERS)
        yield homes


def drop(home: Home, count: int, text: str = LATER) -> float:
    """Drop goals and wait until each is accepted; return how long that took in s."""
    before = home.count("goal.accepted")
    for number in range(count):
        home.drop(f"g{number:04}.md", text.format(number))
    began = time.perf_counter()
    wait_for(lambda: home.count("goal.accepted") - before >= count, 120)
    return time.perf_counter() - began


def start_and_stop(rounds: int, found: Recorder) -> None:
    """Measure a start until ready, and SIGTERM until exit; the first of each is not counted."""
    with temporary(CONFIG) as home:
        for into in [Recorder()] + [found] * rounds:
            into.time("start to ready", home.start)
            into.time("SIGTERM to exit", home.stop)
        home.start()
        found.add(f"{FILES} files at once, accepted", "s", drop(home, FILES))


def text(result: Result) -> tuple[str, ...]:
    series = result.series
    others = [one for one in series.values() if not one.name.startswith(("clew", "python"))]
    started = [(f"`{s.name}`", s, series[f"{s.name}: CPU"]) for s in timed(series)]
    rows = [
        (state if part == "daemon" else "", part, *map(_shown, FORMATS.values(), seen.values()))
        for state, of in result.facts["at_rest"].items()
        for part, seen in of.items()
    ]
    return (
        result.source,
        page.table(("with", "", *FORMATS), rows),
        page.table(("command", "wall time", "processor time"), started),
        page.table(("the daemon", "takes"), [(one.name, one) for one in others]),
        page.image("Start of the commands", "commands"),
    )


def _shown(format_: str, value: float) -> str:
    return format_.format(value if ":" in format_ else short(value))


def plot(result: Result) -> None:
    title = "Start of the commands, against bare Python"
    plots.dots("commands", title, timed(result.series), log=False)


def timed(series: dict[str, Series]) -> list[Series]:
    return [one for one in series.values() if f"{one.name}: CPU" in series]


def with_byte_code() -> None:
    """Let children write byte-code, as users have it, and check that they can."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", "import clew_daemon.cli.app"], check=True)
    if not Path(importlib.util.cache_from_source(str(cli.__file__))).exists():
        print("byte-code of clew cannot be written here: these figures are slower than a user's")


def measure(options: runner.Options, found: Recorder) -> dict[str, Any]:
    with_byte_code()
    with resting() as homes:
        start_and_stop(options.rounds // 2, found)
        measure_commands(options.rounds, found)
        return {"at_rest": at_rest(homes, options.stretch)}


if __name__ == "__main__":
    rounds, stretch = (20, "of commands; half as many of starts"), (35.0, "seconds of rest")
    runner.main(measure, rounds=rounds, stretch=stretch)
