"""What is looked at once a second: are the ledger's files those that are open; and the note beside it."""

import pytest

from clew_shared.ledger import opening
from clew_shared.ledger.errors import LedgerLostError, NewEvent
from clew_shared.ledger.ledger import Ledger
from clew_shared.ledger.verify import verify


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    return folder / "ledger.db"


async def recorded(ledger, count=3):
    for n in range(count):
        await ledger.append([NewEvent("a", "noted", f"{n}".encode())])[1]


async def lost(ledger, *words):
    with pytest.raises(LedgerLostError):
        ledger.look()
    with pytest.raises(LedgerLostError):
        ledger.append([NewEvent("a", "noted", b"too late")])
    assert all(word in str(ledger.failure) for word in words), str(ledger.failure)
    await ledger.close(60)


async def test_files_in_their_place_are_found_so_whatever_the_writer_does(path, monkeypatch):
    monkeypatch.setattr(opening, "WAL_PAGES_MAX", 1)  # the log is moved into the file at each turn
    ledger = Ledger.open(path)
    for _ in range(200):
        await recorded(ledger, 2)
        ledger.look()
    path.touch()
    ledger.look()
    await ledger.close(60)
    assert verify(path).ok


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "ledger.db-shm"])
@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
async def test_each_file_is_missed_and_what_is_there_instead_stays_as_it_is(path, name, how):
    ledger = Ledger.open(path)
    await recorded(ledger)
    one = path.with_name(name)
    if how == "moved":
        one.rename(path.parent.parent / name)
    else:
        one.unlink()
    if how == "replaced":
        one.write_bytes(b"mine" * 5000)
    await lost(ledger, name, "clew restore FILE")
    assert one.exists() == (how == "replaced")
    if how == "replaced":
        assert one.read_bytes() == b"mine" * 5000
