"""Whose each change in a workspace is: what was collected between two looks, and how it is reported."""

import os
import shutil
import subprocess

import pytest

from clew_shared.record import touched
from clew_shared.record.touched import Touched
from clew_worker.executor import attribution
from clew_worker.executor.attribution import Attribution
from clew_worker.executor.world import contents, tree
from clew_worker.executor.world.world import WorldWatch


def git_id(data):
    """The name that git itself gives a content."""
    done = subprocess.run(
        ["git", "hash-object", "--stdin"], input=data, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


class Looks:
    """A workspace that is looked at, and what changes in it."""

    def __init__(self, root):
        self.root = root
        self.watch = WorldWatch(str(root), (".git", "skipped"))
        self.attribution = Attribution(self.watch)
        self.watch.digest()
        self.attribution.sort(own=False)
        self.attribution.anchor()

    def close(self):
        self.watch.close()

    def changed(self, change):
        """What an action that makes a change is reported to have changed."""
        self.attribution.look()
        change(self.root)
        self.attribution.look(own=True)
        return dict(self.attribution.report().own)


@pytest.fixture(params=["looked at whole", "watched", "blind"])
def how(request, monkeypatch):
    if request.param != "looked at whole":
        monkeypatch.setattr(tree, "WATCHED_FROM", 0)
    if request.param == "blind":
        monkeypatch.setattr(tree, "WATCHES_MAX", 2)
    return request.param


@pytest.fixture
def looks(tmp_path, how):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o644)
    (tmp_path / "link").symlink_to("file")
    for name in ("sub", "sub/below", "empty", "skipped"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
    (tmp_path / "sub" / "one").write_text("1")
    (tmp_path / "sub" / "below" / "two").write_text("2")
    found = Looks(tmp_path)
    yield found
    found.close()


NEW = git_id(b"new")
OLD = git_id(b"old")


def replace_folder(root):
    shutil.rmtree(root / "sub")
    (root / "sub").mkdir()
    (root / "sub").chmod(0o755)
    (root / "sub" / "one").write_text("new")


def swap_for_file(root):
    shutil.rmtree(root / "sub")
    (root / "sub").write_text("new")


def swap_for_folder(root):
    (root / "file").unlink()
    (root / "file").mkdir()
    (root / "file" / "x").write_text("new")


def swap_for_link(root):
    (root / "file").unlink()
    (root / "file").symlink_to("new")


@pytest.mark.parametrize(
    ("change", "own"),
    [
        (lambda root: (root / "file").write_text("new"), {"file": NEW}),
        (lambda root: (root / "n").write_text("new"), {"n": NEW}),
        (lambda root: (root / "file").unlink(), {"file": ""}),
        (lambda root: (root / "file").chmod(0o600), {"file": OLD}),
        (lambda root: (root / "sub").chmod(0o700), {"sub": "/"}),
        (lambda root: (root / "file").rename(root / "z"), {"file": "", "z": OLD}),
        (lambda root: (root / "n").mkdir(), {"n": "/"}),
        (lambda root: (root / "empty").rmdir(), {"empty": ""}),
        (lambda root: (root / "n").symlink_to("new"), {"n": NEW}),
        (lambda root: os.mkfifo(root / "n"), {"n": "?"}),
        (lambda root: (root / "sub" / "below" / "two").write_text("new"), {"sub/below/two": NEW}),
        (
            lambda root: shutil.rmtree(root / "sub"),
            {"sub": "", "sub/one": "", "sub/below": "", "sub/below/two": ""},
        ),
        (
            lambda root: (root / "sub").rename(root / "moved"),
            {
                "sub": "",
                "sub/one": "",
                "sub/below": "",
                "sub/below/two": "",
                "moved": "/",
                "moved/below": "/",
                "moved/one": git_id(b"1"),
                "moved/below/two": git_id(b"2"),
            },
        ),
        (
            lambda root: shutil.copytree(root / "sub", root / "n"),
            {"n": "/", "n/below": "/", "n/one": git_id(b"1"), "n/below/two": git_id(b"2")},
        ),
        (replace_folder, {"sub/one": NEW, "sub/below": "", "sub/below/two": ""}),
        (swap_for_file, {"sub": NEW, "sub/one": "", "sub/below": "", "sub/below/two": ""}),
        (swap_for_folder, {"file": "/", "file/x": NEW}),
        (swap_for_link, {"file": NEW}),
        (lambda root: (root / "a\nb").write_text("new"), {'"a\\nb"': NEW}),
        (lambda root: (root / "\udcff").write_text("new"), {'"\\377"': NEW}),
        (lambda root: os.utime(root / "file", (1, 1)), {}),
        (lambda root: (root / "file").write_text("old"), {}),
        (lambda root: (root / "skipped" / "x").write_text("new"), {}),
        (lambda root: (root / ".agent_context").mkdir(), {}),
    ],
)
def test_an_action_is_reported_with_what_it_changed(looks, change, own):
    assert looks.changed(change) == own
    assert looks.changed(lambda _: None) == {}


def test_what_is_changed_between_actions_is_someone_elses(looks):
    (looks.root / "file").write_text("theirs")
    looks.watch.digest()  # as the daemon does between two actions
    looks.attribution.sort(own=False)
    (looks.root / "sub" / "one").unlink()
    looks.attribution.look()
    (looks.root / "mine").write_text("new")
    looks.attribution.look(own=True)
    assert looks.attribution.report() == Touched(
        own=(("mine", NEW),), own_total=1, foreign=("file", "sub/one"), foreign_total=2
    )
    assert looks.attribution.report() == Touched()


def test_a_file_that_both_changed_is_reported_as_both(looks):
    (looks.root / "file").write_text("theirs")
    looks.attribution.look()
    (looks.root / "file").write_text("new")
    looks.attribution.look(own=True)
    found = looks.attribution.report()
    assert (found.own, found.foreign) == ((("file", NEW),), ("file",))


def test_what_a_check_changed_is_reported_with_the_next_action(looks):
    looks.attribution.look()
    (looks.root / "file").write_text("by a check")
    looks.attribution.look(own=True)
    (looks.root / "theirs").touch()
    looks.attribution.look()
    (looks.root / "n").write_text("new")
    looks.attribution.look(own=True)
    found = looks.attribution.report()
    assert found.own == (("file", git_id(b"by a check")), ("n", NEW))
    assert found.foreign == ("theirs",)


def test_a_restore_is_not_someone_elses(looks):
    (looks.root / "sub" / "one").unlink()
    (looks.root / "sub" / "below" / "two").write_text("restored")
    (looks.root / "theirs").touch()
    looks.attribution.look_after_restore(["sub/one", "sub/below/two"])
    assert looks.attribution.report().foreign == ("theirs",)


def test_until_there_is_a_snapshot_nothing_is_known_of_what_others_did(tmp_path):
    looks = Looks(tmp_path)
    fresh = Attribution(looks.watch)
    fresh.look()
    assert fresh.report() == Touched(foreign_total=-1)
    fresh.anchor()
    assert fresh.report() == Touched()
    looks.close()


def test_a_look_that_does_not_see_everything_knows_nothing(looks, monkeypatch):
    monkeypatch.setattr(tree, "ENTRIES_MAX", 3)
    assert looks.changed(lambda root: (root / "n").write_text("new")) == {}
    looks.attribution.look()
    looks.attribution.look(own=True)
    assert looks.attribution.report() == Touched(own_total=-1, foreign_total=-1)
    monkeypatch.undo()
    looks.attribution.look()  # since the last look that saw not everything: still not known
    looks.attribution.look(own=True)
    assert looks.attribution.report() == Touched(foreign_total=-1)
    assert looks.changed(lambda root: (root / "m").write_text("new")) == {"m": NEW}


def test_more_changes_than_are_compared_are_not_known(looks, monkeypatch):
    monkeypatch.setattr(tree, "TRACES_MAX", 3)
    looks.attribution.look()
    for number in range(5):
        (looks.root / f"n{number}").touch()
    looks.attribution.look(own=True)
    assert looks.attribution.report() == Touched(own_total=-1)


def test_more_names_than_are_collected_are_not_known(looks, monkeypatch):
    monkeypatch.setattr(attribution, "PENDING_MAX", 3)
    for number in range(5):
        (looks.root / f"n{number}").touch()
    looks.attribution.look()
    assert looks.attribution.report() == Touched(foreign_total=-1)


def test_a_report_lists_the_first_names_and_counts_all(looks):
    def change(root):
        for number in range(touched.NAMES_MAX + 5):
            (root / f"n{number:05}").touch()

    looks.attribution.look()
    change(looks.root)
    looks.attribution.look(own=True)
    found = looks.attribution.report()
    assert (len(found.own), found.own_total) == (touched.NAMES_MAX, touched.NAMES_MAX + 5)
    assert found.own_cut
    assert found.own[0] == ("n00000", git_id(b""))
    assert len(found.paths) == touched.PATHS_MAX


def test_long_names_are_listed_as_far_as_they_fit(looks):
    def change(root):
        for number in range(900):
            (root / ("\x01" * 240 + f"{number}")).touch()

    looks.attribution.look()
    change(looks.root)
    looks.attribution.look(own=True)
    found = looks.attribution.report()
    assert 0 < len(found.own) < found.own_total == 900
    assert len(found.model_dump_json()) < 1.1 * touched.NAMES_BYTES_MAX


def test_a_file_that_is_too_large_is_named_and_not_read(looks, monkeypatch):
    monkeypatch.setattr(contents, "CONTENT_BYTES_MAX", 2)
    assert looks.changed(lambda root: (root / "file").write_text("new")) == {"file": "?"}
