"""The steps that a dropped file goes through, cut off at every one of them."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clew_daemon import inbox_files
from clew_daemon.inbox_files import Changed, look_at, put_back, read, reject, remove, restore

KILLED_AT = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from clew_daemon import inbox_files
    verb, folder, point, whole = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if whole == "plain":
        inbox_files._renameat2 = None
    path = folder / "goal.md"
    look = inbox_files.look_at(path)
    steps = 0
    def hook(event, args):
        global steps
        if event in ("os.rename", "os.remove", "open", "os.mkdir", "os.link"):
            steps += 1
            if steps == point:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    if verb == "remove":
        inbox_files.remove(path, look)
    else:
        inbox_files.reject(path, look, folder / "rejected", "no good")
    """
)


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    path = tmp_path / "goal.md"
    path.write_text("# Goal")
    return path


def run_killed_at(verb: str, folder: Path, point: int, way: str) -> bool:
    """Whether the step was reached before the work was done."""
    command = [sys.executable, "-c", KILLED_AT, verb, str(folder), str(point), way]
    code = subprocess.run(command, check=False, timeout=60).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def visible(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("way", ["renameat2", "plain"])
def test_a_kill_at_any_step_of_removing_leaves_the_file_whole_or_gone(tmp_path, way):
    point, killed = 0, True
    while killed:
        point += 1
        folder = tmp_path / f"{point}"
        folder.mkdir()
        (folder / "goal.md").write_text("# Goal")
        before = look_at(folder / "goal.md")
        killed = run_killed_at("remove", folder, point, way)
        assert restore(folder) == []
        assert names(folder) == [] or look_at(folder / "goal.md") == before
    assert names(folder) == []
    assert point > 2


@pytest.mark.parametrize("way", ["renameat2", "plain"])
def test_a_kill_at_any_step_of_rejecting_loses_nothing_and_rejects_once(tmp_path, way):
    point, killed = 0, True
    while killed:
        point += 1
        folder = tmp_path / f"{point}"
        folder.mkdir()
        (folder / "goal.md").write_text("# Goal")
        killed = run_killed_at("reject", folder, point, way)
        restore(folder)
        if (folder / "goal.md").exists():
            look = look_at(folder / "goal.md")
            assert look is not None
            assert reject(folder / "goal.md", look, folder / "rejected", "no good")
        assert visible(folder) == {}
        assert visible(folder / "rejected") == {
            "goal.md": "# Goal",
            "goal.md.error.txt": "no good\n",
        }
    assert point > 4


def test_a_file_that_took_the_name_is_given_it_back(goal):
    look = look_at(goal)
    goal.unlink()
    goal.write_text("another")
    assert look is not None
    assert not remove(goal, look)
    assert visible(goal.parent) == {"goal.md": "another"}


def test_a_file_that_took_the_name_is_not_rejected_in_its_place(goal):
    look = look_at(goal)
    goal.write_text("changed in place")
    assert look is not None
    assert reject(goal, look, goal.parent / "rejected", "no good") is None
    assert visible(goal.parent) == {"goal.md": "changed in place"}
    assert names(goal.parent / "rejected") == []


def test_what_is_put_back_never_replaces_a_third_file(tmp_path):
    (tmp_path / "hidden").write_text("second")
    (tmp_path / "goal.md").write_text("third")
    assert put_back(tmp_path / "hidden", tmp_path / "goal.md").name == "goal-2.md"
    assert visible(tmp_path) == {"goal.md": "third", "goal-2.md": "second"}


def test_a_hidden_file_that_was_not_the_accepted_one_gets_its_name_again(goal):
    (goal.parent / ".clew-taken-1-2-3.goal.md").write_text("someone's")
    goal.unlink()
    assert restore(goal.parent) == ["goal.md"]
    assert visible(goal.parent) == {"goal.md": "someone's"}


def test_a_name_as_long_as_names_may_be_can_be_removed_and_rejected(tmp_path):
    path = tmp_path / ("ä" * 126 + ".md")
    for verb in ("remove", "reject"):
        path.write_text("long")
        look = look_at(path)
        assert look is not None
        if verb == "remove":
            assert remove(path, look)
        else:
            assert reject(path, look, tmp_path / "rejected", "too long")
    assert visible(tmp_path) == {}
    assert sorted(visible(tmp_path / "rejected").values()) == ["long", "too long\n"]


def test_a_name_that_is_no_unicode_is_read_and_rejected(tmp_path):
    path = tmp_path / os.fsdecode(b"goal-\xff.md")
    path.write_text("text")
    look = look_at(path)
    assert look is not None
    assert read(path, look).raw == b"text"
    assert reject(path, look, tmp_path / "rejected", f"{path.name} is not good")
    assert (tmp_path / "rejected" / path.name).read_text() == "text"


def test_a_file_that_changed_since_it_was_looked_at_is_not_read(goal):
    look = look_at(goal)
    goal.write_text("# Goal, changed")
    assert look is not None
    with pytest.raises(Changed):
        read(goal, look)


def test_a_fifo_that_took_the_name_is_not_waited_for(goal, monkeypatch):
    look = look_at(goal)
    goal.unlink()
    os.mkfifo(goal)
    assert look is not None
    monkeypatch.setattr(inbox_files, "look_at", lambda _: look)
    with pytest.raises(Changed):
        read(goal, look)


def test_a_hidden_file_whose_folder_has_no_room_for_it_is_found_again(goal, monkeypatch):
    look = look_at(goal)
    assert look is not None

    def fail(source, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(inbox_files, "rename_new", fail)
        with pytest.raises(OSError, match="No space"):
            reject(goal, look, goal.parent / "rejected", "no good")
    assert restore(goal.parent) == ["goal.md"]
