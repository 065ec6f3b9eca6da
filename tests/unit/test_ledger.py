"""The ledger as its callers see it: order, durability, reading, purging, opening, locks, and what verify finds."""

import asyncio
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import closing

import apsw
import pytest

from clew_daemon.ledger import ledger as ledger_module
from clew_daemon.ledger import lock as lock_module
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.ledger.lock import acquire, beside
from clew_daemon.ledger.verify import verify
from clew_shared.ledger import opening, schema
from clew_shared.ledger.errors import LedgerError, LedgerFailed, LedgerLostError, NewEvent
from clew_shared.ledger.reader import Reader
from clew_worker.library.turns import TurnLedger


def entry(goal: str, text: str, output: bytes | None = None) -> NewEvent:
    return NewEvent(goal, "noted", text.encode(), output)


async def test_what_waits_together_is_committed_together(path):
    ledger = Ledger.open(path)
    commits = []
    ledger._con.set_commit_hook(lambda: bool(commits.append(1)))
    hold = threading.Event()
    take = ledger._next_batch
    ledger._next_batch = lambda: (hold.wait(10), take())[1]

    futures = [ledger.append([entry("a", str(i))])[1] for i in range(200)]
    assert ledger._pending == 200
    hold.set()
    await asyncio.gather(*futures)

    assert len(commits) == 1
    assert ledger._pending == 0
    await ledger.close(10)


async def test_close_writes_what_waits_leaves_one_file_of_mode_0600_and_refuses_what_comes_later(
    path,
):
    ledger = Ledger.open(path)
    done = ledger.append([entry("a", "x")])[1]
    await ledger.close(10)
    await ledger.close(10)

    assert done.done()
    assert set(path.parent.iterdir()) == {path, beside(path)}  # the lock's file stays, and is empty
    assert beside(path).read_bytes() == b""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(LedgerFailed, match="closed"):
        ledger.append([entry("a", "y")])
    with Reader.open(path) as reader:
        assert reader.last_seq() == 1


async def test_a_reader_cannot_write(ledger, path):
    await ledger.append([entry("a", "0")])[1]
    with Reader.open(path) as reader, pytest.raises(LedgerError), reader.connection() as con:
        con.execute("DELETE FROM events")


async def test_purging_a_goal_removes_it_and_keeps_the_rest_verifiable(path):
    ledger = Ledger.open(path)
    for i in range(20):
        ledger.append([entry("old", str(i), b"out"), entry("new", str(i), b"kept")])
    await ledger.snapshot("old", 39, 1, b"state")
    await ledger.purge("old")

    assert ledger.goals() == ["new"]
    assert list(ledger.read("old")) == []
    assert ledger.output(1) is None
    assert ledger.output(2) == b"kept"
    assert ledger.latest_snapshot("old", 1) is None
    assert verify(path).ok
    await ledger.close(10)
    assert verify(path).ok


async def test_too_much_waiting_is_refused_before_anything_is_assigned(ledger, monkeypatch):
    monkeypatch.setattr(ledger_module, "PENDING_MAX", 2)
    ledger.append([entry("a", "1"), entry("a", "2")])
    with pytest.raises(LedgerFailed, match="waiting to be written"):
        ledger.append([entry("a", "3")])

    assert await ledger.sync(10)
    assert ledger.append([entry("a", "3")])[0] == [3]


async def test_an_older_version_is_brought_forward_and_keeps_its_events(path):
    ledger = Ledger.open(path)
    await ledger.append([entry("a", "1")])[1]
    await ledger.close(10)

    newer = (*schema.MIGRATIONS, "CREATE TABLE extra (x)", "INSERT INTO extra VALUES (7)")
    con = opening.open_writing(path, newer)
    assert con.pragma("user_version") == len(newer)
    assert con.execute("SELECT x FROM extra").get == 7
    assert con.execute("SELECT count(*) FROM events").get == 1
    con.close()


