"""What is looked at once a second: are the ledger's files those that are open; and the note beside it."""

import os
import shutil

import apsw
import pytest

from clew_daemon.record import lost_record
from clew_shared.ledger import (
    Ledger,
    LedgerFailed,
    LedgerLostError,
    NewEvent,
    Reader,
    checkpoint,
    note,
    verify,
)


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
    found = await ledger.rescued(60)
    assert found
    assert all(word in str(ledger.failure) for word in words), str(ledger.failure)
    await ledger.close(60)
    return found


async def test_files_in_their_place_are_found_so_whatever_the_writer_does(path, monkeypatch):
    monkeypatch.setattr(
        checkpoint, "WAL_PAGES_MAX", 1
    )  # the log is moved into the file at each turn
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
async def test_each_file_is_missed_and_nothing_recorded_is_lost(path, name, how):
    ledger = Ledger.open(path)
    await recorded(ledger)
    one = path.with_name(name)
    if how == "moved":
        one.rename(path.parent.parent / name)
    else:
        one.unlink()
    if how == "replaced":
        one.write_bytes(b"mine" * 5000)
    found = await lost(ledger, name)
    whole = found.copy or found.file
    assert verify(whole).ok
    with Reader.open(whole) as reader:
        assert reader.last_seq() == 3
    if how == "replaced" and name == "ledger.db":
        assert one.read_bytes() == b"mine" * 5000


async def test_a_log_that_is_cut_off_in_place_is_noticed(path):
    ledger = Ledger.open(path)
    await recorded(ledger)
    os.truncate(f"{path}-wal", 100)
    await lost(ledger, "ledger.db-wal was written by another program")


async def test_a_copy_goes_into_another_folder_where_its_own_takes_none(path, tmp_path):
    refuge = tmp_path / "run"
    ledger = Ledger.open(path, refuges=[refuge])
    await recorded(ledger)
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    found = await lost(ledger)
    assert found.copy.parent == refuge
    assert verify(found.copy).ok


async def test_a_copy_that_cannot_be_written_is_tried_until_someone_gives_up(path):
    states = []
    ledger = Ledger.open(path, on_state=lambda _: states.append(str(ledger.failure)))
    await recorded(ledger)
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    with pytest.raises(LedgerLostError):
        ledger.look()
    while not any("cannot be saved until there is space" in state for state in states):
        assert await ledger.rescued(0.05) is None
    ledger.abandon()
    found = await ledger.rescued(60)
    assert (found.file, found.copy) == (None, None)
    assert "could not be saved" in found.message
    await ledger.close(60)


async def test_readers_open_no_other_file_of_the_ledgers_name(path):
    ledger = Ledger.open(path)
    await recorded(ledger)
    path.unlink()
    apsw.Connection(str(path)).execute("CREATE TABLE mine (x)")
    with pytest.raises(LedgerLostError):
        ledger.last_seq()
    await lost(ledger)


async def test_what_is_late_is_not_acknowledged(path):
    """A commit that was under way when the ledger went is not told as done; it may be in the copy."""
    ledger = Ledger.open(path)
    await recorded(ledger)
    path.unlink()
    done = ledger.append([NewEvent("a", "noted", b"late")])[1]
    await lost(ledger)
    with pytest.raises(LedgerLostError):
        await done


async def test_the_wait_for_a_lost_ledger_ends_where_its_writer_had_failed_already(path):
    ledger = Ledger.open(path)
    await recorded(ledger)
    writer = ledger._writer

    def failing(_batch):
        raise LedgerFailed(path, "cannot be written: disk I/O error", "")

    writer._thread._commit = failing
    ledger.append([NewEvent("a", "noted", b"never written")])
    writer._thread._thread.join(60)  # what it has to say waits for the loop
    writer.lose("ledger.db was deleted")
    found = await ledger.rescued(60)
    assert found is not None
    assert "nothing was saved" in str(ledger.failure)
    await ledger.close(60)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seq": "1"}', "\xff", '{"seq": 1, "hash": "0"}'])
def test_a_note_that_cannot_be_read_says_nothing(path, text):
    note.beside(path).write_bytes(text.encode("latin-1"))
    assert note.read(path) is None


async def test_a_ledger_is_held_against_its_note(path):
    ledger = Ledger.open(path)
    await recorded(ledger)
    seq, tip = ledger.last_event()
    await ledger.close(60)

    def faults(**changed):
        kept = {"seq": seq, "hash": tip.hex(), "open": False, **changed}
        note.write(path, note.Note(**kept))
        found = lost_record.lacking(path, path.parent)
        return found.faults if found else ()

    assert faults() == ()
    assert "its last 2 events are missing" in faults(seq=seq + 2)[0]
    assert "not the one that was recorded" in faults(hash="00")[0]
    assert "is gone" in faults(open=True, log=7)[0]
    assert faults(open=True) == ()  # its log was empty
    assert faults(seq=1, hash=_hash_at(path, 1)) == ()


def _hash_at(path, seq):
    with Reader.open(path) as reader:
        return reader.hash_at(seq).hex()


async def test_folders_that_are_no_goals_are_no_lost_goals(path):
    ledger = Ledger.open(path)
    await recorded(ledger)
    await ledger.close(60)
    goals = path.parent / "goals"
    for name in ("lost+found", ".trash", "notes"):
        (goals / name).mkdir(parents=True)
    assert lost_record.lacking(path, path.parent) is None
    (goals / "say-word-12ab").mkdir()
    missing = lost_record.lacking(path, path.parent)
    assert missing.goals == ("say-word-12ab",)
    moved = lost_record.accept(path, path.parent, missing)
    assert moved["say-word-12ab"].is_dir()
    assert lost_record.lacking(path, path.parent) is None
