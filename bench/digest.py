"""What the world's digest costs by number of files, and an `act` in a real daemon by tool: python -m bench.digest.

First the digest alone, in this process, of trees of source files (folders of 20, sizes 0.2 to 20 KB, and folders that
are ignored): cold, everything looked at again, nothing changed, one file changed. Then a real daemon with a real
executor in its sandbox, and an agent that asks for actions in turns. No timing is asserted; the aim is a step under
20 ms in a workspace of 100,000 files.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import figures, home, page, plots
from bench.figures import Series

from clew_shared.config.tables import IGNORED
from clew_worker.executor.world.world import WorldWatch

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (10, 1_000, 10_000, 100_000)
A_FOLDER = 20
AIM_MS = 20.0
DOINGS = ("cold", "looked at again", "one file changed", "nothing changed")
TOOLS = {
    "run_cmd": "run_cmd `true`",
    "write_file": "write_file",
    "read_file": "read_file",
}
AGENT = Path(__file__).parent / "acting_agent.py"


def plant(root: Path, files: int) -> None:
    """Make a tree of source files, a tenth as many again in folders that are ignored."""
    rng = random.Random(files)
    text = os.urandom(20_000)
    made = 0
    while made < files:
        number = made // A_FOLDER
        folder = root / f"package{number // 40:03}" / f"module{number % 40:02}"
        (folder / "__pycache__").mkdir(parents=True)
        for index in range(min(A_FOLDER, files - made)):
            (folder / f"file{index:02}.py").write_bytes(text[: rng.randrange(200, 20_000)])
            made += 1
        for index in range(2):
            (folder / "__pycache__" / f"file{index:02}.pyc").write_bytes(text[:2_000])


def timed(what: Callable[[], object], values: list[float]) -> None:
    """Add what one call took, in ms."""
    began = time.perf_counter()
    what()
    values.append((time.perf_counter() - began) * 1e3)


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def watches() -> int:
    """Count the inotify watches of this process."""
    lines = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            lines += info.read_text().count("inotify wd:")
        except OSError:
            continue
    return lines


def digests(root: Path, files: int, rounds: int) -> tuple[list[Series], dict[str, int]]:
    """Measure one tree; gives the series and what the digest holds."""
    values: dict[str, list[float]] = {name: [] for name in DOINGS}
    gc.collect()
    before_kb, before = resident_kb(), descriptors()
    watch = WorldWatch(str(root), IGNORED)
    timed(watch.digest, values["cold"])
    held = {
        "files": files,
        "memory_kb": resident_kb() - before_kb,
        "watches": watches(),
        "descriptors": descriptors() - before,
    }
    changing = root / "package000" / "module00" / "file00.py"
    watch.digest(full=False)
    for number in range(rounds):
        if number < rounds // 4 or files <= 10_000:
            timed(watch.digest, values["looked at again"])
        changing.write_text(f"# {number}")
        timed(lambda: watch.digest(full=False), values["one file changed"])
        timed(lambda: watch.digest(full=False), values["nothing changed"])
    watch.close()
    return [Series(f"{files} files: {name}", "ms", values[name]) for name in DOINGS], held


def acts(root: Path, files: int, rounds: int) -> list[Series]:
    """Have a real agent ask for actions in a workspace, in turns; series by tool."""
    config = "[limits]\nmax_actions = 1000000\n" + home.command_agent(
        "bench", AGENT, str(rounds), own_tools=False
    )
    with home.throw_away(config) as place:
        place.start()
        goal = f"---\nagent: bench\nworkspace: {root}\n---\n# Bench\nact\n"
        place.drop("b.md", goal)
        home.wait_for(lambda: "the bench is over" in place.log.read_text(), 240)
        printed = [json.loads(line) for line in place.log.read_text().splitlines()]
    lines = [one["line"].split() for one in printed if one["event"] == "worker.output"]
    took = {tool: [float(line[1]) for line in lines if line[0] == tool] for tool in TOOLS}
    return [Series(f"{files} files: act {name}", "ms", took[tool]) for tool, name in TOOLS.items()]


def measure(sizes: list[int], rounds: int) -> tuple[list[Series], list[dict[str, int]]]:
    """Measure every size, one tree at a time."""
    series, held = [], []
    where = os.environ.get("BENCH_DIR", "/var/tmp")
    for files in sizes:
        with tempfile.TemporaryDirectory(prefix="clew-tree-", dir=where) as name:
            plant(Path(name), files)
            found, holds = digests(Path(name), files, rounds)
            series += [*found, *acts(Path(name), files, rounds)]
            held.append(holds)
            print(*found, *series[-len(TOOLS) :], holds, sep="\n", flush=True)
    return series, held


def tables() -> str:
    """The part of the page, from what was kept."""
    kept, series = figures.load("digest")
    held = kept["facts"]["held"]
    names = [*DOINGS, *(f"act {name}" for name in TOOLS.values())]
    rows = [
        [f"{one['files']:,}", *(str(series[f"{one['files']} files: {name}"]) for name in names)]
        for one in held
    ]
    holds = [
        [f"{h['files']:,}", f"{h['memory_kb'] / 1024:.1f} MB", h["watches"], h["descriptors"]]
        for h in held
    ]
    curves = {
        f"clew: {name}" if name.startswith("act") else name: [
            (one["files"], series[f"{one['files']} files: {name}"].median) for one in held
        ]
        for name in ("looked at again", "one file changed", "act run_cmd `true`")
    }
    plots.lines("digest", "The digest by files", "files", "ms", curves, log="xy")
    return "\n\n".join(
        (
            page.table(["files", *names[: len(DOINGS)]], [row[: len(DOINGS) + 1] for row in rows]),
            page.table(
                ["files", *names[len(DOINGS) :]],
                [[row[0], *row[len(DOINGS) + 1 :]] for row in rows],
            ),
            page.table(["files", "memory", "watches", "descriptors"], holds),
            "![The digest by files](performance/digest.svg)",
            page.under(kept),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.digest")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="files")
    parser.add_argument("--rounds", type=int, default=24, help="values of each kind")
    parser.add_argument("--print", action="store_true", help="keep nothing, write no page")
    given = parser.parse_args()
    before = figures.conditions()
    series, held = measure(given.sizes, given.rounds)
    if not given.print:
        figures.save("digest", figures.command("digest"), before, series, held=held, aim_ms=AIM_MS)
        page.write("digest", tables())


if __name__ == "__main__":
    main()
