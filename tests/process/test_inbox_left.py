"""Files that will not become goals show up in status and doctor, with a daemon and without one."""

import json
import os


def test_rejected_and_left_files_are_named_with_and_without_a_daemon(clew):
    clew.start()
    clew.drop("", "empty.md")
    clew.wait("goal.rejected", name="empty.md")
    inbox = clew.home / "inbox"
    (inbox / "notes.markdown").write_text("# Do it\n")
    os.mkfifo(inbox / "pipe.md")
    (inbox / "folder.txt").mkdir()

    def named():
        view = json.loads(clew.cli("status", "--json"))
        assert view["inbox_total"] == 4
        return {one["name"]: one for one in view["inbox"]}

    running = named()
    assert running["empty.md"]["rejected"] is True
    assert "empty" in running["empty.md"]["reason"]
    assert {n: one["rejected"] for n, one in running.items() if n != "empty.md"} == {
        "notes.markdown": False,
        "pipe.md": False,
        "folder.txt": False,
    }
    clew.stop()
    assert named() == running
    checks = json.loads(clew.cli("doctor", "--json"))["checks"]
    told = [check["found"] for check in checks if check["name"] == "inbox"]
    assert all(any(one.startswith(name) for one in told) for name in running)
