"""A backup of a ledger that is being written, and a home that goes on from one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import on_terminal

from clew_daemon.cli.commands.verify import check_ledger

SECRET = "hunter2abc9"
STEPS = "".join(f"- [ ] Step {i}\n  ```sh\n  echo {i} >> trace\n  ```\n" for i in range(6))
WRITER = """
hello()
n = 0
while True:
    n += 1
    call("record", tool="look", args={"n": n}, result="success", output=f"{n} " * 2000, changed=True)
"""


def backed_up(clew, name="copy.db", *options) -> dict:
    return json.loads(clew.cli("backup", str(clew.folder / name), "--json", *options))


def restored(clew, name="copy.db") -> dict:
    return json.loads(clew.cli("restore", str(clew.folder / name), "--json"))


def verified(clew) -> bool:
    return check_ledger(clew.ledger).ok


def test_a_backup_of_a_ledger_under_writing_is_whole_and_the_writing_goes_on(clew):
    clew.agent("writer", WRITER)
    goal = clew.start().submit("---\nagent: writer\n---\n# Write\n")
    clew.wait("action.finished", goal=goal, count=50)
    for number in range(3):
        since = clew.now()
        told = backed_up(clew, f"copy-{number}.db")
        copy = clew.folder / f"copy-{number}.db"
        assert told["bytes"] == copy.stat().st_size
        assert copy.stat().st_mode & 0o777 == 0o600
        found = check_ledger(copy)
        assert (found.ok, found.events, found.goals) == (True, told["events"], 1)
        clew.wait("action.finished", since=since, count=20)
    wal = clew.home / "state" / "ledger.db-wal"
    assert wal.stat().st_size < 32 << 20
    assert sorted(p.name for p in clew.folder.glob("*copy*")) == [f"copy-{n}.db" for n in range(3)]


def test_a_forced_backup_replaces_no_link_fifo_config_or_other_file(clew):
    clew.start()
    clew.stop()
    text, link, pipe = (clew.folder / name for name in ("text", "link", "pipe"))
    text.write_text("mine")
    real = clew.folder / "real.db"
    backed_up(clew, "real.db")
    link.symlink_to(real)
    os.mkfifo(pipe)
    config = clew.home / "config.toml"
    found = {
        text: "neither an earlier backup nor empty",
        link: "neither an earlier backup nor empty",
        pipe: "neither an earlier backup nor empty",
        config: "neither an earlier backup nor empty",
        clew.home / "state" / "clew.log": "belongs to clew itself",
    }
    before = {one: (one.lstat().st_ino, one.lstat().st_mode) for one in found}
    for one, why in found.items():
        assert why in clew.cli("backup", str(one), "--force", code=1)
    assert {one: (one.lstat().st_ino, one.lstat().st_mode) for one in found} == before


def test_a_restored_home_goes_on_from_the_backup_and_says_what_is_lost(clew):
    """In the backup a step is in flight; the workspace has gone on since, and a second goal has come."""
    clew.start()
    wait = "echo first >> trace; until test -e go; do sleep 0.02; done"
    goal = clew.submit(
        "---\non_interrupt: retry\n---\n"
        f"# Go\n\n## S\n- [ ] Wait with password={SECRET}\n  ```sh\n  {wait}\n  ```\n{STEPS}",
        "go.md",
    )
    clew.until(lambda: clew.lines(goal, "trace"))
    backed_up(clew)
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    lost = clew.completed(f"# Lost\n\n## S\n{STEPS}", "lost.md")
    assert "a clew daemon is running" in clew.cli("restore", str(clew.folder / "copy.db"), code=1)
    clew.stop()
    (clew.home / "state").chmod(0o777)
    assert "can be written by others" in clew.cli("restore", str(clew.folder / "copy.db"), code=1)
    (clew.home / "state").chmod(0o700)
    assert clew.state(goal)["goal"]["status"] == "completed"

    command, no = clew.command("restore", str(clew.folder / "copy.db")), ("[y/N]: ", "n\n")
    said = on_terminal(command, clew.environment() | {"TERM": "xterm"}, 80, answers=[no], code=1)
    assert "nothing was changed" in said
    told = restored(clew)
    assert told["note"].startswith("recorded after the backup: ")
    assert [g["id"] for g in told["goals_lost"]] == [lost]
    assert Path(told["goals_lost"][0]["file"]).read_text().startswith("# Lost")
    assert verified(clew)
    assert check_ledger(Path(told["aside"])).goals == 2
    assert Path(told["aside"]).stat().st_mode & 0o777 == 0o600

    since = clew.now()
    clew.start()
    assert clew.wait("action.interrupted", since=since, goal=goal)["reason"] == "daemon_died"
    clew.wait("goal.completed", since=since, goal=goal)
    clew.stop()
    history = clew.history(goal)
    assert [a["seq"] for a in history] == sorted({a["seq"] for a in history})
    assert [a["result"] for a in history[:2]] == ["interrupted", "success"]
    assert {a["epoch"] for a in history} == {1, 2}
    assert verified(clew)


@pytest.mark.long
def test_what_is_no_sound_backup_is_refused_and_the_ledger_stays(clew):
    clew.start().completed(f"# Go\n\n## S\n{STEPS}")
    clew.stop()
    backed_up(clew)
    whole = (clew.folder / "copy.db").read_bytes()
    before = clew.ledger.read_bytes()

    def refused(name: str, data: bytes) -> str:
        (clew.folder / name).write_bytes(data)
        said = clew.cli("restore", str(clew.folder / name), code=1)
        assert clew.ledger.read_bytes() == before
        assert not list((clew.home / "state").glob("*.part*"))
        return said

    assert "damaged" in refused("changed.db", whole.replace(b"echo 3 >>", b"ECHO 3 >>"))
    assert "damaged" in refused("cut.db", whole[: len(whole) // 2])
    foreign = refused("text.db", b"This is no database." * 500)
    assert "damaged" in foreign
    assert "move it away" not in foreign  # it may be anybody's file
    assert "another program" in refused("other.db", whole[:68] + b"abcd" + whole[72:])
    newer = whole[:60] + (99).to_bytes(4, "big") + whole[64:]
    assert "version 99" in refused("newer.db", newer)
    assert "no ledger" in clew.cli("restore", str(clew.folder / "absent.db"), code=1)
    assert "itself" in clew.cli("restore", str(clew.ledger), code=1)
    assert verified(clew)


@pytest.mark.long
def test_a_restore_killed_anywhere_leaves_one_whole_ledger_or_the_other(clew):
    """Each step that changes a file is the last one of a life, by a wrapper around the calls of the system."""
    clew.start().completed("# First\n\n## S\n- [ ] A\n  ```sh\n  true\n  ```\n", "first.md")
    backed_up(clew)
    clew.completed("# Second\n\n## S\n- [ ] A\n  ```sh\n  true\n  ```\n", "second.md")
    clew.kill()  # so that there is a WAL
    dying = (
        "import os, runpy, signal, sys\n"
        "left = int(os.environ['STEPS'])\n"
        "def counted(call):\n"
        "    def one(*args, **kwargs):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return call(*args, **kwargs)\n"
        "    return one\n"
        "for name in ('link', 'unlink', 'replace', 'rename', 'fsync'):\n"
        "    setattr(os, name, counted(getattr(os, name)))\n"
        "runpy.run_module('clew_daemon', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", dying, "--home", str(clew.home)]
    command += ["restore", str(clew.folder / "copy.db")]  # without a terminal it does not ask
    for steps in range(40):
        env = clew.environment() | {"STEPS": str(steps)}
        done = subprocess.run(command, capture_output=True, timeout=60, env=env, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done
        found = check_ledger(clew.ledger)
        assert found.ok, (steps, found)
        assert found.goals in (1, 2)
        if done.returncode == 0:
            break
        if found.goals == 1:
            kept = [p for p in (clew.home / "state").glob("ledger.db.*Z*") if p.suffix[-1] == "Z"]
            assert any(check_ledger(p).goals == 2 for p in kept), steps
    else:
        raise AssertionError("it never came to its end")
    assert steps > 5
