"""What `verify` finds in a ledger that somebody or something changed."""

import apsw
import pytest

from clew_shared.ledger.errors import NewEvent
from clew_shared.ledger.ledger import Ledger
from clew_shared.ledger.verify import verify


@pytest.fixture
async def path(tmp_path):
    """Three goals, interleaved; every second event has an output; goal c is purged."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    for i in range(30):
        output = b"output %d" % i if i % 2 else None
        ledger.append([NewEvent("abc"[i % 3], "noted", b"body %d" % i, output)])
    await ledger.purge("c")
    await ledger.close(10)
    return tmp_path / "ledger.db"


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
async def test_a_change_is_found_and_located(path, sql, seq, goal, says):
    change(path, sql)

    fault = verify(path).fault
    assert (fault.seq, fault.goal) == (seq, goal)
    assert says in fault.message
