"""What the world's digest costs by number of files, and an `act` in a real daemon by tool: python -m bench.digest.

First the digest alone, of trees of source files (folders of 20, sizes 0.2 to 20 KB, and ignored folders): cold,
everything looked at again, nothing changed, one file changed. Then an agent that asks for actions in turns, with a real
executor in its sandbox. The aim is a step under 20 ms in a workspace of 100,000 files.
"""

import argparse
import gc
import json
import os
import random
from pathlib import Path
from typing import Any

from bench import figures, home, page, plots
from bench.figures import Recorder

from clew_shared.config.tables import IGNORED
from clew_worker.executor.world.world import WorldWatch

SIZES = (10, 1_000, 10_000, 100_000)
A_FOLDER = 20
AIM_MS = 20.0
DIGESTS = ("cold", "looked at again", "one file changed", "nothing changed")
TOOLS = ("run_cmd", "write_file", "read_file")
ACTS = ("act run_cmd `true`", "act write_file", "act read_file")


def plant(root: Path, files: int) -> None:
    """Make a tree of source files, and a tenth as many in ignored folders."""
    rng, text = random.Random(files), os.urandom(20_000)
    for made in range(files):
        number, index = divmod(made, A_FOLDER)
        folder = root / f"package{number // 40:03}" / f"module{number % 40:02}"
        if index == 0:
            (folder / "__pycache__").mkdir(parents=True)
        (folder / f"file{index:02}.py").write_bytes(text[: rng.randrange(200, 20_000)])
        if index < 2:
            (folder / "__pycache__" / f"file{index:02}.pyc").write_bytes(text[:2_000])


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def watches() -> int:
    """Return the number of inotify watches of this process."""
    lines = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            lines += info.read_text().count("inotify wd:")
        except OSError:
            continue
    return lines


def digests(root: Path, files: int, rounds: int, found: Recorder) -> dict[str, int]:
    """Measure one tree; return what the digest holds."""
    gc.collect()
    before_kb, before = resident_kb(), descriptors()
    watch = WorldWatch(str(root), IGNORED)
    cold, again, changed, unchanged = (f"{files} files: {name}" for name in DIGESTS)
    found.time(cold, watch.digest)
    held = {"files": files, "memory_kb": resident_kb() - before_kb, "watches": watches()}
    held["descriptors"] = descriptors() - before
    changing = root / "package000" / "module00" / "file00.py"
    watch.digest(full=False)
    for number in range(rounds):
        if number < rounds // 4 or files <= 10_000:
            found.time(again, watch.digest)
        changing.write_text(f"# {number}")
        for name in (changed, unchanged):
            found.time(name, lambda: watch.digest(full=False))
    watch.close()
    return held


def acts(root: Path, files: int, rounds: int, found: Recorder) -> None:
    """Have a real agent ask for actions in a workspace, in turns."""
    with home.temporary(home.bench_agent("act", str(rounds), own_tools=False)) as place:
        place.start()
        place.drop("b.md", f"---\nagent: bench\nworkspace: {root}\n---\n# Bench\nact\n")
        home.wait_for(lambda: "the bench is over" in place.log.read_text(), 240)
        printed = [e["line"].split() for e in place.events() if e["event"] == "worker.output"]
    for tool, name in zip(TOOLS, ACTS, strict=True):
        took = [float(line[1]) for line in printed if line[0] == tool]
        found.add(f"{files} files: {name}", "ms", *took)


def tables(kept: figures.Kept) -> tuple[str, ...]:
    held, series = kept[0]["facts"]["held"], kept[1]

    def table(names: tuple[str, ...]) -> str:
        rows = [[h["files"], *(series[f"{h['files']} files: {n}"] for n in names)] for h in held]
        return page.table(["files", *names], [[f"{row[0]:,}", *row[1:]] for row in rows])

    holds = [
        [f"{h['files']:,}", f"{h['memory_kb'] / 1024:.1f} MB", h["watches"], h["descriptors"]]
        for h in held
    ]
    return (
        table(DIGESTS),
        table(ACTS),
        page.table(["files", "memory", "watches", "descriptors"], holds),
        page.image("The digest by files", "digest"),
        page.under(kept[0]),
    )


def plot(held: list[dict[str, Any]], series: dict[str, figures.Series]) -> None:
    curves = {
        f"clew: {name}" if name.startswith("act") else name: [
            (one["files"], series[f"{one['files']} files: {name}"].median) for one in held
        ]
        for name in ("looked at again", "one file changed", ACTS[0])
    }
    plots.lines("digest", "The digest by files", "files", "ms", curves)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.digest", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="files")
    parser.add_argument("--rounds", type=int, default=24, help="values of each kind")
    parser.add_argument("--print", action="store_true", help="save nothing, write no page")
    given = parser.parse_args()
    before, found, held = figures.conditions(), Recorder(), []
    for files in given.sizes:
        with home.disk_folder() as folder:
            plant(folder, files)
            held.append(digests(folder, files, given.rounds, found))
            acts(folder, files, given.rounds, found)
        print(json.dumps(held[-1]), flush=True)
    series = list(found.series.values())
    for one in series:
        print(f"{one.name:40} {one}")
    if not given.print:
        command = figures.command("digest")
        kept = figures.save("digest", command, before, series, held=held, aim_ms=AIM_MS)
        plot(held, kept[1])
        page.write("digest", *tables(kept))


if __name__ == "__main__":
    main()
