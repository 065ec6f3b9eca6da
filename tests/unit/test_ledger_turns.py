"""The ledger written in turns: the same record as the daemon's, without an event loop."""

from contextlib import closing

import pytest

from clew_shared.ledger.errors import NewEvent
from clew_shared.ledger.ledger import Ledger
from clew_shared.ledger.turns import TurnLedger
from clew_shared.ledger.verify import verify


def entry(goal: str, text: str, output: bytes | None = None) -> NewEvent:
    return NewEvent(goal, "noted", text.encode(), output)


@pytest.fixture
def ledger(path):
    with closing(TurnLedger.open(path)) as ledger:
        yield ledger


def bodies(ledger, goal="a"):
    return [row.body.decode() for row in ledger.read(goal)]


async def test_both_ways_of_writing_make_one_record(path, ledger):
    with ledger.turn():
        assert ledger.append([entry("a", "1"), entry("b", "2", b"output")]) == [1, 2]
    ledger.close()
    other = Ledger.open(path)
    await other.append([entry("a", "3")])[1]
    await other.close(10)

    with closing(TurnLedger.open(path)) as again, again.turn():
        assert again.next_seq == 4
        again.append([entry("b", "4")])
    report = verify(path)
    assert (report.ok, report.events, report.goals) == (True, 4, 2)


def test_a_turn_says_whether_another_has_written(path, ledger):
    with closing(TurnLedger.open(path)) as other:
        with ledger.turn() as moved:
            assert not moved
            ledger.append([entry("a", "1")])
        with other.turn() as moved:
            assert moved
            other.append([entry("a", "2")])
        with ledger.turn() as moved:
            assert moved
            ledger.append([entry("a", "3")])
    assert bodies(ledger) == ["1", "2", "3"]
    assert verify(path).ok
