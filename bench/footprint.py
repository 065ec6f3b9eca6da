"""What clew weighs when nothing happens, and how long its commands take to start: python -m bench.footprint [--help]

Real daemons: without goals, with ten that wait, with a hundred that are over, with eight idle workers (each waits for
an LLM's answer), and one for the commands. Measured are memory (PSS), CPU and wake-ups (voluntary context switches) of
daemon, nursery and workers, over the same stretch for all; commands in turns with bare Python, with byte-code; the
daemon's start and stop; a thousand files dropped at once.
"""

import argparse
import importlib.util
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from bench import figures, page, plots
from bench.endpoint import Endpoint
from bench.figures import Recorder, Series, short
from bench.home import Home, temporary, wait_for
from bench.processes import pss_mb, spent

from clew_daemon import cli
from clew_daemon.cli.client import call

WORKERS, FILES = 8, 1000
LATER = "---\nnot_before: 2099-01-01T00:00:00Z\n---\n# Goal {}\ntext\n"
NOW = "# Goal {}\ntext\n"
RUNBOOK = "# Say hello\n## Do it\n- [ ] Say it\n  ```sh\n  echo hello\n  ```\n"
CONFIG = "[daemon]\nmax_workers = 8\n"
WAITING, OVER, WORKING = "10 waiting goals", "100 goals that are over", "8 idle workers"
AtRest = dict[str, dict[str, dict[str, float]]]


def commands(home: Home, goal: str) -> dict[str, list[str]]:
    """Return what is started in turns: bare Python, and clew by its installed program."""
    beside = Path(sys.executable).with_name("clew")
    clew = [str(beside)] if beside.exists() else [sys.executable, "-m", "clew_daemon"]
    at = [*clew, "--home", str(home.folder)]
    words = {"status": [], "status --json": [], "status GOAL": [goal], "history GOAL": [goal]}
    asking = {
        f"clew {name}": [*at, *name.removesuffix(" GOAL").split(), *arguments]
        for name, arguments in {**words, "loops": [], "logs": []}.items()
    }
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
        "clew --help": [*clew, "--help"],
        "clew --version": [*clew, "--version"],
        **asking,
        "clew: completing status": clew,
        "clew: completing a goal": clew,
    }


def environment(name: str, home: Home) -> dict[str, str]:
    """Return the environment of a command, in which a shell may ask for completion."""
    words = {
        "clew: completing status": ("clew sta", "1"),
        "clew: completing a goal": (f"clew --home {home.folder} history s", "4"),
    }
    if name not in words:
        return dict(os.environ)
    line, word = words[name]
    return {**os.environ, "_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": word}


def in_turns(named: dict[str, list[str]], home: Home, rounds: int, found: Recorder) -> None:
    """Run every command once a round, after a round that is not counted and writes the byte-code."""
    for number in range(rounds + 1):
        for name, command in named.items():
            env, output = environment(name, home), {"stdout": subprocess.DEVNULL}
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(command, env=env, check=True, **output)
            wall_s, after = (
                time.perf_counter() - began,
                resource.getrusage(resource.RUSAGE_CHILDREN),
            )
            used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if number:
                found.add(name, "ms", wall_s * 1e3)
                found.add(f"{name}: CPU", "ms", used_s * 1e3)


def measure_commands(rounds: int, found: Recorder) -> None:
    """Measure commands beside a daemon, then those that read the ledger without one."""
    with temporary(CONFIG) as home:
        home.start().drop("hello.md", RUNBOOK)
        wait_for(lambda: home.count("goal.completed"))
        goal = call(home.folder / "run" / "control.sock", "status")["goals"][0]["id"]
        named = commands(home, goal)
        in_turns(named, home, rounds, found)
        home.stop()
        alone = {f"{name} (no daemon)": named[name] for name in ("clew status", "clew status GOAL")}
        in_turns(alone, home, rounds, found)


