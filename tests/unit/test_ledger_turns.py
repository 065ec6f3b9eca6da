"""The ledger written in turns: the same record as the daemon's, without an event loop."""

from contextlib import closing

import apsw
import pytest

from clew_shared.ledger import Ledger, LedgerError, LedgerFailed, NewEvent, TurnLedger, verify


def entry(goal: str, text: str, output: bytes | None = None) -> NewEvent:
    return NewEvent(goal, "noted", text.encode(), output)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


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


def test_a_turn_that_fails_leaves_nothing(path, ledger):
    def fail():
        with ledger.turn():
            ledger.append([entry("a", "lost")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with ledger.turn():
        assert ledger.append([entry("a", "kept")]) == [1]
    assert bodies(ledger) == ["kept"]
    assert verify(path).ok


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


def test_a_closed_ledger_says_so(ledger):
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerFailed, match="closed"), ledger.turn():
        raise AssertionError


def test_a_busy_ledger_is_an_error_that_may_be_tried_again(path, ledger, monkeypatch):
    ledger._con.set_busy_timeout(1)
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"), ledger.turn():
            raise AssertionError
        other.execute("ROLLBACK")
    with ledger.turn():
        ledger.append([entry("a", "1")])
    assert bodies(ledger) == ["1"]


def test_the_write_ahead_log_is_used_again_instead_of_growing(path, ledger, monkeypatch):
    monkeypatch.setattr("clew_shared.ledger.opening.WAL_PAGES_MAX", 20)
    ledger._checkpoints._pages_max = 20
    for i in range(100):
        with ledger.turn():
            ledger.append([entry("a", str(i), b"x" * 4096)])
    wal = path.with_name(path.name + "-wal")
    assert wal.stat().st_size < 100 * 4096
    assert len(bodies(ledger)) == 100
