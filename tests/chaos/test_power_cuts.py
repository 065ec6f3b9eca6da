"""The power goes at any moment: all that was acknowledged is there, and nothing that was half.

A moment is any point between two operations of SQLite on its files. What the disk then has of the
writes that were not synced is drawn: none, all, a beginning, any of them, any of their sectors.
"""

import os
import shutil
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from power_life import Model, held, live
from power_vfs import FATES, Disk, PowerDisk

from clew_daemon.ledger.ledger import Ledger
from clew_daemon.ledger.verify import verify
from clew_shared.ledger import opening, schema
from clew_shared.ledger.errors import LedgerError, NewEvent

SEED = int(os.environ["SEED"])
ROUNDS = int(os.environ.get("ROUNDS") or 0)
JOBS = 30
LATER = (
    "CREATE TABLE later (seq INTEGER PRIMARY KEY) STRICT; INSERT INTO later SELECT seq FROM events;"
)


@pytest.fixture
def folder():
    """A folder in memory, where there is one: here no power is cut in earnest."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


def image(folder: Path, disk: Disk, fate: str, dice: Random) -> Path:
    """Make anew the folder that the power cut leaves; gives the ledger in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    disk.write_image(folder, fate, dice)
    if dice.random() < 0.3:  # the index of the WAL is not on the disk, but something may be
        (folder / "ledger.db-shm").write_bytes(dice.randbytes(32_768))
    return folder / "ledger.db"


def judged(ledger: Path, digests: dict[str, int], acknowledged: int) -> str:
    """Say what is wrong with an image, "" if all is well."""
    try:
        report = verify(ledger)  # before anybody can have mended a thing
        if not report.ok and acknowledged:
            return f"verify: {report.fault}"
        done = digests.get(held(ledger))
    except LedgerError as error:
        return f"the start is refused: {error}"
    if done is None:
        return "what is there is not what any number of whole jobs gives"
    return "" if done >= acknowledged else f"only {done} of {acknowledged} jobs are there"


async def goes_on(ledger: Path) -> str:
    again = Ledger.open(ledger)
    await again.append([NewEvent("a", "noted", b"on")])[1]
    await again.close(60)
    report = verify(ledger)
    return "" if report.ok else f"after it went on: {report.fault}"


async def cut_everywhere(folder, life, seed, fates, *, deaf=False) -> tuple[int, list]:
    """Cut the power at every moment; gives how often, and what was wrong where."""
    digests, faults, cuts = life.digests(), [], 0
    for moment, acknowledged, disk in life.images(deaf=deaf):
        for fate in fates or (FATES[moment % len(FATES)],):
            dice = Random(f"{seed} {moment} {fate}")
            ledger = image(folder / "image", disk, fate, dice)
            fault = judged(ledger, digests, acknowledged)
            if not fault and dice.random() < 0.05:
                fault = await goes_on(ledger)
            cuts += 1
            if fault:
                faults.append(f"SEED={seed} moment={moment} fate={fate}: {fault}")
    return cuts, faults


async def lived(folder: Path, seed, synchronous="full"):
    (folder / "life").mkdir()
    dice = Random(f"{seed}")
    life = await live(folder / "life" / "ledger.db", dice, JOBS, Model(), synchronous=synchronous)
    shutil.rmtree(folder / "life")
    return life


@pytest.mark.parametrize("seed", [1, SEED], ids=["1", "SEED"])  # the same name in every process
async def test_what_was_acknowledged_is_there_after_a_power_cut_at_any_moment(folder, seed):
    cuts, faults = await cut_everywhere(folder, await lived(folder, seed), seed, ())

    assert not faults, faults[:9]
    assert cuts > 200


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_what_was_acknowledged_is_there_whatever_the_disk_has_kept(folder):
    total = 0
    for seed in range(SEED, SEED + (ROUNDS or 20)):
        cuts, faults = await cut_everywhere(folder, await lived(folder, seed), seed, FATES)
        assert not faults, faults[:9]
        total += cuts
    sys.stdout.write(f"{total} power cuts, SEED={SEED}\n")


