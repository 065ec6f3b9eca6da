"""Bad input to the real daemon: a clear error each, and nothing lost."""

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

FINE = "# Fine\n\n## Do\n- [ ] It\n  ```sh\n  echo x >> trace\n  ```\n"


def test_a_workspace_that_cannot_be_made_asks_a_person_and_goes_on_when_it_can(clew):
    blocker = clew.folder / "file"
    blocker.write_text("in the way")
    goal = clew.start().submit(f"---\nworkspace: {blocker}/ws\n---\n{FINE}")
    assert "workspace" in clew.wait("goal.blocked", goal=goal)["reason"]
    assert str(blocker) in clew.report(goal)
    blocker.unlink()
    clew.ask("resume", goal=goal)
    clew.wait("goal.completed", goal=goal)
    assert (blocker / "ws" / "trace").read_text() == "x\n"


def ledger(clew):
    return clew.home / "state" / "ledger.db"


def completed(clew):
    """Let one goal complete, stop, and put everything into the main file of the ledger."""
    goal = clew.start().completed(FINE)
    clew.report(goal)
    assert clew.stop() == 0
    return goal


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(clew):
    completed(clew)
    with sqlite3.connect(ledger(clew)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")
    db.close()
    before = ledger(clew).read_bytes()
    said = clew.clew("run", code=78)
    assert "newer" in said
    assert "Traceback" not in said
    assert ledger(clew).read_bytes() == before


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few MiB."""
    if os.geteuid() != 0:
        pytest.skip("a small file system needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Leave no byte free."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_a_full_disk_stops_judging_until_there_is_room_and_nothing_unrecorded_is_done(
    clew, small_disk
):
    clew.configure({"paths.state": str(small_disk / "state")})
    clew.configure({"log.file": str(clew.folder / "clew.log"), "heartbeat.timeout_s": 60.0})
    clew.agent(
        "busy",
        """
        hello()
        for i in range(100_000):
            run(f"echo {i} >> trace")
            if Path("enough").exists():
                break
        done(); call("advance"); done()
        """,
    )
    goal = clew.start().submit("---\nagent: busy\n---\n# Be busy\n\n## A\n- [ ] one\n- [ ] two\n")
    clew.wait("action.finished", goal=goal, count=3)
    fill(small_disk / "ballast")
    clew.wait("ledger.full")
    clew.until(lambda: "full" in clew.ask("ping")["status"])
    clew.drop(FINE, "late.md")
    since = clew.now()
    allowed = len(clew.seen("action.allowed", goal=goal))
    assert len(clew.lines(goal, "trace")) <= allowed
    assert (clew.home / "inbox" / "late.md").exists()
    (small_disk / "ballast").unlink()
    late = clew.wait("goal.accepted", file="late.md", since=since)["goal"]
    clew.wait("goal.completed", goal=late)
    clew.wait("action.finished", goal=goal, since=since)
    (clew.workspace(goal) / "enough").touch()
    clew.wait("goal.completed", goal=goal)
    assert clew.stop() == 0
    assert clew.verified()
    lines = clew.lines(goal, "trace")
    assert lines == sorted(set(lines), key=int)
    recorded = {action["args"].get("cmd") for action in clew.history(goal)}
    assert {f"echo {line} >> trace" for line in lines} <= recorded
