"""Following a ledger: every event once and in order, whatever becomes of the file meanwhile."""

import pytest

from clew_daemon.reading.follow import Follower, News
from clew_shared.ledger import Ledger, NewEvent


async def append(ledger, *texts, goal="a"):
    await ledger.append([NewEvent(goal, "noted", text.encode()) for text in texts])[1]


@pytest.fixture
def follower(path):
    return Follower(path)


def bodies(news):
    return [event.body.decode() for event in news.events]


async def test_a_ledger_that_is_not_there_yet_is_followed_from_its_first_event(path, follower):
    assert follower.look() == News()
    ledger = Ledger.open(path)
    await append(ledger, "first")
    assert bodies(follower.look()) == ["first"]
    await ledger.close(10)


async def test_another_ledger_in_its_place_is_told_and_followed_from_its_end(path, follower):
    ledger = Ledger.open(path)
    await append(ledger, "1")
    follower.look()
    await append(ledger, "2", "3")
    assert bodies(follower.look()) == ["2", "3"]
    await ledger.close(10)
    other = Ledger.open(path.with_name("other.db"))
    await append(other, "a", "b", "c", "d")
    await other.close(10)
    for end in ("-wal", "-shm"):
        path.with_name(f"ledger.db{end}").unlink(missing_ok=True)
    path.with_name("other.db").replace(path)
    assert follower.look() == News(reset=True)
    ledger = Ledger.open(path)
    await append(ledger, "e")
    assert bodies(follower.look()) == ["e"]
    await ledger.close(10)
