"""The ledger as its callers see it: order, durability, reading, purging, opening."""

import asyncio
import stat
import threading

import pytest

from clew_shared.ledger import ledger as ledger_module
from clew_shared.ledger import opening, schema
from clew_shared.ledger.errors import LedgerError, LedgerFailed, NewEvent
from clew_shared.ledger.ledger import Ledger
from clew_shared.ledger.lock import acquire, beside
from clew_shared.ledger.reader import Reader
from clew_shared.ledger.verify import verify


def entry(goal: str, text: str, output: bytes | None = None) -> NewEvent:
    return NewEvent(goal, "noted", text.encode(), output)


async def test_what_waits_together_is_committed_together(path):
    ledger = Ledger.open(path)
    commits = []
    ledger._writer._con.set_commit_hook(lambda: bool(commits.append(1)))
    hold = threading.Event()
    take = ledger._writer._next_batch
    ledger._writer._next_batch = lambda: (hold.wait(10), take())[1]

    futures = [ledger.append([entry("a", str(i))])[1] for i in range(200)]
    assert ledger._pending == 200
    hold.set()
    await asyncio.gather(*futures)

    assert len(commits) == 1
    assert ledger._pending == 0
    await ledger.close(10)


async def test_a_clean_close_leaves_one_file_of_mode_0600(path):
    ledger = Ledger.open(path)
    await ledger.append([entry("a", "x")])[1]
    await ledger.close(10)

    assert set(path.parent.iterdir()) == {path, beside(path)}  # the lock's file stays, and is empty
    assert beside(path).read_bytes() == b""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_close_writes_what_waits_and_refuses_what_comes_later(path):
    ledger = Ledger.open(path)
    done = ledger.append([entry("a", "x")])[1]
    await ledger.close(10)
    await ledger.close(10)

    assert done.done()
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
