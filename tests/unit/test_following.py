"""Following a ledger without a daemon: every event once and in order, whatever becomes of the file meanwhile."""

import pytest

from clew_daemon.reading.client import Address
from clew_daemon.reading.follow import follow
from clew_shared.ledger.errors import NewEvent
from clew_shared.ledger.ledger import Ledger


async def append(ledger, *texts, goal="a"):
    await ledger.append([NewEvent(goal, "noted", text.encode()) for text in texts])[1]


@pytest.fixture
def news(path):
    found = follow(lambda: Address(path.with_name("no.sock")), path)
    assert "no daemon" in next(found).gone  # it says so once
    return found


def bodies(news):
    return [event.body.decode() for event in next(news).events]


async def test_a_ledger_that_is_not_there_yet_is_followed_from_its_first_event(path, news):
    assert bodies(news) == []
    ledger = Ledger.open(path)
    next(news)
    await append(ledger, "first")
    assert bodies(news) == ["first"]
    await ledger.close(10)


async def test_another_ledger_in_its_place_is_told_and_followed_from_its_end(path, news):
    ledger = Ledger.open(path)
    await append(ledger, "1")
    next(news)
    await append(ledger, "2", "3")
    assert bodies(news) == ["2", "3"]
    await ledger.close(10)
    other = Ledger.open(path.with_name("other.db"))
    await append(other, "a", "b", "c", "d")
    await other.close(10)
    for end in ("-wal", "-shm"):
        path.with_name(f"ledger.db{end}").unlink(missing_ok=True)
    path.with_name("other.db").replace(path)
    assert next(news).reset
    ledger = Ledger.open(path)
    await append(ledger, "e")
    assert bodies(news) == ["e"]
    await ledger.close(10)
