"""Reading holds every event against its chain: nobody goes on from a record that was changed."""

import sqlite3

import pytest

from clew_shared.ledger import Ledger, LedgerError, NewEvent, Reader


@pytest.fixture
async def path(tmp_path):
    """A ledger of two goals with ten events each, in turn."""
    place = tmp_path / "ledger.db"
    ledger = Ledger.open(place)
    for number in range(10):
        for goal in ("a", "b"):
            _, done = ledger.append([NewEvent(goal, "said", b'{"n":%d}' % number)])
            await done
    await ledger.close(10)
    return place


def damage(path, sql):
    con = sqlite3.connect(path)
    with con:
        con.execute(sql)
    con.close()


async def test_a_sound_ledger_is_read_from_any_place(path):
    with Reader.open(path) as reader:
        assert [row.n for row in reader.read("a")] == list(range(1, 11))
        assert [row.n for row in reader.read("a", after=6, limit=3)] == [4, 5, 6]
        assert [row.n for row in reader.read("b", after=5)] == list(range(3, 11))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE events SET body = CAST('{\"n\":7}' AS BLOB) WHERE seq = 9",
        "UPDATE events SET kind = 'done' WHERE seq = 9",
        "UPDATE events SET hash = zeroblob(32) WHERE seq = 9",
        "DELETE FROM events WHERE seq = 7",
    ],
)
async def test_reading_stops_at_an_event_that_was_changed_or_whose_forerunner_is_gone(path, sql):
    damage(path, sql)
    with Reader.open(path) as reader:
        events = reader.read("a")
        with pytest.raises(LedgerError, match="event 9 of a does not fit"):
            list(events)
        assert len(list(reader.read("b"))) == 10
