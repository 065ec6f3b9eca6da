"""What lies in the inbox and will not become a goal: named with its reason, bounded, the newest first."""

import os
import socket

import pytest

from clew_daemon.inbox.files import left


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    (folder / "rejected").mkdir(parents=True)
    return folder


def reasons(found):
    return {one["name"]: (one["rejected"], one["reason"]) for one in found["inbox"]}


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
