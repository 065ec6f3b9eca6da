"""A ledger that is taken away from under its daemon: it notices, judges nothing more, saves what it has and says so."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from harness import DEADLINE_S, alive, paused, remove_at_once

from clew_daemon.record.goals import GoalStore
from clew_shared.config.settings import Settings
from clew_shared.ledger import Ledger, Reader, note, verify
from clew_shared.record import events as ev
from clew_shared.record.spec import PlannedStep, PlannedSubtask, PlannedTask, Spec

DONE = """
# Say a word

## Only this
- [ ] Say it
  ```sh
  echo the word is amaranth
  ```
"""
STEPS = 400
WORK = "\n".join(
    ["---", "on_interrupt: retry", "---", "# Work on", "", "## Do"]
    + [f"- [ ] Step {i}\n  ```sh\n  echo {i} >> trace; sleep 0.05\n  ```" for i in range(STEPS)]
)
RECORDER = """
hello()
say("ready")
while not __import__("os").path.exists("go"):
    __import__("time").sleep(0.005)
for n in range(10):
    call("record", tool="look", args={"n": n}, result="success", output=f"{n}", changed=True)
say("ten")
while True:
    __import__("time").sleep(0.1)
"""


def ledger_of(clew) -> Path:
    return clew.home / "state" / "ledger.db"


def at_work(clew) -> str:
    """A completed goal, and another one that has taken some steps."""
    clew.start()
    done = clew.submit(DONE, "done.md")
    clew.wait("goal.completed", goal=done)
    goal = clew.submit(WORK, "work.md")
    clew.wait("action.finished", goal=goal, count=3)
    return goal


def older_copy(clew) -> Path:
    old = clew.folder / "old.db"
    clew.clew("backup", str(old))
    return old


def ended(clew) -> str:
    """Wait for the daemon's end, with 78 and nothing left over; its last words."""
    assert clew.daemon.wait(DEADLINE_S) == 78
    clew.assert_alone()
    clew.now()
    said = [
        line
        for line in clew.log.read_text(errors="replace").splitlines()
        if line.startswith("clew: ")
    ]
    assert len(said) == 1, said
    assert clew.seen("ledger.lost")
    return said[0]


def recorded(clew) -> dict:
    """What the log says that was durable: the last number, and how many actions of each kind."""
    return {
        "seq": max(e["seq"] for e in clew.events if "seq" in e),
        "finished": len(clew.seen("action.finished")),
    }


def refused(clew, *words: str) -> str:
    said = clew.clew("run", code=78)
    message = next(line for line in said.splitlines() if line.startswith("clew: "))
    assert all(word in message for word in words), message
    return message


def put_in_the_way(clew) -> None:
    """Files stand where the state and the run folder were: no copy of the ledger can be written."""
    with paused(clew.daemon):
        for folder in ("state", "run"):
            remove_at_once(clew.home / folder)
            (clew.home / folder).write_text("in the way")


def rescued(clew) -> Path:
    (copy,) = (clew.home / "state").glob("ledger.db.rescued-*")
    assert copy.stat().st_mode & 0o777 == 0o600
    return copy


def goes_on(clew, goal: str) -> None:
    """The next daemon has all that was recorded, and works on once a person says so."""
    since = clew.now()
    clew.start()
    if clew.goal(goal)["status"] == "blocked":
        clew.clew("resume", goal)
    clew.wait("action.finished", since=since, goal=goal, count=2)
    assert clew.stop() == 0
    assert clew.verified()


def test_a_state_folder_deleted_under_the_daemon_is_noticed_and_saved(clew):
    goal = at_work(clew)
    with paused(clew.daemon):
        remove_at_once(clew.home / "state")
    message = ended(clew)
    copy = rescued(clew)
    assert str(copy) in message
    assert "clew restore" in message
    assert (clew.home / "state").stat().st_mode & 0o777 == 0o700
    assert verify(copy).ok
    with Reader.open(copy) as reader:
        assert reader.last_seq() >= recorded(clew)["seq"]

    assert str(copy) in refused(clew, "clew restore")
    clew.clew("restore", str(copy))
    goes_on(clew, goal)