def parts(home: Home) -> dict[str, list[psutil.Process]]:
    """Return the processes of a daemon: itself, its nursery, and the rest, which work or are spare."""
    daemon = psutil.Process(home.pid)
    below = daemon.children(recursive=True)
    nursery = min(below, key=lambda one: one.create_time())  # all workers are forked from it
    rest = [one for one in below if one != nursery]
    found = {"daemon": [daemon], "nursery": [nursery], "workers and spares": rest}
    return {part: processes for part, processes in found.items() if processes}


def at_rest(homes: dict[str, Home], stretch_s: float) -> AtRest:
    """Measure what each part of each daemon weighs, and does in a minute in which nothing happens."""
    all_parts = {name: parts(home) for name, home in homes.items()}
    before = {n: {part: spent(of) for part, of in found.items()} for n, found in all_parts.items()}
    began = time.monotonic()
    time.sleep(stretch_s)
    minutes = (time.monotonic() - began) / 60
    found: AtRest = {name: {} for name in homes}
    for name, of in all_parts.items():
        for part, processes in of.items():
            now, earlier = spent(processes), before[name][part]
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
        over = homes[OVER].folder / "run" / "control.sock"
        for goal in call(over, "status", limit=100)["goals"]:
            call(over, "cancel", goal=goal["id"])
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
    warming = Recorder()
    with temporary(CONFIG) as home:
        for number in range(rounds + 1):
            into = found if number else warming
            into.time("start to ready", home.start)
            into.time("SIGTERM to exit", home.stop)
        home.start()
        found.add(f"{FILES} files at once, accepted", "s", drop(home, FILES))


def tables(kept: figures.Kept) -> tuple[str, ...]:
    series = kept[1]
    others = [one for one in series.values() if not one.name.startswith(("clew", "python"))]
    started = [(f"`{s.name}`", s, series[f"{s.name}: CPU"]) for s in timed(series)]
    head = ("with", "", "processes", "PSS", "threads", "descriptors")
    rows = [
        (
            state if part == "daemon" else "",
            part,
            f"{seen['processes']:.0f}",
            f"{seen['PSS MB']:.1f} MB",
            f"{seen['threads']:.0f}",
            f"{seen['descriptors']:.0f}",
            short(seen["wake-ups a minute"]),
            f"{short(seen['CPU ms a minute'])} ms",
        )
        for state, of in kept[0]["facts"]["at_rest"].items()
        for part, seen in of.items()
    ]
    return (
        page.under(kept[0]),
        page.table((*head, "wake-ups a minute", "CPU a minute"), rows),
        page.table(("command", "wall time", "processor time"), started),
        page.table(("the daemon", "takes"), [(one.name, one) for one in others]),
        page.image("Start of the commands", "commands"),
    )


def timed(series: dict[str, Series]) -> list[Series]:
    return [one for one in series.values() if f"{one.name}: CPU" in series]


def with_byte_code() -> None:
    """Let children write byte-code, as users have it, and check that they can."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", "import clew_daemon.cli.app"], check=True)
    if not Path(importlib.util.cache_from_source(str(cli.__file__))).exists():
        print("byte-code of clew cannot be written here: these figures are slower than a user's")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.footprint", description=__doc__)
    rounds = "of commands; half as many of starts [20]"
    parser.add_argument("--rounds", type=int, default=20, help=rounds)
    parser.add_argument("--stretch", type=float, default=35, help="seconds of rest looked at [35]")
    parser.add_argument("--print", action="store_true", help="save nothing, write no page")
    chosen, before, found = parser.parse_args(), figures.conditions(), Recorder()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves nothing behind
    with_byte_code()
    with resting() as homes:
        start_and_stop(chosen.rounds // 2, found)
        measure_commands(chosen.rounds, found)
        rest = at_rest(homes, chosen.stretch)
    series = list(found.series.values())
    if chosen.print:
        print(*(f"{one.name:40} {one}" for one in series), rest, sep="\n")
        return
    kept = figures.save("footprint", figures.command("footprint"), before, series, at_rest=rest)
    parts = tables(kept)
    print(*parts, sep="\n\n")
    page.write("footprint", *parts)
    shown = timed(kept[1])
    plots.dots("commands", "Start of the commands, against bare Python", shown, log=False)


if __name__ == "__main__":
    main()
