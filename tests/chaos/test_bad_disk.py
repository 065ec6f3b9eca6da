"""The daemon's disk is full, slow or failing, in earnest: nothing is lost, and a person is told."""

import re
import sqlite3
import sys
from contextlib import ExitStack, closing

import aftermath
import harness
import pointed
import points
import pytest
from bad_disk import fill, injected, needs_strace, small
from of_proc import running

from surroundings import runbook

GATE = "until test -e go; do sleep 0.02; done"
GATED = runbook("echo one >> words", GATE, "echo two >> words", "echo three >> words")


@pytest.fixture
def gated(clew):
    """A daemon with a goal that waits for the file `go` of its workspace."""
    goal = clew.start().submit(GATED)
    clew.until(lambda: "until test" in _last_allowed(clew, goal), "the step that waits")
    return clew, goal


def _last_allowed(clew, goal):
    allowed = clew.seen("action.allowed", goal=goal)
    return allowed[-1]["signature"] if allowed else ""


def go(clew, goal) -> None:
    (clew.workspace(goal) / "go").touch()


def is_whole(clew, *goals: str) -> None:
    """All that must hold after a fault; the daemon has stopped."""
    told = aftermath.record(clew)
    for goal in goals:
        assert told[goal].state.goal.status == "completed"
        aftermath.goal_is_whole(clew, told[goal])


def fails_and_goes_on(gated, rule: str, says: str) -> str:
    """Let a call of the ledger fail: the daemon says so, stops, and the next one goes on; the notes of it."""
    clew, goal = gated
    notes = clew.folder / "strace.txt"
    with injected(clew.daemon.pid, notes, rule):
        go(clew, goal)
        assert clew.daemon.wait(60) == 1, "an exit after which a manager starts it again"
    clew.assert_alone()
    failed = clew.seen("ledger.failed")
    assert len(failed) == 1
    assert says in failed[0]["reason"]
    assert "start again" in failed[0]["reason"]
    assert clew.seen("daemon.stopped", code=1)
    last_word = [line for line in clew.log.read_text().splitlines() if line.startswith("clew: ")]
    assert len(last_word) == 1
    assert says in last_word[0]

    since = clew.now()
    clew.start()
    clew.wait("goal.completed", goal=goal, since=since)
    clew.report(goal)
    assert clew.stop() == 0
    is_whole(clew, goal)
    return notes.read_text()


def test_a_failed_fsync_is_never_retried_and_the_next_start_goes_on(gated):
    notes = fails_and_goes_on(gated, "fdatasync:error=EIO:when=1", "disk I/O error")

    calls = re.findall(r"^.*fdatasync\(.*$", notes, re.MULTILINE)
    assert len(calls) == 1, calls
    assert "EIO" in calls[0]


@pytest.mark.long
@pytest.mark.parametrize("nth", [1, 2, 7])
def test_a_write_that_fails_stops_the_daemon_and_the_next_goes_on(gated, nth):
    fails_and_goes_on(gated, f"pwrite64:error=EIO:when={nth}", "disk I/O error")


@pytest.mark.long
def test_reports_and_published_files_that_found_no_room_are_written_when_there_is_some(clew):
    clew.start()
    with ExitStack() as disks:
        outbox = disks.enter_context(small(clew.home / "outbox", "64k"))
        workspace = disks.enter_context(small(clew.folder / "workspace", "256k"))
        goal = clew.submit(runbook(f"{GATE}; seq 400", workspace=workspace))
        clew.wait("action.allowed", goal=goal)
        clew.until((workspace / ".agent_context" / "history.jsonl").exists, "the published files")
        (workspace / "go").touch()
        ballasts = [fill(outbox), fill(workspace)]
        clew.wait("report.unwritable", goal=goal)
        clew.wait("context.unwritable", goal=goal)
        assert not list(outbox.glob("*.md"))
        for ballast in ballasts:
            ballast.unlink()
        clew.report(goal)
        history = workspace / ".agent_context" / "history.jsonl"
        clew.until(lambda: history.read_text().count("\n") == 1, "the published history")
        assert len(clew.seen("report.unwritable")) == 1
        assert clew.stop() == 0
        told = aftermath.record(clew)[goal]
        aftermath.goal_is_whole(clew, told)


