"""What the world's digest costs by number of files, and an `act` in a real daemon by tool: python -m bench.digest.

First the digest alone, of trees of source files (folders of 20, sizes 0.2 to 20 KB, and ignored folders): cold,
everything looked at again, nothing changed, one file changed. Then an agent that asks for actions in turns, with a real
executor in its sandbox. The aim is a step under 20 ms in a workspace of 100,000 files.
"""

import gc
import os
import random
from pathlib import Path
from typing import Any

import psutil
from bench import home, page, plots, runner
from bench.figures import Recorder, Result

from clew_shared.config.tables import IGNORED
from clew_worker.executor.world.world import WorldWatch

A_FOLDER = 20
DIGESTS = ("cold", "looked at again", "one file changed", "nothing changed")
ACTS = {
    "run_cmd": "act run_cmd `true`",
    "write_file": "act write_file",
    "read_file": "act read_file",
}
CURVES = {
    "looked at again": "looked at again",
    "one file changed": "one file changed",
    ACTS["run_cmd"]: f"clew: {ACTS['run_cmd']}",
}


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


def digests(root: Path, files: int, rounds: int, found: Recorder) -> dict[str, int]:
    """Measure one tree; return what the digest holds."""
    gc.collect()
    process = psutil.Process()
    before_kb, descriptors = process.memory_info().rss // 1024, process.num_fds()
    watch = WorldWatch(str(root), IGNORED)
    cold, again, changed, unchanged = (f"{files} files: {name}" for name in DIGESTS)
    found.time(cold, watch.digest)
    held = {
        "files": files,
        "memory_kb": process.memory_info().rss // 1024 - before_kb,
        "watches": sum(map(_watches, Path("/proc/self/fdinfo").iterdir())),
        "descriptors": process.num_fds() - descriptors,
    }
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


def _watches(info: Path) -> int:
    """Return the number of inotify watches of a descriptor."""
    try:
        return info.read_text().count("inotify wd:")
    except OSError:
        return 0


def acts(root: Path, files: int, rounds: int, found: Recorder) -> None:
    """Have a real agent ask for actions in a workspace, in turns."""
    with home.temporary(home.bench_agent("act", str(rounds), own_tools=False)) as place:
        place.start()
        place.drop("b.md", f"---\nagent: bench\nworkspace: {root}\n---\n# Bench\nact\n")
        home.wait_for(lambda: "the bench is over" in place.log.read_text(), 240)
        printed = [event["line"].split() for event in place.events("worker.output")]
    for tool, name in ACTS.items():
        took = [float(line[1]) for line in printed if line[0] == tool]
        found.add(f"{files} files: {name}", "ms", *took)


def text(result: Result) -> tuple[str, ...]:
    held = result.facts["held"]
    sizes = {f"{one['files']} files": f"{one['files']:,}" for one in held}
    holds = [
        [f"{h['files']:,}", f"{h['memory_kb'] / 1024:.1f} MB", h["watches"], h["descriptors"]]
        for h in held
    ]
    tables = [
        page.grid(result.series, sizes, {name: name for name in names}, corner="files")
        for names in (DIGESTS, ACTS.values())
    ]
    return (
        *tables,
        page.table(["files", "memory", "watches", "descriptors"], holds),
        page.image("The digest by files", "digest"),
        result.source,
    )


def plot(result: Result) -> None:
    sizes = [one["files"] for one in result.facts["held"]]
    curves: plots.Curves = {
        label: [(size, result.series[f"{size} files: {name}"].median) for size in sizes]
        for name, label in CURVES.items()
    }
    plots.lines("digest", "The digest by files", "files", "ms", curves)


def measure(options: runner.Options, found: Recorder) -> dict[str, Any]:
    held = []
    for files in options.sizes:
        with home.disk_folder() as folder:
            plant(folder, files)
            held.append(digests(folder, files, options.rounds, found))
            acts(folder, files, options.rounds, found)
        print(held[-1], flush=True)
    return {"held": held}


if __name__ == "__main__":
    sizes = ([10, 1_000, 10_000, 100_000], "files")
    runner.main(measure, sizes=sizes, rounds=(24, "values of each kind"))
