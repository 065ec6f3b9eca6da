"""The steps that a dropped file goes through, cut off at every one of them."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clew_daemon.inbox.files import (
    BeingWritten,
    Found,
    claim,
    find,
    look_around,
    read,
    reject,
    remove,
)

KILLED_AT = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from clew_daemon.inbox import files
    verb, folder, point = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    path = folder / "goal.md"
    found = files.find(path)
    steps = 0
    def hook(event, args):
        global steps
        if event in ("os.rename", "os.remove", "open", "os.mkdir", "fcntl.fcntl"):
            steps += 1
            if steps == point:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    claim = files.claim(found)
    drop = files.read(claim)
    print(*drop.identity, flush=True)
    if verb == "remove":
        files.remove(claim)
    else:
        files.reject(claim, folder / "rejected", "no good")
    """
)


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    path = tmp_path / "goal.md"
    path.write_text("# Goal")
    return path


def run_killed_at(verb: str, folder: Path, point: int) -> tuple[bool, str]:
    """Whether the step was reached before the work was done, and the identity that was read by then."""
    command = [sys.executable, "-c", KILLED_AT, verb, str(folder), str(point)]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0, done.stdout.strip()


def claimed(path: Path) -> Found:
    return claim(find(path))


def found_again(folder: Path) -> Found | None:
    """Give the file as the next daemon finds it, claimed; None where it is gone."""
    found = look_around(folder)
    assert len(found) < 2
    return claim(found[0]) if found else None


def visible(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("verb", ["remove", "reject"])
def test_a_kill_at_any_step_leaves_the_file_whole_and_known_again(tmp_path, verb):
    """Once it may have been accepted (its identity was read), it must be known by that, or be gone."""
    point, killed = 0, True
    while killed:
        point += 1
        folder = tmp_path / f"{point}"
        folder.mkdir()
        (folder / "goal.md").write_text("# Goal")
        killed, identity = run_killed_at(verb, folder, point)
        found = found_again(folder)
        if found is None:
            assert identity
            left = {"goal.md", "goal.md.error.txt"} if verb == "reject" else set()
            assert {p.name for p in (folder / "rejected").glob("*")} == left
            continue
        drop = read(found)
        assert drop.raw == b"# Goal"
        assert identity in ("", " ".join(map(str, drop.identity)))
        if verb == "reject":
            assert reject(found, folder / "rejected", "no good")
            assert visible(folder) == {}
            assert visible(folder / "rejected") == {
                "goal.md": "# Goal",
                "goal.md.error.txt": "no good\n",
            }
        else:
            remove(found)
            assert visible(folder) == {}
    assert point > 5


def test_a_file_that_is_open_for_writing_is_neither_claimed_nor_read(goal):
    with goal.open("a"), pytest.raises(BeingWritten):
        claimed(goal)
    one = claimed(goal)
    with one.path.open("a"), pytest.raises(BeingWritten):
        read(one)  # opened just before it was claimed
    with goal.parent.joinpath(one.path.name).open():
        assert read(one).raw == b"# Goal"
