"""What it costs to look on: python -m bench.sight [--help]

The daemon's step, its processor time for one, its memory and what it does at rest, without and with `clew top`,
`clew web` with an open page, and `clew herald` beside it, in turns. The start of `clew top` and `clew web`, in turns
with bare Python; what they weigh after it, and once every page was shown; what they do at rest. Last the page of a goal
with many actions, from a server that has just started, also in Chromium where that and Playwright are installed.
"""

import asyncio
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

import psutil
from bench import grown, page, runner, views
from bench.figures import Recorder, Result, Series, short
from bench.footprint import RUNBOOK, with_byte_code
from bench.home import Home, bench_agent, temporary, wait_for
from bench.live import RESTING
from bench.processes import spent
from bench.step import GOAL, one_round

CONFIG = "[daemon]\nsettle_s = 0.05\n"
PATIENT = "[heartbeat]\ntimeout_s = 3600\n"
"""The agent is silent between two rounds, in which views are started and ended."""
ALONE, SEEN = "alone", "with all views"
TITLE = "Many steps"
SETTLE_S = 2.0
"""How long the daemon is left alone before its memory is read: what it does after a step is over by then."""

BESIDE = {
    "step": "a step",
    "CPU a step": "the daemon's processor time for one",
    "RSS": "the daemon's memory at rest: RSS",
    "private": "of it private (USS)",
    "share": "its share of a core at rest",
}
START = {
    "python -c pass": "",
    "clew top: first screen": "600 ms",
    "clew web: the link": "600 ms",
    "clew web: the first page": "",
}
WEIGHT = {
    "clew top: first screen": "60 MB",
    "clew top: in use": "60 MB",
    "clew web: the link": "60 MB",
    "clew web: in use": "60 MB",
    "clew web: that goal": "60 MB",
}
REST = {"clew top": "", "clew web": "0.5 %"}
LARGE = {"first": "asked for first", "again": "asked for again"}


def cpu_ms(process: psutil.Process) -> float:
    return spent([process]).cpu_s * 1e3


def share(process: psutil.Process, stretch_s: float) -> float:
    """Return a process's share of a core over a stretch, in per cent."""
    before, began = cpu_ms(process), time.monotonic()
    time.sleep(stretch_s)
    return (cpu_ms(process) - before) / 10 / (time.monotonic() - began)


def weigh(process: psutil.Process, name: str, found: Recorder) -> None:
    memory = process.memory_full_info()
    found.add(f"{name}: PSS", "MB", memory.pss / 1e6)
    found.add(f"{name}: RSS", "MB", memory.rss / 1e6)


# -- the daemon, alone and seen


def beside(options: runner.Options, found: Recorder) -> None:
    """Measure the daemon's steps and its rest, without and with all views, in turns."""
    turns = 2 * options.rounds
    config = f"{CONFIG}{PATIENT}" + bench_agent("step", str(options.steps), str(turns))
    with temporary(config) as home:
        home.start().drop("steps.md", GOAL)
        folder = wait_for(lambda: home.workspaces("*/here"))[0].parent
        daemon, path = psutil.Process(home.pid), f"/goals/{folder.name}"
        for number in range(turns):
            name = (ALONE, SEEN, SEEN, ALONE)[number % 4]
            with views.all_views(home, TITLE, path) if name == SEEN else nullcontext():
                before = cpu_ms(daemon)
                times = one_round(folder, number)
                found.add(f"step: {name}", "µs", *(1e6 * one for one in times))
                used = 1e3 * (cpu_ms(daemon) - before) / len(times)
                found.add(f"CPU a step: {name}", "µs", used)
                time.sleep(SETTLE_S)
                memory = daemon.memory_full_info()
                found.add(f"RSS: {name}", "MB", memory.rss / 1e6)
                found.add(f"private: {name}", "MB", memory.uss / 1e6)
                found.add(f"share: {name}", "%", share(daemon, options.stretch))


# -- starts, weights, rest


def started(name: str, began: float, process: psutil.Process, found: Recorder) -> None:
    """Note a start that is over now, by the clock and by the processor."""
    found.add(name, "ms", (time.perf_counter() - began) * 1e3)
    found.add(f"{name}: CPU", "ms", cpu_ms(process))
    weigh(process, name, found)


def start_top(home: Home, goal: str, found: Recorder) -> None:
    began = time.perf_counter()
    with views.top(home, goal[:20]) as one:
        started("clew top: first screen", began, one.process, found)
        one.press("\r", "Back")  # a goal: what leaves its screen
        one.press("l", "clew logs")
        weigh(one.process, "clew top: in use", found)


def start_web(home: Home, goal: str, found: Recorder) -> None:
    began = time.perf_counter()
    with closing(views.Web(home)) as one:
        started("clew web: the link", began, one.process, found)
        began = time.perf_counter()
        one.open().page()
        found.add("clew web: the first page", "ms", (time.perf_counter() - began) * 1e3)
        found.add("clew web: the first page: CPU", "ms", cpu_ms(one.process))
        action = re.search(r"/actions/\d+", one.page(f"/goals/{goal}").decode())
        assert action is not None
        for path in ("/prompt", "/changes", action[0]):
            one.page(f"/goals/{goal}{path}")
        for path in ("/log", "/playbook", "/new"):
            one.page(path)
        weigh(one.process, "clew web: in use", found)


