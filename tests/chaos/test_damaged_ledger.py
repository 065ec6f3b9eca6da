"""Bits flip, pages are torn, ends are cut off: it is found and named, and never answered wrongly.

Damage in the log that SQLite keeps beside the ledger looks like the remains of a power cut; the note of the last event
shows what it took.
"""

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import damage
import pytest
from damage import PAGE, SECTOR

from clew_daemon.ledger.ledger import Ledger
from clew_daemon.ledger.verify import verify
from clew_daemon.record import lost_record
from clew_shared.ledger import opening
from clew_shared.ledger.errors import LedgerCorrupt, NewEvent
from clew_shared.ledger.reader import Reader

SEED = int(os.environ["SEED"])


@pytest.fixture
def folder():
    """A folder in memory, where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


@pytest.fixture
async def ledger(folder):
    (folder / "whole").mkdir()
    path = folder / "whole" / "ledger.db"
    await damage.make(path)
    return path


def damaged(ledger: Path, data: bytes, suffix: str = "") -> Path:
    """Give a copy of the ledger and its log, in which one file has other bytes."""
    copy = ledger.parents[1] / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for file in ledger.parent.iterdir():
        if not file.name.endswith("-shm"):
            shutil.copy(file, copy)
    (copy / f"{ledger.name}{suffix}").write_bytes(data)
    return copy / ledger.name


def flip(data: bytes, bit: int) -> bytes:
    other = bytearray(data)
    other[bit // 8] ^= 1 << (bit % 8)
    return bytes(other)


def flips(pages: int, each: int, dice: Random) -> list[int]:
    """Draw bits of each page: half of them where its head stands, which is small and matters."""
    bits = []
    for page in range(pages):
        whole = [dice.randrange(PAGE * 8) for _ in range(each - each // 2)]
        head = [dice.randrange(120 * 8) for _ in range(each // 2)]
        bits += [page * PAGE * 8 + bit for bit in whole + head]
    return bits


def try_flips(ledger: Path, each: int) -> Counter:
    data, true = ledger.read_bytes(), damage.truth(ledger)
    counts = Counter()
    for bit in flips(len(data) // PAGE, each, Random(SEED)):
        found, wrong = damage.judged(damaged(ledger, flip(data, bit)), true)
        assert not wrong, f"SEED={SEED} byte {bit // 8} (page {bit // 8 // PAGE}): {wrong}"
        counts["found" if found else "nothing changed"] += 1
    return counts


def test_a_flipped_bit_is_found_or_changes_nothing_that_can_be_read(ledger):
    counts = try_flips(ledger, 4)
    assert counts["found"] > 50


def torn(data: bytes, page: int, dice: Random) -> bytes:
    """Lose some sectors of a page: zeros, noise, or those of another page."""
    other = bytearray(data)
    for sector in dice.sample(range(PAGE // SECTOR), dice.choice((1, 1, 4, 8))):
        at = page * PAGE + sector * SECTOR
        elsewhere = dice.randrange(len(data) // SECTOR) * SECTOR
        other[at : at + SECTOR] = dice.choice(
            (bytes(SECTOR), dice.randbytes(SECTOR), data[elsewhere : elsewhere + SECTOR])
        )
    return bytes(other)


def try_torn(ledger: Path, each: int) -> None:
    data, true, dice = ledger.read_bytes(), damage.truth(ledger), Random(SEED)
    for page in range(len(data) // PAGE):
        for number in range(each):
            _, wrong = damage.judged(damaged(ledger, torn(data, page, dice)), true)
            assert not wrong, f"SEED={SEED} page {page} number {number}: {wrong}"


def test_a_torn_page_is_found_or_changes_nothing_that_can_be_read(ledger):
    try_torn(ledger, 2)


def test_a_ledger_cut_off_anywhere_is_refused(ledger):
    data, true = ledger.read_bytes(), damage.truth(ledger)
    for size in [1, 99, *range(SECTOR, len(data), SECTOR * 5)]:
        copy = damaged(ledger, data[:size])
        found, wrong = damage.judged(copy, true)
        assert found, size
        assert not wrong, size
        if size % PAGE == 0:  # of a last page that is half there, only what it holds is missed
            with pytest.raises(LedgerCorrupt):
                opening.open_writing(copy)


# The log beside it.

COMMITS = 12


@pytest.fixture
async def logged(folder):
    """A ledger whose last transactions are in its log only, as a daemon leaves it that is killed."""
    path, copy = folder / "ledger.db", folder / "whole" / "ledger.db"
    copy.parent.mkdir()
    await damage.make(path)
    writing = Ledger.open(path)
    for number in range(COMMITS):
        await writing.append([NewEvent("a", "noted", b"%d " % number * 700)])[1]
    lost_record.write_note(copy, writing.tip())
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    await writing.close(60)
    return copy


def commits_left(ledger: Path) -> int | None:
    """Count the transactions of the log that can be read, None where the ledger is damaged.

    Whatever is missing is missed by the note beside the ledger, so that a start is refused.
    """
    try:
        missing = lost_record.lacking(ledger, ledger.parent)
        opening.open_writing(ledger).close()
    except LedgerCorrupt:
        return None
    report = verify(ledger)
    assert report.ok, report.fault
    with Reader.open(ledger) as reader:
        bodies = [row.body for row in reader.read("a")][-COMMITS:]
    there = [number for number in range(COMMITS) if b"%d " % number * 700 in bodies]
    assert there == list(range(len(there)))
    assert (missing is None) == (len(there) == COMMITS)
    return len(there)


def try_log_flips(logged: Path, each: int) -> Counter:
    log = Path(f"{logged}-wal").read_bytes()
    dice, frame = Random(SEED), PAGE + 24
    bits = list(range(0, 32 * 8, max(1, 60 // each)))
    for at in range(32, len(log), frame):
        bits += [at * 8 + dice.randrange(24 * 8) for _ in range(each)]
        bits += [at * 8 + dice.randrange(frame * 8) for _ in range(each)]
    return Counter(commits_left(damaged(logged, flip(log, bit), "-wal")) for bit in bits)


def test_what_a_flipped_bit_of_the_log_takes_is_missed(logged):
    left = try_log_flips(logged, 3)
    assert left[COMMITS] < sum(left.values()) // 2


def test_a_log_cut_off_anywhere_leaves_whole_transactions(logged):
    log = Path(f"{logged}-wal").read_bytes()
    counts = [
        commits_left(damaged(logged, log[:size], "-wal")) for size in range(0, len(log), SECTOR * 3)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] in (COMMITS - 1, COMMITS)
