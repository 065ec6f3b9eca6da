"""How much room a ledger takes: outputs of what is over are compressed, what was purged is given back."""

from contextlib import closing
from random import Random

import apsw
import pytest

from clew_shared.ledger import Ledger, LedgerCorrupt, NewEvent, opening, schema, verify
from clew_shared.ledger.chain import packed

BIG = [f"{n} {'the same again and again ' * 500}".encode() for n in range(40)]


@pytest.fixture
async def ledger(tmp_path):
    made = Ledger.open(tmp_path / "ledger.db")
    for n, output in enumerate(BIG):
        made.append([NewEvent("a", "k", b"{}", output), NewEvent("b", "k", b"{}", output)])
        made.append([NewEvent("a", "k", str(n).encode(), b"small")])
    assert await made.sync(60)
    yield made
    await made.close(10)


def kept(ledger, goal):
    """The bytes of a goal's outputs in the file."""
    with ledger.connection() as con:
        sql = "SELECT sum(length(data)) FROM outputs JOIN events USING (seq) WHERE goal = ?"
        return con.execute(sql, (goal,)).get


async def test_packed_outputs_read_the_same_verify_and_take_a_fraction_of_the_room(ledger):
    before = [ledger.output(row.seq) for row in ledger.read("a")]
    size, other = kept(ledger, "a"), kept(ledger, "b")
    await ledger.pack("a")
    assert [ledger.output(row.seq) for row in ledger.read("a")] == before
    assert kept(ledger, "a") < size / 10
    assert kept(ledger, "b") == other
    assert verify(ledger.path).ok
    await ledger.pack("a")  # nothing is packed twice
    assert [ledger.output(row.seq) for row in ledger.read("a")] == before


async def test_a_packed_output_that_could_be_made_still_smaller_is_not_packed_twice(ledger):
    output = Random(1).randbytes(8_000) * 30
    assert packed(packed(output)) is not None
    seqs, done = ledger.append([NewEvent("a", "k", b"{}", output)])
    await done
    for _ in range(2):
        await ledger.pack("a")
        assert ledger.output(seqs[0]) == output
    assert verify(ledger.path).ok


async def test_a_packed_output_that_was_changed_is_found(ledger):
    await ledger.pack("a")
    with closing(apsw.Connection(str(ledger.path))) as con:
        con.execute("UPDATE outputs SET data = substr(data, 1, 20) WHERE seq = 1")
    with pytest.raises(LedgerCorrupt, match="output of event 1 was changed"):
        ledger.output(1)
    assert verify(ledger.path).fault.message == "its output was changed"


async def test_an_older_ledger_is_written_anew_once_so_that_it_can_give_room_back(tmp_path):
    path = tmp_path / "old.db"
    with closing(apsw.Connection(str(path))) as con:
        con.pragma("journal_mode", "wal")
        con.execute(schema.MIGRATIONS[0])
        con.pragma("application_id", schema.APPLICATION_ID)
        con.pragma("user_version", 1)
    for _ in range(2):
        ledger = Ledger.open(path)
        await ledger.append([NewEvent("a", "k", b"{}", BIG[0] * 50)])[1]
        await ledger.close(10)
    with closing(opening.open_reading(path)) as con:
        assert con.pragma("auto_vacuum") == schema.AUTO_VACUUM
        assert con.pragma("user_version") == len(schema.MIGRATIONS)
    full = path.stat().st_size
    ledger = Ledger.open(path)
    await ledger.purge("a")
    while await ledger.shrink():
        pass
    await ledger.close(10)
    assert path.stat().st_size < full / 5
    assert verify(path).ok