@pytest.mark.parametrize("how", ["mv", "cp"])
def test_an_older_ledger_put_over_the_one_in_use_is_noticed(clew, how):
    clew.start()
    first = clew.submit(DONE, "first.md")
    clew.wait("goal.completed", goal=first)
    old = older_copy(clew)
    content = old.read_bytes()
    goal = clew.submit(WORK, "work.md")
    clew.wait("action.finished", goal=goal, count=3)
    subprocess.run([how, str(old), str(ledger_of(clew))], check=True)

    message = ended(clew)
    assert ledger_of(clew).read_bytes() == content  # it is someone else's now
    wal = Path(f"{ledger_of(clew)}-wal")
    if how == "mv":
        copy = rescued(clew)
        assert str(copy) in message
        assert verify(copy).ok
    refused(clew, "clew restore", "is incomplete")
    assert ledger_of(clew).read_bytes() == content
    if copies := list((clew.home / "state").glob("ledger.db.rescued-*")):
        clew.clew("restore", str(copies[0]))
        goes_on(clew, goal)
    else:
        assert how == "cp"
        assert "could not be saved" in message
        assert not wal.exists()
        clew.clew("restore", "--keep")
        clew.start()
        assert set(clew.goals()) == {first}


def test_a_log_that_is_removed_is_moved_into_the_ledger_in_time(clew):
    goal = at_work(clew)
    for end in ("-wal", "-shm"):
        Path(f"{ledger_of(clew)}{end}").unlink()
    message = ended(clew)
    assert "everything recorded is in" in message
    assert verify(ledger_of(clew)).ok
    with Reader.open(ledger_of(clew)) as reader:
        assert reader.last_seq() >= recorded(clew)["seq"]
    goes_on(clew, goal)


def test_a_log_that_is_removed_just_before_a_kill_is_missed_at_the_next_start(clew):
    """Ten more actions, all acknowledged, and SIGKILL before anyone could look."""
    clew.agent("recorder", RECORDER, own_tools=True)
    clew.start()
    goal = clew.submit("---\nagent: recorder\n---\n# Look\n")
    clew.said(goal)
    clew.until(lambda: Path(f"{ledger_of(clew)}.head").exists())
    clew.until(lambda: ledger_of(clew).stat().st_size > 8192)  # the log was moved into it once
    for end in ("-wal", "-shm"):
        Path(f"{ledger_of(clew)}{end}").unlink()
    (clew.workspace(goal) / "go").touch()
    clew.until(
        lambda: len(clew.seen("action.finished", goal=goal)) >= 10 or clew.daemon.poll() is not None
    )
    if clew.daemon.poll() is None:
        clew.kill()
        refused(clew, "is incomplete", "clew restore --keep")
        found = json.loads(clew.clew("verify", "--json", code=1))
        assert "is incomplete" in found["fault"]["message"]
        assert "is incomplete" in clew.clew("doctor", code=1)
        clew.clew("restore", "--keep")
        clew.start()
        clew.stop()
    else:
        assert "everything recorded is in" in ended(clew)


def test_a_daemon_that_was_killed_before_it_recorded_anything_starts_again(clew):
    """Its log is empty then: everything was moved into the ledger at the stop before."""
    clew.start()
    clew.stop()
    clew.start()
    noted = Path(f"{ledger_of(clew)}.head")
    clew.until(lambda: json.loads(noted.read_text())["open"])
    clew.kill()
    assert Path(f"{ledger_of(clew)}-wal").stat().st_size == 0
    assert json.loads(clew.clew("verify", "--json"))["ok"]
    clew.start()
    clew.stop()