async def test_a_writer_without_the_lock_corrupts_nothing_and_fails(path):
    first, con = Ledger.open(path), opening.open_writing(path)
    other = acquire(path.with_name("other.lock"), role="writer")
    second = Ledger(path, con, None, other, owns_lock=True)
    await first.append([entry("a", "1")])[1]
    with pytest.raises(LedgerFailed, match="UNIQUE"):
        await second.append([entry("b", "1")])[1]
    await first.append([entry("a", "2")])[1]
    await second.close(10)
    await first.close(10)

    report = verify(path)
    assert (report.ok, report.events) == (True, 2)


def test_a_lock_that_is_replaced_while_it_is_taken_is_tried_again(path, monkeypatch):
    take, taken = lock_module._take, []

    def replaced(fd, at):
        take(fd, at)
        taken.append(fd)
        if len(taken) == 1:
            at.unlink()
            at.touch()

    monkeypatch.setattr(lock_module, "_take", replaced)
    with acquire(beside(path), role="writer") as lock:
        assert (len(taken), lock.is_in_place) == (2, True)


@pytest.fixture
def turns(path):
    with closing(TurnLedger.open(path)) as ledger:
        yield ledger


async def test_both_ways_of_writing_make_one_record(path, turns):
    with turns.turn():
        assert turns.append([entry("a", "1"), entry("b", "2", b"output")]) == [1, 2]
    turns.close()
    other = Ledger.open(path)
    await other.append([entry("a", "3")])[1]
    await other.close(10)

    with closing(TurnLedger.open(path)) as again, closing(TurnLedger.open(path)) as second:
        with second.turn() as moved:
            assert (moved, second.append([entry("b", "4")])) == (False, [4])
        with again.turn() as moved:
            assert (moved, again.next_seq) == (True, 5)
    report = verify(path)
    assert (report.ok, report.events, report.goals) == (True, 4, 2)


@pytest.fixture
async def interleaved(path):
    """Three goals, interleaved; every second event has an output; goal c is purged."""
    ledger = Ledger.open(path)
    for i in range(30):
        output = b"output %d" % i if i % 2 else None
        ledger.append([NewEvent("abc"[i % 3], "noted", b"body %d" % i, output)])
    await ledger.purge("c")
    await ledger.close(10)
    return path


def change(path, sql):
    con = apsw.Connection(str(path))
    con.execute(sql)
    assert con.changes() == 1
    con.close()


@pytest.mark.parametrize(
    ("sql", "seq", "goal", "says"),
    [
        ("UPDATE events SET body = x'00' WHERE seq = 11", 11, "b", "was changed"),
        ("UPDATE events SET kind = 'other' WHERE seq = 11", 11, "b", "was changed"),
        ("UPDATE events SET goal = 'a' WHERE seq = 11", 11, "a", "number"),
        ("UPDATE events SET n = 9 WHERE seq = 11", 11, "b", "number 9"),
        ("UPDATE events SET hash = zeroblob(32) WHERE seq = 11", 11, "b", "was changed"),
        ("UPDATE events SET hash = zeroblob(32) WHERE seq = 29", 29, "b", "was changed"),
        ("DELETE FROM events WHERE seq = 11", 11, None, "missing"),
        ("DELETE FROM events WHERE seq = 1", 1, None, "missing"),
        ("DELETE FROM events WHERE seq = 29", 29, "b", "not the one on record"),
        ("DELETE FROM outputs WHERE seq = 10", 10, "a", "output is missing"),
        ("UPDATE outputs SET data = x'00' WHERE seq = 10", 10, "a", "output was changed"),
        ("INSERT INTO outputs VALUES (11, x'00')", 11, "b", "output was changed"),
        ("INSERT INTO outputs VALUES (77, x'00')", 77, None, "without an event"),
        ("DELETE FROM heads WHERE goal = 'b'", 29, "b", "not the one on record"),
        ("DELETE FROM purged_ranges WHERE first = 3", 3, None, "missing"),
        ("UPDATE purged SET count = 11", None, "c", "11 events were purged"),
        ("INSERT INTO purged_ranges VALUES (50, 60, 'c')", 50, None, "does not match"),
    ],
)
async def test_a_change_is_found_and_located(interleaved, sql, seq, goal, says):
    change(interleaved, sql)
    fault = verify(interleaved).fault
    assert (fault.seq, fault.goal) == (seq, goal)
    assert says in fault.message