def bare(found: Recorder) -> None:
    began, before = time.perf_counter(), psutil.Process().cpu_times()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    found.add("python -c pass", "ms", (time.perf_counter() - began) * 1e3)
    after = psutil.Process().cpu_times()
    user, system = (getattr(after, n) - getattr(before, n) for n in CHILDREN)
    found.add("python -c pass: CPU", "ms", (user + system) * 1e3)


CHILDREN = ("children_user", "children_system")


@contextmanager
def with_goals() -> Iterator[tuple[Home, str]]:
    """A daemon with one goal that is over and one that waits in an action; gives the first one's id."""
    with temporary(CONFIG) as home:
        home.start().drop("hello.md", RUNBOOK)
        goal = wait_for(lambda: home.events("goal.completed"))[0]["goal"]
        home.drop("wait.md", RESTING)
        wait_for(lambda: home.count("action.allowed") > 1)
        yield home, goal


def starts(rounds: int, stretch_s: float, found: Recorder) -> None:
    """Measure starts in turns, after a round that is not counted; then the rest."""
    with with_goals() as (home, goal):
        for into in [Recorder()] + [found] * rounds:
            bare(into)
            start_top(home, goal, into)
            start_web(home, goal, into)
        with views.top(home, goal[:20]) as top, views.web(home) as web:
            web.stay()
            time.sleep(SETTLE_S)
            for _ in range(rounds):
                found.add("clew top: share", "%", share(top.process, stretch_s))
                found.add("clew web: share", "%", share(web.process, stretch_s))


# -- a long goal


def large(actions: int, rounds: int, found: Recorder) -> None:
    """Measure the page of a goal with many actions, each time from another server."""
    with temporary(CONFIG) as home:
        folder = home.folder / "workspaces" / "grow"
        folder.mkdir(parents=True)
        asyncio.run(grown.live_goal(home.folder / "state", actions, folder))
        path = f"/goals/{grown.GOAL}"
        for _ in range(rounds):
            with views.web(home) as web:
                web.page("/new")  # it has imported what it needs
                for name in LARGE:
                    began, before = time.perf_counter(), cpu_ms(web.process)
                    size = len(web.page(path))
                    found.add(f"{name}", "ms", (time.perf_counter() - began) * 1e3)
                    found.add(f"{name}: CPU", "ms", cpu_ms(web.process) - before)
                    found.add(f"{name}: size", "kB", size / 1e3)
                weigh(web.process, "clew web: that goal", found)
            painted(home, path, found)


def painted(home: Home, path: str, found: Recorder) -> None:
    """Measure the same page's first paint in a browser, if there is one."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        program = None
    if program is None:
        return
    with views.web(home) as web, sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        visit = browser.new_page()
        visit.goto(web.another_link())
        visit.goto(visit.url.rstrip("/") + path)
        paint = visit.wait_for_function(PAINT).json_value()
        found.add("first paint", "ms", paint)
        browser.close()


PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


# -- the page


def text(result: Result) -> tuple[str, ...]:
    series = result.series
    steps = [
        (label, series[f"{one}: {ALONE}"], series[f"{one}: {SEEN}"])
        for one, label in BESIDE.items()
    ]
    start = [(f"{one}", series[one], series[f"{one}: CPU"], aim) for one, aim in START.items()]
    weight = [
        (one, series[f"{one}: PSS"], series[f"{one}: RSS"], aim) for one, aim in WEIGHT.items()
    ]
    rest = [(one, series[f"{one}: share"], aim) for one, aim in REST.items()]
    actions = result.facts["actions"]
    return (
        result.source,
        page.table(("the daemon", ALONE, SEEN), steps),
        page.table(("from the start to", "wall time", "processor time", "aim"), start),
        page.table(("memory", "PSS", "RSS", "aim"), weight),
        page.table(("at rest", "share of a core", "aim"), rest),
        page.table(
            (f"a page of {actions:,} actions", "wall time", "processor time", "size"),
            _large(series),
        ),
    )


def _large(series: dict[str, Series]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [
        (label, series[one], series[f"{one}: CPU"], f"{short(series[f'{one}: size'].median)} kB")
        for one, label in LARGE.items()
    ]
    if paint := series.get("first paint"):
        rows.append(("first paint in Chromium, aim 1 s and 2 MB", paint, "", ""))
    return rows


def measure(options: runner.Options, found: Recorder) -> dict[str, int]:
    with_byte_code()
    beside(options, found)
    starts(options.rounds, options.stretch, found)
    large(options.actions, options.rounds, found)
    return {"actions": options.actions}


if __name__ == "__main__":
    runner.main(
        measure,
        rounds=(6, "of each kind, in turns"),
        steps=(300, "a round"),
        stretch=(5.0, "seconds of each rest"),
        actions=(10_000, "of the long goal"),
    )
