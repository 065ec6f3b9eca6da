"""What lies in the inbox and will not become a goal is named with its reason."""

import os
import socket

from clew_daemon.inbox.files import Found, Look, left, reject, settle


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


def test_what_was_rejected_is_listed_until_a_file_of_its_name_can_be_used(tmp_path):
    for name in ("a.md", "a.md", "a-2.md", "b.md"):
        (path := tmp_path / f".{name}").write_text("x")
        reject(Found(path, name, Look.of(path.stat())), tmp_path / "rejected", f"{name} is wrong")
    settle(tmp_path / "rejected", "a.md")
    assert {one["name"] for one in left(tmp_path)["inbox"]} == {"a-2-2.md", "b.md"}
    assert (tmp_path / "rejected" / "a-2.md").read_text() == "x"