def test_a_state_folder_that_is_moved_away_has_the_whole_record(clew):
    goal = at_work(clew)
    elsewhere = clew.folder / "elsewhere"
    (clew.home / "state").rename(elsewhere)
    message = ended(clew)
    assert str(elsewhere / "ledger.db") in message
    assert not list(clew.home.glob("state/**")), list(clew.home.glob("state/**"))
    assert verify(elsewhere / "ledger.db").ok
    elsewhere.rename(clew.home / "state")
    with Reader.open(ledger_of(clew)) as reader:
        assert reader.last_seq() >= recorded(clew)["seq"]
    since = clew.now()
    goes_on(clew, goal)
    assert not clew.seen("goal.blocked", since=since)  # moved back it is the same home


def test_nothing_is_accepted_or_judged_once_the_ledger_is_gone(clew):
    goal = at_work(clew)
    with paused(clew.daemon):
        remove_at_once(clew.home / "state")
    clew.drop(DONE, "late.md")
    message = ended(clew)
    kept = [p for p in (clew.home / "inbox").iterdir() if p.name.endswith("late.md")]
    assert [p.read_text() for p in kept] == [DONE]  # claimed or not, it is the next daemon's
    with Reader.open(rescued(clew)) as reader:
        assert len(reader.goals()) == 2
        allowed = [row.seq for row in reader.read(goal) if row.kind == "action_allowed"]
    assert len(clew.lines(goal, "trace")) <= len(allowed), message


