"""Following a ledger without a daemon: every event once and in order, whatever becomes of the file meanwhile."""

import pytest

from clew_daemon.reading.client import Address
from clew_daemon.reading.follow import EventSource, StreamBatch, StreamBegin
from clew_shared.ledger import Ledger, NewEvent


async def append(ledger, *texts, goal="a"):
    await ledger.append([NewEvent(goal, "noted", text.encode()) for text in texts])[1]


@pytest.fixture
def source(path):
    source = EventSource(lambda: Address(path.with_name("no.sock")), path)
    source.poll(0.0)  # it says once that no daemon is there
    yield source
    source.close()


def bodies(news):
    return [
        event.body.decode() for one in news if isinstance(one, StreamBatch) for event in one.events
    ]


async def test_a_ledger_that_is_not_there_yet_is_followed_from_its_first_event(path, source):
    assert source.poll(0.0) == []
    ledger = Ledger.open(path)
    source.poll(0.0)
    await append(ledger, "first")
    assert bodies(source.poll(0.0)) == ["first"]
    await ledger.close(10)


async def test_another_ledger_in_its_place_is_told_and_followed_from_its_end(path, source):
    ledger = Ledger.open(path)
    await append(ledger, "1")
    source.poll(0.0)
    await append(ledger, "2", "3")
    assert bodies(source.poll(0.0)) == ["2", "3"]
    await ledger.close(10)
    other = Ledger.open(path.with_name("other.db"))
    await append(other, "a", "b", "c", "d")
    await other.close(10)
    for end in ("-wal", "-shm"):
        path.with_name(f"ledger.db{end}").unlink(missing_ok=True)
    path.with_name("other.db").replace(path)
    [begins] = source.poll(0.0)
    assert isinstance(begins, StreamBegin)
    assert begins.reset
    ledger = Ledger.open(path)
    await append(ledger, "e")
    assert bodies(source.poll(0.0)) == ["e"]
    await ledger.close(10)