@pytest.mark.long
@pytest.mark.parametrize(
    "rule",
    [
        *(f"pread64:error=EIO:when={nth}" for nth in (1, 3, 8)),
        "pwrite64:error=EIO:when=1",
        *(f"pwrite64:error=ENOSPC:when={nth}" for nth in (1, 2)),
        "fdatasync:error=EIO:when=1",
        "ftruncate:error=ENOSPC:when=1",
        "openat:error=EIO:when=1",
        "openat:error=EMFILE:when=2",
    ],
)
def test_a_start_that_meets_a_failing_ledger_goes_on_or_says_so_and_the_next_one_goes_on(
    gated, rule
):
    clew, goal = gated
    clew.kill()
    since, before = clew.now(), clew.log.read_text()
    ledger = clew.ledger
    start_under_strace(clew, rule, *(f"{ledger}{suffix}" for suffix in ("", "-wal", "-shm")))
    clew.until(lambda: clew.daemon.poll() is not None or clew.seen("daemon.ready", since=since))
    said = clew.log.read_text().removeprefix(before)
    assert "Traceback" not in said, said
    if clew.daemon.poll() is None:
        clew.close()
    else:
        assert clew.daemon.poll() == 1, said
        assert [line for line in said.splitlines() if line.startswith("clew: ")], said
    clew.assert_alone()

    clew.start()
    go(clew, goal)
    clew.wait("goal.completed", goal=goal)
    clew.report(goal)
    assert clew.stop() == 0
    is_whole(clew, goal)


def start_under_strace(clew, rule: str, *paths: str) -> None:
    needs_strace()
    notes = clew.folder / "strace.txt"
    only = [part for path in paths for part in ("-P", path)]
    call = rule.split(":", maxsplit=1)[0]
    under = ("strace", "-f", "-q", "-o", str(notes), *only, "-e", f"trace={call}")
    clew.start(ready=False, under=(*under, "-e", f"inject={rule}"))


DEADLINES = {
    "clew_daemon.app.lifecycle:LEDGER_CLOSE_S": 1.0,
    "clew_daemon.session.snapshots:LAST_SNAPSHOT_S": 1.0,
}
FILLS = f"touch ready; {GATE}; cat /dev/zero > FOLDER/ballast; touch full; sleep 600.25"


@pytest.fixture
def filled(make_clew):
    """Return what starts a daemon with a goal whose command has filled the disk of the ledger, and runs on.

    With `room` a few records still fit into the ledger's log, since that was moved into the database just before;
    without it a reader keeps it from being used again.
    """
    with ExitStack() as stack:

        def fill_disk(*, room: bool = False):
            clew = make_clew({"restart.stop_grace_s": 600.0})
            disk = stack.enter_context(small(clew.home / "state", "16m"))
            clew.configure({"sandbox.write": [str(disk)], "sandbox.mode": "off"})
            order = points.Order(clew.folder / "counts", constants=DEADLINES)
            env = {pointed.ORDER: pointed.encoded(order)}
            clew.start(under=(sys.executable, pointed.__file__), **env)
            goal = clew.submit(harness.runbook(FILLS.replace("FOLDER", str(disk))))
            workspace = clew.workspace(goal)
            clew.until((workspace / "ready").exists, "the command runs")
            reader = stack.enter_context(
                closing(sqlite3.connect(clew.ledger, isolation_level=None))
            )
            if room:
                clew.until(lambda: _is_moved(reader), "the log is in the database")
            else:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (workspace / "go").touch()
            clew.until((workspace / "full").exists, "the disk is full")
            return clew, goal, disk / "ballast"

        yield fill_disk


def _is_moved(reader):
    busy, pages, moved = reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return not busy and pages == moved


@pytest.mark.parametrize("verb", ["cancel", "pause"])
def test_on_a_full_disk_a_person_stops_a_worker_at_once_and_the_record_follows(filled, verb):
    clew, goal, ballast = filled()
    said = clew.cli(verb, goal)
    done = {"cancel": "cancelled", "pause": "paused"}[verb]
    assert said == f"{goal}: {done}; not yet on record: the disk is full\n"
    clew.until(lambda: not running("600.25"), "the worker has ended")
    assert "not yet on record: the disk is full" in clew.cli("status", goal)
    assert "the disk is full" in clew.cli("continue", goal, code=1)
    ballast.unlink()
    clew.wait({"cancel": "goal.cancelled", "pause": "goal.waiting"}[verb], goal=goal)
    clew.until(lambda: "not yet" not in clew.cli("status", goal), "the record")
    clew.kill()
    clew.start()
    assert clew.goal(goal)["status"] == {"cancel": "cancelled", "pause": "waiting"}[verb]


def test_on_a_full_disk_the_daemon_stops(filled):
    clew, goal, ballast = filled()
    assert "the disk is full" in clew.cli("feedback", goal, "stop", code=1)
    clew.configure({"restart.stop_grace_s": 0.5})
    clew.cli("reload")
    assert clew.stop() == 0
    ballast.unlink()
    clew.start()
    assert not clew.seen("feedback.given")