def test_foreign_files_at_the_paths_stay_as_they_are(clew):
    """A whole other ledger, log and all, stands where the daemon's was."""
    at_work(clew)
    state, other = clew.home / "state", clew.folder / "other"
    other.mkdir()
    con = apsw.Connection(str(other / "ledger.db"))
    con.pragma("journal_mode", "wal")
    con.execute("CREATE TABLE mine (x)")
    kept = clew.folder / "theirs"
    shutil.copytree(other, kept)
    con.close()
    state.rename(clew.folder / "gone")
    shutil.copytree(kept, state)
    message = ended(clew)
    assert str(clew.folder / "gone" / "ledger.db") in message
    for path in kept.iterdir():
        assert (state / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_person_is_told_why_while_there_is_no_room_for_the_copy_and_may_give_up(clew):
    at_work(clew)
    daemon = clew.daemon
    put_in_the_way(clew)
    clew.wait("ledger.lost", since=0, count=2)
    assert alive(daemon.pid)
    (clew.home / "run").unlink()
    (clew.home / "run").mkdir(mode=0o700)
    message = ended(clew)
    (copy,) = (clew.home / "run").glob("ledger.db.rescued-*")
    assert str(copy) in message
    assert verify(copy).ok
    assert (clew.home / "state").read_text() == "in the way"


def test_a_stop_ends_the_wait_for_room(clew):
    at_work(clew)
    put_in_the_way(clew)
    clew.wait("ledger.lost", count=2)
    clew.daemon.send_signal(signal.SIGTERM)
    assert "could not be saved" in ended(clew)


def test_an_older_ledger_put_back_while_no_daemon_runs_is_refused_and_named(clew):
    clew.start()
    first = clew.submit(DONE, "first.md")
    clew.wait("goal.completed", goal=first)
    old = older_copy(clew)
    second = clew.submit(DONE.replace("Say", "Sing"), "second.md")
    clew.wait("goal.completed", goal=second)
    third = clew.submit("---\nnot_before: 2999-01-01T00:00:00Z\n---\n# Later\n", "third.md")
    assert clew.stop() == 0
    new = clew.folder / "new.db"
    shutil.copy(ledger_of(clew), new)
    shutil.copy(old, ledger_of(clew))

    refused(clew, "missing (it ends at", second, third, "clew restore --keep")
    found = json.loads(clew.clew("verify", "--json", code=1))
    assert second in found["fault"]["message"]
    assert second in clew.clew("doctor", code=1)

    shutil.copy(new, ledger_of(clew))  # the newer file put back: as if nothing had been
    clew.start()
    assert set(clew.goals()) == {first, second, third}
    clew.stop()

    shutil.copy(old, ledger_of(clew))
    Path(f"{ledger_of(clew)}.head").unlink()  # the goals' folders alone say it, too
    refused(clew, second, third)
    told = json.loads(clew.clew("restore", "--keep", "--json"))
    assert [g["id"] for g in told["goals_lost"]] == sorted([second, third])
    assert all(Path(g["file"]).read_text() for g in told["goals_lost"])
    clew.start()
    assert set(clew.goals()) == {first}
    clew.stop()
    assert all(Path(g["file"]).exists() for g in told["goals_lost"])


def test_restoring_an_older_backup_is_a_persons_word(clew):
    clew.start()
    first = clew.submit(DONE, "first.md")
    clew.wait("goal.completed", goal=first)
    old = older_copy(clew)
    second = clew.submit(DONE.replace("Say", "Sing"), "second.md")
    clew.wait("goal.completed", goal=second)
    clew.stop()
    told = json.loads(clew.clew("restore", str(old), "--json"))
    assert [g["id"] for g in told["goals_lost"]] == [second]
    assert Path(told["goals_lost"][0]["file"]).read_text().startswith("\n# Sing")
    for _ in range(2):
        clew.start()
        assert set(clew.goals()) == {first}
        clew.stop()


def test_a_refused_restore_leaves_the_ledgers_note_as_it_was(clew):
    clew.start()
    clew.submit(DONE, "first.md")
    old = older_copy(clew)
    clew.until(lambda: Path(f"{ledger_of(clew)}.head").exists())
    clew.kill()
    before = note.read(ledger_of(clew))
    con = apsw.Connection(str(ledger_of(clew)), flags=apsw.SQLITE_OPEN_READONLY)
    reading = con.execute("BEGIN").execute("SELECT seq FROM events")
    next(reading)
    assert "nothing was changed" in clew.clew("restore", str(old), code=1)
    assert before is not None
    assert note.read(ledger_of(clew)) == before
    con.close(force=True)
    clew.start()
    clew.stop()


def test_other_programs_that_only_read_or_touch_change_nothing(clew):
    goal = at_work(clew)
    ledger_of(clew).touch()
    clew.clew("status")
    clew.clew("verify")
    subprocess.run(
        [sys.executable, "-c", f"open({str(ledger_of(clew))!r}, 'rb').read()"], check=True
    )
    clew.wait("action.finished", since=clew.now(), goal=goal, count=30)
    assert not clew.seen("ledger.lost")
    clew.kill()
    clew.clew("status")
    clew.clew("verify")
    goes_on(clew, goal)


def test_a_ledger_of_clew_0_1_0_is_taken_over_without_a_question(clew):
    """It has no note beside it, no event that says where its home is, and no index for that."""
    (clew.home / "state").mkdir(mode=0o700)
    (clew.home / "workspaces").mkdir()
    left = clew.home / "state" / "goals" / "left-by-restore-0002"  # it kept what it did not know
    left.mkdir(parents=True)
    (left / "goal.md").write_text("# Left")
    asyncio.run(begun(ledger_of(clew), clew.workspace("old-0001")))
    con = apsw.Connection(str(ledger_of(clew)))
    con.execute("DROP INDEX homes")
    con.pragma("user_version", 3)
    con.close()
    clew.start()
    clew.wait("goal.completed", goal="old-0001")
    assert not clew.seen("goal.blocked")
    (aside,) = clew.seen("ledger.behind")[0]["aside"]
    assert (Path(aside) / "goal.md").read_text() == "# Left"
    assert clew.stop() == 0
    with Reader.open(ledger_of(clew)) as reader:
        assert [row.kind for row in reader.read("")][:1] == ["home_known"]
    assert clew.verified()


async def begun(path: Path, workspace: Path) -> None:
    """A ledger with one accepted goal."""
    ledger = Ledger.open(path)
    step = PlannedStep(tool="run_cmd", args={"cmd": "echo old"})
    task = PlannedTask(
        description="Do", subtasks=(PlannedSubtask(description="Do it", steps=(step,)),)
    )
    spec = Spec(description="Old", workspace=str(workspace), agent="runbook")
    accepted = ev.GoalAccepted(at=1.0, goal_id="old-0001", spec=spec, tasks=(task,))
    await GoalStore(ledger, Settings()).accept(accepted, b"# Old")
    await ledger.close(60)
