"""What clew weighs when nothing happens, and how long its commands take to start: python -m bench.footprint [--help]

Real daemons on throw-away homes of this disk: without goals, with ten that wait, with a hundred that are over, with
eight idle workers (each waits for an LLM's answer), and one that the commands speak to. Measured are memory (PSS), CPU
and wake-ups (voluntary context switches of all threads) of daemon, nursery and workers, over the same stretch for all;
commands in turns with bare Python, with byte-code; the daemon's start and stop; a thousand files dropped at once.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from bench import figures, page, plots
from bench.figures import Series
from bench.home import Home, throw_away, wait_for

from clew_daemon import cli
from clew_daemon.cli.client import call

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITING, ENDED, WORKERS, FILES = 10, 100, 8, 1000
LATER = "---\nnot_before: 2099-01-01T00:00:00Z\n---\n# Goal {}\ntext\n"
RUNBOOK = "# Say hello\n## Do it\n- [ ] Say it\n  ```sh\n  echo hello\n  ```\n"
CONFIG = "[daemon]\nmax_workers = 8\n"
STATES = ("no goals", "10 waiting goals", "100 goals that are over", "8 idle workers")


# ---- commands


def commands(home: Home, goal: str) -> dict[str, list[str]]:
    """What is started in turns: bare Python, and clew by its installed program."""
    beside = Path(sys.executable).with_name("clew")
    clew = [str(beside)] if beside.exists() else [sys.executable, "-m", "clew_daemon"]
    at = [*clew, "--home", str(home.folder)]
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
        "clew --help": [*clew, "--help"],
        "clew --version": [*clew, "--version"],
        "clew status": [*at, "status"],
        "clew status --json": [*at, "status", "--json"],
        "clew status GOAL": [*at, "status", goal],
        "clew history GOAL": [*at, "history", goal],
        "clew loops": [*at, "loops"],
        "clew logs": [*at, "logs"],
        "clew: completing status": clew,
        "clew: completing a goal": clew,
    }


def asked(name: str, home: Home) -> dict[str, str]:
    """The environment of a command, in which a shell asks for completion."""
    words = {
        "clew: completing status": ("clew sta", "1"),
        "clew: completing a goal": (f"clew --home {home.folder} history s", "4"),
    }
    if name not in words:
        return dict(os.environ)
    line, word = words[name]
    return {**os.environ, "_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": word}


def took(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Run a command; wall and processor time in ms."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s * 1e3, used_s * 1e3


def in_turns(named: dict[str, list[str]], home: Home, rounds: int) -> list[Series]:
    """Every command once a round, after a round that is not counted and writes the byte-code."""
    wall = {name: Series(name, "ms", []) for name in named}
    used = {name: Series(f"{name}: CPU", "ms", []) for name in named}
    for number in range(rounds + 1):
        for name, command in named.items():
            wall_ms, used_ms = took(command, asked(name, home))
            if number:
                wall[name].values.append(wall_ms)
                used[name].values.append(used_ms)
    return [*wall.values(), *used.values()]


def measured_commands(rounds: int) -> list[Series]:
    """Commands beside a daemon, then those that read the ledger without one."""
    with throw_away(CONFIG) as home:
        home.start().drop("hello.md", RUNBOOK)
        wait_for(lambda: "goal.completed" in home.log.read_text())
        goal = call(home.folder / "run" / "control.sock", "status")["goals"][0]["id"]
        named = commands(home, goal)
        series = in_turns(named, home, rounds)
        home.stop()
        alone = {f"{name} (no daemon)": named[name] for name in ("clew status", "clew status GOAL")}
        return series + in_turns(alone, home, rounds)


# ---- at rest


def tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def wake_ups(pid: int) -> int:
    """Voluntary context switches of all threads of a process, since each began."""
    total = 0
    for task in tasks(pid):
        text = (task / "status").read_text()
        total += int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total


def parts(home: Home) -> dict[str, list[psutil.Process]]:
    """The processes of a daemon: itself, its nursery, and the rest, which work or are kept ready to."""
    assert home.daemon
    daemon = psutil.Process(home.daemon.pid)
    below = daemon.children(recursive=True)
    nursery = min(below, key=lambda one: one.create_time())  # which all workers are forked from
    rest = [one for one in below if one != nursery]
    return {"daemon": [daemon], "nursery": [nursery], "workers and spares": rest}


def at_rest(homes: dict[str, Home], stretch_s: float) -> dict[str, dict[str, dict[str, float]]]:
    """What each part of each daemon weighs, and does in a minute in which nothing happens."""
    all_parts = {name: parts(home) for name, home in homes.items()}
    before = {name: busyness(of) for name, of in all_parts.items()}
    began = time.monotonic()
    time.sleep(stretch_s)
    minutes = (time.monotonic() - began) / 60
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, of in all_parts.items():
        after = busyness(of)
        found[name] = {
            part: weight(processes)
            | {key: (after[part][key] - before[name][part][key]) / minutes for key in after[part]}
            for part, processes in of.items()
            if processes
        }
    return found


def busyness(of: dict[str, list[psutil.Process]]) -> dict[str, dict[str, float]]:
    return {
        part: {
            "wake-ups a minute": sum(wake_ups(one.pid) for one in processes),
            "CPU ms a minute": sum(sum(one.cpu_times()[:2]) for one in processes) * 1e3,
        }
        for part, processes in of.items()
    }


def weight(processes: list[psutil.Process]) -> dict[str, float]:
    return {
        "processes": len(processes),
        "PSS MB": sum(one.memory_full_info().pss for one in processes) / 1e6,
        "threads": sum(one.num_threads() for one in processes),
        "descriptors": sum(one.num_fds() for one in processes),
    }


@contextmanager
def silent_llm() -> Iterator[str]:
    """A server that takes every question and answers none; its address."""
    kept: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                kept.append(server.accept()[0])
            except OSError:
                return

    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in kept:
                one.close()


@contextmanager
def resting() -> Iterator[dict[str, Home]]:
    """Four daemons side by side, each in its state, which come to rest while other things are measured."""
    with ExitStack() as stack:
        url = stack.enter_context(silent_llm())
        llm = (
            f'[agents.default]\nkind = "llm"\nbase_url = "{url}"\nmodel = "none"\ntimeout_s = 600\n'
        )
        configs = [CONFIG, CONFIG, CONFIG, f"{CONFIG}[limits]\nllm_calls = {WORKERS}\n{llm}"]
        homes = {
            state: stack.enter_context(throw_away(config)).start()
            for state, config in zip(STATES, configs, strict=True)
        }
        for state, count in (("10 waiting goals", WAITING), ("100 goals that are over", ENDED)):
            drop(homes[state], count)
        over = homes["100 goals that are over"].folder / "run" / "control.sock"
        for goal in call(over, "status", limit=ENDED)["goals"]:
            call(over, "cancel", goal=goal["id"])
        drop(homes["8 idle workers"], WORKERS, "# Goal {}\ntext\n")
        log = homes["8 idle workers"].log
        wait_for(lambda: log.read_text().count('"worker.ready"') >= WORKERS)
        yield homes


def drop(home: Home, count: int, text: str = LATER) -> float:
    """Drop goals and wait until each is accepted, once; how long that took in s."""
    before = home.log.read_text().count('"goal.accepted"')
    for number in range(count):
        home.drop(f"g{number:04}.md", text.format(number))
    began = time.perf_counter()
    wait_for(lambda: home.log.read_text().count('"goal.accepted"') - before >= count, 120)
    return time.perf_counter() - began


# ---- start and stop


def started_and_stopped(rounds: int) -> list[Series]:
    """From the daemon's start to ready, and from SIGTERM to its end; the first of each is not counted."""
    ready, gone = Series("start to ready", "ms", []), Series("SIGTERM to exit", "ms", [])
    with throw_away(CONFIG) as home:
        for number in range(rounds + 1):
            began = time.perf_counter()
            home.start()
            up = time.perf_counter()
            home.stop(signal.SIGTERM)
            down = time.perf_counter()
            if number:
                ready.values.append((up - began) * 1e3)
                gone.values.append((down - up) * 1e3)
    return [ready, gone]