async def lives_in_a_row(folder: Path, seed: int, count: int) -> None:
    """Live on what the last power cut has left, again and again."""
    dice, model, ledger = Random(f"row {seed}"), Model(), folder / "home" / "ledger.db"
    ledger.parent.mkdir()
    for number in range(count):
        life = await live(ledger, dice, dice.choice((1, 5, 20)), model)
        moments = dice.randrange(len(life.log) + 1)
        _, acknowledged, disk = next(islice(life.images(), moments, None))
        ledger = image(folder / "home", disk, dice.choice(FATES), dice)
        found = life.digests()
        fault = judged(ledger, found, acknowledged)
        assert not fault, f"SEED={seed}, life {number}: {fault}"
        model = life.models[found[held(ledger)]]


async def test_a_ledger_outlives_power_cuts_in_a_row(folder):
    await lives_in_a_row(folder, SEED, 25)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_ledger_outlives_many_power_cuts_in_a_row(folder):
    for seed in range(SEED, SEED + (ROUNDS or 20)):
        (folder / str(seed)).mkdir()
        await lives_in_a_row(folder / str(seed), seed, 100)


# The controls: where it must fail, it does, or all of the above proves nothing.


async def test_with_less_syncing_a_power_cut_loses_what_was_acknowledged(folder):
    life = await lived(folder, SEED, synchronous="normal")
    cuts, faults = await cut_everywhere(folder, life, SEED, ("nothing",))

    assert len(faults) > cuts // 4, f"SEED={SEED}"
    assert all("jobs are there" in fault for fault in faults), "nothing worse than loss"


async def test_a_disk_that_lies_about_syncing_loses_or_breaks_the_ledger(folder):
    cuts, faults = await cut_everywhere(folder, await lived(folder, SEED), SEED, (), deaf=True)

    assert len(faults) > cuts // 4, f"SEED={SEED}"
    assert any("jobs are there" in fault for fault in faults)
    assert any("damaged" in fault for fault in faults)


# While it is made, and while its schema is brought forward.


async def test_a_power_cut_while_a_ledger_is_made_leaves_one_that_can_be_used(folder):
    (folder / "new").mkdir()
    life = await live(folder / "new" / "ledger.db", Random(SEED), 0, Model())
    cuts, faults = await cut_everywhere(folder, life, SEED, FATES)
    assert not faults, faults[:9]
    assert cuts > 50


def moved_forward(path: Path) -> Disk | list:
    """Open with one more migration, on a disk that notes what is done."""
    disk = PowerDisk()
    before = Disk.of(path.parent)
    try:
        con = opening.open_writing(path, (*schema.MIGRATIONS, LATER), vfs=disk.vfs_name)
        con.close()
    finally:
        disk.unregister()
    return before, disk.log


async def test_a_power_cut_while_the_schema_is_brought_forward_leaves_the_old_or_the_new(folder):
    (folder / "home").mkdir()
    path = folder / "home" / "ledger.db"
    life = await live(path, Random(SEED), JOBS, Model())
    whole = held(path)
    known, versions = len(schema.MIGRATIONS), Counter()

    disk, log = moved_forward(path)
    for moment in range(len(log) + 1):
        for fate in FATES:
            copy = image(folder / "image", disk, fate, Random(f"{SEED} {moment} {fate}"))
            con = opening.open_reading(copy)
            version = con.pragma("user_version")
            con.close()
            versions[version - known] += 1
            after = opening.open_writing(copy, (*schema.MIGRATIONS, LATER))
            later = after.execute("SELECT count(*) FROM later").get
            assert later == after.execute("SELECT count(*) FROM events").get
            after.close()
            assert held_by_newer(copy) == whole, f"SEED={SEED} moment={moment} fate={fate}"
        if moment < len(log):
            disk.do(log[moment])
    assert set(versions) == {0, 1}
    assert whole in life.digests()


def held_by_newer(path: Path) -> str:
    con = opening.open_writing(path, (*schema.MIGRATIONS, LATER))
    con.execute("DROP TABLE later")
    con.pragma("user_version", len(schema.MIGRATIONS))
    con.close()
    return held(path)


async def test_an_acknowledgement_stands_behind_the_sync_that_it_rests_on(folder):
    life = await lived(folder, SEED)
    synced = False
    for op in life.log:
        synced = (synced or op.kind == "sync") and not (
            op.kind == "write" and op.name.endswith("-wal")
        )
        assert op.kind != "word" or synced
    assert any(op.kind == "word" for op in life.log)
