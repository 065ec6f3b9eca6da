"""What lies in the inbox and will not become a goal: named with its reason, bounded, the newest first."""

import os
import socket

import pytest

from clew_daemon.inbox import leftovers
from clew_daemon.inbox.leftovers import left


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    (folder / "rejected").mkdir(parents=True)
    return folder


def reasons(found):
    return {one["name"]: (one["rejected"], one["reason"]) for one in found.shown}


def reject(inbox, name, error):
    (inbox / "rejected" / name).write_text("x")
    (inbox / "rejected" / f"{name}.error.txt").write_text(error)


def test_a_missing_inbox_has_nothing_in_it(tmp_path):
    assert left(tmp_path / "none").view() == {"inbox": [], "inbox_total": 0}


def test_goals_and_temporary_files_are_not_named(inbox):
    for name in ("goal.md", "goal.txt", ".hidden", "x.tmp", "x.part", "x~"):
        (inbox / name).write_text("x")
    assert left(inbox).total == 0


def test_each_entry_that_is_never_taken_is_named_with_its_reason(inbox):
    (inbox / "notes.markdown").write_text("x")
    (inbox / "folder.md").mkdir()
    os.mkfifo(inbox / "pipe.md")
    (inbox / "away.md").symlink_to("/nowhere")
    (inbox / "to-folder.md").symlink_to(inbox)
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(inbox, os.O_PATH)
        bound.bind(f"/proc/self/fd/{here}/s.md")
        os.close(here)
    found = reasons(left(inbox))
    assert "must end in .md or .txt" in found["notes.markdown"][1]
    assert found["folder.md"] == (False, "a folder; only files are taken")
    assert found["pipe.md"] == (False, "a FIFO; only files are taken")
    assert found["s.md"] == (False, "a socket; only files are taken")
    assert found["away.md"] == (False, "a link that leads nowhere; only files are taken")
    assert found["to-folder.md"] == (False, "a folder; only files are taken")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_named(inbox):
    (inbox / "goal.md").write_text("x")
    (inbox / "goal.md").chmod(0)
    assert reasons(left(inbox))["goal.md"][1].startswith("permission denied: ")


def test_a_rejected_file_is_named_with_the_first_words_of_its_error(inbox):
    reject(inbox, "a.md", "a.md is empty: write what is to be done\nmore\n")
    reject(inbox, "b.md", "b.md cannot be used:\nline 2: first\nline 3: second\n")
    (inbox / "rejected" / "c.md").write_text("x")
    (inbox / "rejected" / "d.md").write_text("x")
    (inbox / "rejected" / "d.md.error.txt").symlink_to("/etc/passwd")
    assert reasons(left(inbox)) == {
        "a.md": (True, "a.md is empty: write what is to be done"),
        "b.md": (True, "line 2: first; line 3: second"),
        "c.md": (True, "no reason was kept"),
        "d.md": (True, "no reason was kept"),
    }


def test_only_the_newest_are_named_and_all_are_counted(inbox):
    for number in range(leftovers.SHOWN_MAX + 3):
        name = f"{number}.md"
        reject(inbox, name, "no")
        os.utime(inbox / "rejected" / name, (number, number))
    found = left(inbox)
    assert found.total == leftovers.SHOWN_MAX + 3
    assert len(found.shown) == leftovers.SHOWN_MAX
    assert found.shown[0]["name"] == f"{leftovers.SHOWN_MAX + 2}.md"


def test_a_name_that_is_not_utf8_can_be_shown(inbox):
    (inbox / os.fsdecode(b"\xff.markdown")).write_text("x")
    assert left(inbox).shown[0]["name"] == "\\udcff.markdown"