def files_at_once() -> Series:
    with throw_away(CONFIG) as home:
        home.start()
        return Series(f"{FILES} files at once, accepted", "s", [drop(home, FILES)])


# ---- the page


def table_of_commands(series: dict[str, Series]) -> str:
    rows = [
        (f"`{one.name}`", one, series[f"{one.name}: CPU"])
        for one in series.values()
        if f"{one.name}: CPU" in series
    ]
    return page.table(("command", "wall time", "processor time"), rows)


def table_at_rest(found: dict[str, dict[str, dict[str, float]]]) -> str:
    head = (
        "with",
        "",
        "processes",
        "PSS",
        "threads",
        "descriptors",
        "wake-ups a minute",
        "CPU a minute",
    )
    rows = [
        (
            state if part == "daemon" else "",
            part,
            f"{seen['processes']:.0f}",
            f"{seen['PSS MB']:.1f} MB",
            f"{seen['threads']:.0f}",
            f"{seen['descriptors']:.0f}",
            figures.short(seen["wake-ups a minute"]),
            f"{figures.short(seen['CPU ms a minute'])} ms",
        )
        for state, of in found.items()
        for part, seen in of.items()
    ]
    return page.table(head, rows)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.footprint", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=20, help="of commands; half as many of starts [20]"
    )
    parser.add_argument("--stretch", type=float, default=35, help="seconds of rest looked at [35]")
    return parser.parse_args()


def with_byte_code() -> None:
    """Let children write byte-code, as users have it, and see that they can."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", "import clew_daemon.cli.app"], check=True)
    if not Path(importlib.util.cache_from_source(str(cli.__file__))).exists():
        print("byte-code of clew cannot be written here: these figures are slower than a user's")


def main() -> None:
    chosen, before = options(), figures.conditions()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves nothing behind
    with_byte_code()
    with resting() as homes:
        series = started_and_stopped(chosen.rounds // 2)
        series.append(files_at_once())
        series += measured_commands(chosen.rounds)
        found = at_rest(homes, chosen.stretch)
    figures.save(
        "footprint",
        " ".join(["python -m bench.footprint", *sys.argv[1:]]),
        before,
        series,
        at_rest=found,
    )
    tell()


def tell() -> None:
    """Print what was kept, and write it to the page."""
    kept, series = figures.load("footprint")
    others = [one for one in series.values() if not one.name.startswith(("clew", "python"))]
    text = "\n\n".join(
        (
            page.under(kept),
            table_at_rest(kept["facts"]["at_rest"]),
            table_of_commands(series),
            page.table(("the daemon", "takes"), [(one.name, one) for one in others]),
            "![Start of the commands](performance/commands.svg)",
        )
    )
    print(text)
    page.write("footprint", text)
    shown = [one for one in series.values() if f"{one.name}: CPU" in series]
    plots.dots("commands", "Start of the commands, against bare Python", shown, log=False)


if __name__ == "__main__":
    main()
