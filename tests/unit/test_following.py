"""Following a ledger: every event once and in order, whatever becomes of the file meanwhile."""

import pytest

from clew_daemon.reading.follow import Follower
from clew_shared.ledger import Ledger, NewEvent


async def append(ledger, *texts, goal="a"):
    await ledger.append([NewEvent(goal, "noted", text.encode()) for text in texts])[1]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
async def ledger(path):
    ledger = Ledger.open(path)
    yield ledger
    await ledger.close(10)


@pytest.fixture
def follower(path):
    follower = Follower(path)
    yield follower
    follower.close()


def bodies(rows):
    return [row.body.decode() for row in rows]


async def test_a_ledger_that_is_not_there_yet_is_followed_from_its_first_event(path, follower):
    assert follower.look() == []
    assert follower.reader is None
    ledger = Ledger.open(path)
    follower.look()
    await append(ledger, "first")
    assert bodies(follower.look()) == ["first"]
    await ledger.close(10)


async def test_another_ledger_in_its_place_is_told_and_followed_from_its_end(tmp_path, follower):
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path)
    await append(ledger, "1")
    follower.look()
    await append(ledger, "2", "3")
    follower.look()
    await ledger.close(10)
    other = Ledger.open(tmp_path / "other.db")
    await append(other, "a", "b", "c", "d")
    await other.close(10)
    for end in ("-wal", "-shm"):
        (tmp_path / f"ledger.db{end}").unlink(missing_ok=True)
    (tmp_path / "other.db").replace(path)
    assert follower.look() == []
    assert follower.was_reset
    assert follower.after.seq == 4
    ledger = Ledger.open(path)
    await append(ledger, "e")
    assert bodies(follower.look()) == ["e"]
    assert not follower.was_reset
    await ledger.close(10)
