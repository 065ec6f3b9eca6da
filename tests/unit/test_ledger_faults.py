"""The ledger when the disk is full, slow, locked or failing; all of it real."""

import asyncio
import subprocess
import sys

import apsw
import pytest

from clew_shared.ledger import Ledger, LedgerFailed, LedgerState, NewEvent, verify, writer

BIG = b"x" * 50_000


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 0.02)


class States(asyncio.Queue):
    async def until(self, state):
        async with asyncio.timeout(60):
            while await self.get() is not state:
                pass


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("may not mount a small file system here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


async def append_until_full(ledger, states):
    futures = []
    while True:
        futures.append(ledger.append([NewEvent("a", "noted", b"%d" % len(futures), BIG)])[1])
        await asyncio.wait([futures[-1]], timeout=0.5)
        if LedgerState.FULL in states._queue:
            return futures


async def test_a_full_disk_is_waited_for_and_nothing_is_lost_or_reordered(small_disk):
    states, path = States(), small_disk / "ledger.db"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    ledger = Ledger.open(path, on_state=states.put_nowait)

    futures = await append_until_full(ledger, states)
    futures += [ledger.append([NewEvent("a", "noted", b"late %d" % i)])[1] for i in range(10)]
    await states.until(LedgerState.FULL)
    assert not futures[-1].done()
    assert not await ledger.sync(0.1)
    assert ledger.state is LedgerState.FULL

    ballast.unlink()
    await asyncio.gather(*futures)
    await states.until(LedgerState.OK)
    assert states.empty()
    report = verify(path)
    assert (report.ok, report.events) == (True, len(futures))
    await ledger.close(10)


class BrittleFile(apsw.VFSFile):
    broken = False

    def __init__(self, name, flags):
        super().__init__("", name, flags)

    def xSync(self, flags):  # noqa: N802 - SQLite's name
        if BrittleFile.broken:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)


class BrittleDisk(apsw.VFS):
    def __init__(self):
        super().__init__("brittle", "")

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return BrittleFile(name, flags)


@pytest.fixture
def brittle_disk(monkeypatch):
    # apsw shows an error raised in a file system also as unraisable; here it is meant.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    disk = BrittleDisk()
    BrittleFile.broken = False
    yield disk
    BrittleFile.broken = False
    disk.unregister()


async def test_a_failed_fsync_is_never_retried_and_fails_everyone(tmp_path, brittle_disk):
    states, path = States(), tmp_path / "ledger.db"
    ledger = Ledger.open(path, on_state=states.put_nowait, vfs="brittle")
    await ledger.append([NewEvent("a", "noted", b"kept")])[1]
    BrittleFile.broken = True
    lost = [ledger.append([NewEvent("a", "noted", b"lost")])[1] for _ in range(3)]
    results = await asyncio.gather(*lost, return_exceptions=True)
    await states.until(LedgerState.FAILED)
    BrittleFile.broken = False

    assert all(isinstance(result, LedgerFailed) for result in results)
    assert ledger._writer.pending == 0
    with pytest.raises(LedgerFailed, match="cannot be written"):
        ledger.append([NewEvent("a", "noted", b"later")])
    with pytest.raises(LedgerFailed):
        await ledger.sync(1)
    await ledger.close(10)

    ledger = Ledger.open(path)
    assert next(ledger.read("a")).body == b"kept"
    await ledger.append([NewEvent("a", "noted", b"again")])[1]
    await ledger.close(10)
    assert verify(path).ok
