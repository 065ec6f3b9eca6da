"""What lies in the inbox and will not become a goal is named with its reason."""

import os
import socket

from clew_daemon.inbox.files import left


def test_each_entry_that_is_never_taken_is_named_with_its_reason(tmp_path):
    (tmp_path / "rejected").mkdir()
    (tmp_path / "notes.markdown").write_text("x")
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "away.md").symlink_to("/nowhere")
    (tmp_path / "to-folder.md").symlink_to(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(tmp_path, os.O_PATH)
        bound.bind(f"/proc/self/fd/{here}/s.md")
        os.close(here)
    reasons = {one["name"]: one["reason"] for one in left(tmp_path)["inbox"] if not one["rejected"]}
    assert "must end in .md or .txt" in reasons.pop("notes.markdown")
    names = ("folder.md", "pipe.md", "s.md", "away.md", "to-folder.md")
    assert reasons == dict.fromkeys(names, "only files are taken")
