"""What a snapshot of a workspace costs, by number of files: python -m bench.snapshots.

The executor's own code takes them, beside the daemon's event loop, with the look at the workspace before. The aim, with
nothing changed: 20 ms.
"""

import shutil
import socket
from pathlib import Path
from typing import Any

from bench import home, page, runner
from bench.digest import plant
from bench.figures import Recorder, Result

from clew_shared.config.tables import IGNORED
from clew_shared.wire.executor import SnapshotDone, SnapshotRequest
from clew_shared.wire.nursery import CellSpec, SandboxSpec
from clew_worker.executor.attribution import Attribution
from clew_worker.executor.snapshots.taking import SnapshotTaker
from clew_worker.executor.wire import Wire
from clew_worker.executor.workspace import Workspace
from clew_worker.executor.world.world import WorldWatch

KINDS = ("the first", "one file changed", "nothing changed", "nothing changed, a new executor")
MB = 1 << 20


def snapshots(folder: Path, files: int, rounds: int, found: Recorder) -> dict[str, Any]:
    """Measure one tree; return what the store uses, and what one that changed a file adds to it."""
    root, store = folder / "workspace", folder / "store"
    store.mkdir()
    plant(root, files)
    sandbox = SandboxSpec(workspace=str(root), store=str(store))
    git = shutil.which("git") or "/usr/bin/git"
    spec = CellSpec(kind="executor", sandbox=sandbox, cwd=str(root), git=git, ignore=IGNORED)
    ours, theirs = socket.socketpair()
    looks = Attribution(WorldWatch(str(root), IGNORED))
    taker = SnapshotTaker(spec, Workspace(str(root)), Wire(ours))

    def take() -> SnapshotDone:
        looks.look()
        return taker.take(request, looks.seen)

    request = SnapshotRequest(id=1, max_file_bytes=10 * MB, room_bytes=2_000 * MB)
    first, changed, unchanged, renewed = (f"{files} files: {kind}" for kind in KINDS)
    done = found.time(first, take)
    held = {"files": files, "first_kb": done.bytes // 1024, "more_kb": 0.0}
    request = request.model_copy(update={"base": done.tree})
    for number in range(rounds):
        (root / "package000" / "module00" / "file00.py").write_text(f"# {number}")
        done = found.time(changed, take)
        held["more_kb"] = round(done.bytes / 1024, 1)
        found.time(unchanged, take)
        taker = SnapshotTaker(spec, Workspace(str(root)), Wire(ours))
        found.time(renewed, take)
    theirs.close()
    if done.fault:
        raise SystemExit(done.fault)
    return held


def text(result: Result) -> tuple[str, ...]:
    held = result.facts["held"]
    sizes = {f"{one['files']} files": f"{one['files']:,}" for one in held}
    rows = [
        [f"{h['files']:,}", f"{h['first_kb'] / 1024:.1f} MB", f"{h['more_kb']} kB"] for h in held
    ]
    return (
        page.grid(result.series, sizes, {kind: kind for kind in KINDS}, corner="files"),
        page.table(["files", "store after the first", "more with one file changed"], rows),
        result.source,
    )


def measure(options: runner.Options, found: Recorder) -> dict[str, Any]:
    held = []
    for files in options.sizes:
        with home.disk_folder() as folder:
            held.append(snapshots(folder, files, options.rounds, found))
    return {"held": held}


if __name__ == "__main__":
    sizes = ([2_000, 20_000], "files")
    runner.main(measure, sizes=sizes, rounds=(12, "values of each kind"))