async def test_a_purged_range_whose_end_has_become_a_text_is_a_fault(interleaved, monkeypatch):
    monkeypatch.setattr(schema, "PURGED_RANGES", "SELECT first, 'x' FROM purged_ranges")
    assert verify(interleaved).fault.message.startswith("cannot be read after seq 2: ")


async def test_whether_an_event_is_held_is_looked_up_however_many_goals_were_purged(path):
    ledger = Ledger.open(path)
    await ledger.append([entry("a", "x")])[1]
    await ledger.close(10)
    purged = [(str(seq), 1, seq, 1, b"p") for seq in range(10, 10_010)]
    with closing(apsw.Connection(str(path))) as con:
        con.executemany("INSERT INTO purged VALUES (?, ?, ?, ?, ?)", purged)
    steps = []
    with Reader.open(path) as reader:
        tip = reader.hash_at(1)
        with reader.connection() as con:
            con.set_progress_handler(lambda: bool(steps.append(1)), 100)
        assert (reader.holds(1, tip), reader.holds(1, b"p")) == (True, False)
        assert len(steps) < 10
        assert (reader.holds(11, b"p"), reader.holds(11, tip)) == (True, False)


INDEX_IN_USE = ("-shm", 128, 1)  # SQLite's UNIX_SHM_DMS: who may have it alone empties the index
FILE_IN_USE = ("", 0x4000_0002, 510)  # SHARED_FIRST: who may have it alone removes the log
TAKE = """
import fcntl, os, sys
path, at, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    fcntl.lockf(os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, size, at)
except (BlockingIOError, PermissionError):
    sys.exit(3)
"""


def is_locked(path, lock):
    suffix, at, size = lock
    command = [sys.executable, "-c", TAKE, f"{path}{suffix}", str(at), str(size)]
    return subprocess.run(command, timeout=60, check=False).returncode == 3


@pytest.fixture
async def used(tmp_path):
    """A ledger that was opened before, with its log and index."""
    path = tmp_path / "used" / "ledger.db"
    path.parent.mkdir()
    first = Ledger.open(path)
    await first.append([NewEvent("a", "noted", b"x")])[1]
    copy = (
        shutil.copytree(path.parent, tmp_path / "left") / path.name
    )  # as a killed daemon leaves it
    await first.close(60)
    return copy


@pytest.mark.parametrize("lock", [INDEX_IN_USE, FILE_IN_USE], ids=["index", "file"])
async def test_an_open_ledger_holds_its_locks(used, lock):
    """Closing any descriptor of a file lets go of them: another process could empty the index, which is mapped."""
    ledger = Ledger.open(used)
    assert is_locked(used, lock)
    await ledger.close(60)


async def test_files_in_their_place_are_found_so_whatever_the_writer_does(path, monkeypatch):
    monkeypatch.setattr(opening, "WAL_PAGES_MAX", 1)  # the log is moved into the file at each turn
    ledger = Ledger.open(path)
    for _ in range(200):
        await ledger.append([entry("a", "x")])[1]
        ledger.look()
    path.touch()
    ledger.look()
    await ledger.close(60)
    assert verify(path).ok


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "ledger.db-shm"])
@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
async def test_each_file_is_missed_and_what_is_there_instead_stays_as_it_is(path, name, how):
    ledger = Ledger.open(path)
    await ledger.append([entry("a", "x")])[1]
    one = path.with_name(name)
    one.rename(path.parent.parent / f"{name}.moved") if how == "moved" else one.unlink()
    if how == "replaced":
        one.write_bytes(b"mine" * 5000)
    for late in (ledger.look, lambda: ledger.append([entry("a", "too late")])):
        with pytest.raises(LedgerLostError, match=f"{name} .*clew restore FILE"):
            late()
    await ledger.close(60)
    assert (one.read_bytes() if one.exists() else b"") == b"mine" * (5000 * (how == "replaced"))
