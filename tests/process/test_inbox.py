"""The inbox: each file is taken once, whole and by its age; faults of its folder and of files."""

import asyncio
import errno
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from clew_daemon.inbox import inbox as module
from clew_daemon.inbox.files import LOCK_NAME, Changed, Dropped, InboxOwner, claim, look_around
from clew_daemon.inbox.inbox import Inbox

DEADLINE_S = 20


def names(folder: Path) -> list[str]:
    """Name what lies in an inbox besides its lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK_NAME)


class Daemon:
    """Accepts what it is handed, and can be waited for."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.drops: list[Dropped] = []
        self.answer = lambda _: None
        self.changed = asyncio.Condition()
        self.logged = LogCapture()
        self.owner = InboxOwner(folder)

    async def accept(self, drop: Dropped) -> str | None:
        async with self.changed:
            self.drops.append(drop)
            self.changed.notify_all()
        return self.answer(drop)

    async def until_drops(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S), self.changed:
            await self.changed.wait_for(lambda: len(self.drops) >= count)

    async def until(self, holds) -> None:
        """Wait for something on the disk that nothing announces."""
        async with asyncio.timeout(DEADLINE_S):
            while not holds():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)

    def inbox(self, **settings) -> Inbox:
        log = structlog.wrap_logger(None, processors=[self.logged])
        return Inbox(
            folder=self.folder,
            owner=self.owner,
            accept=self.accept,
            logs=log,
            **{"settle_s": 0.05, "sweep_s": 60, **settings},
        )

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.logged.entries]

    @property
    def names(self) -> list[str]:
        return [drop.name for drop in self.drops]


@asynccontextmanager
async def running(daemon: Daemon, **settings):
    inbox = daemon.inbox(**settings)
    await inbox.start()
    await daemon.until((daemon.folder / LOCK_NAME).exists)
    try:
        yield inbox
    finally:
        await inbox.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "inbox"


@pytest.fixture
def daemon(folder: Path) -> Daemon:
    return Daemon(folder)


async def test_a_file_that_is_moved_in_is_taken_without_a_sweep(daemon, folder, tmp_path):
    (tmp_path / "elsewhere.txt").write_text("do it")
    async with running(daemon):
        (tmp_path / "elsewhere.txt").rename(folder / "goal.TXT")
        await daemon.until_drops(1)
    assert daemon.names == ["goal.TXT"]


async def test_a_file_that_grows_is_taken_once_and_whole(daemon, folder):
    parts = [f"line {count}\n".encode() for count in range(20)]
    async with running(daemon, settle_s=2):
        with (folder / "goal.md").open("wb", buffering=0) as file:
            for part in parts:
                file.write(part)
                await asyncio.sleep(0.02)  # a slow writer is the very thing that is tried
        await daemon.until_drops(1)
    assert [drop.raw for drop in daemon.drops] == [b"".join(parts)]


async def test_a_file_whose_name_is_as_long_as_can_be_is_taken_and_can_be_rejected(daemon, folder):
    daemon.answer = lambda _: "no goal"
    async with running(daemon):
        (folder / f"{84 * '写'}.md").write_text("x")
        await daemon.until(lambda: names(folder) == ["rejected"] and names(folder / "rejected"))
    assert len(names(folder / "rejected")) == 2
    assert daemon.names[0].endswith("写写.md")


async def test_of_a_huge_file_one_byte_more_than_the_limit_is_read(daemon, folder):
    async with running(daemon):
        with (folder / "goal.md").open("wb") as file:
            file.truncate(1 << 40)
        await daemon.until_drops(1)
    assert len(daemon.drops[0].raw) == 1024 * 1024 + 1


async def test_a_writer_that_ends_the_lease_sends_no_signal_that_ends_the_daemon(tmp_path):
    """The kernel signals the holder of a lease when someone opens the file; by default that kills."""
    path = tmp_path / "goal.md"
    path.write_text("x")
    code = (
        "import fcntl, os, sys\n"
        "from clew_daemon.inbox import files\n"
        "real = fcntl.fcntl\n"
        "def opened_meanwhile(fd, command, value=0):\n"
        "    if command == fcntl.F_SETLEASE and value == fcntl.F_UNLCK:\n"
        "        try:\n"
        "            os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)\n"
        "        except BlockingIOError:\n"
        "            print('broken')\n"
        "    return real(fd, command, value)\n"
        "fcntl.fcntl = opened_meanwhile\n"
        "print(files._refuse_written(files.Path(sys.argv[1])))\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["broken", "None"]), done.stderr


async def test_a_link_gives_its_targets_content_and_only_the_link_goes(daemon, folder, tmp_path):
    (tmp_path / "kept.md").write_text("mine")
    async with running(daemon):
        for count in (1, 2):
            (folder / "goal.md").symlink_to(tmp_path / "kept.md")
            await daemon.until_drops(count)
            await daemon.until(lambda: not names(folder))
    assert [drop.raw for drop in daemon.drops] == [b"mine", b"mine"]
    assert daemon.drops[0].identity != daemon.drops[1].identity
    assert (tmp_path / "kept.md").read_text() == "mine"


async def test_what_is_no_file_is_never_opened(daemon, folder):
    folder.mkdir(parents=True)
    (folder / "folder.md").mkdir()
    os.mkfifo(folder / "fifo.md")
    (folder / "nowhere.md").symlink_to("missing")
    (folder / "device.md").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        short = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{short}/socket.md")  # sun_path holds at most 108 bytes
        os.close(short)
        async with running(daemon):
            (folder / "goal.md").write_text("a file")
            await daemon.until_drops(1)
    assert daemon.names == ["goal.md"]


async def test_a_thousand_files_at_once_are_each_taken_once_the_oldest_first(daemon, folder):
    folder.mkdir(parents=True)
    in_order = [f"goal-{count:04}.md" for count in range(1000)]
    for count, name in enumerate(reversed(in_order)):
        (folder / name).write_text(name)
        os.utime(folder / name, ns=(0, (1000 - count) * 10**9))
    async with running(daemon):
        await daemon.until_drops(1000)
        await daemon.until(lambda: not names(folder))
    assert daemon.names == in_order


async def test_another_file_renamed_over_the_name_meanwhile_is_not_lost(daemon, folder, tmp_path):
    def answer(drop: Dropped) -> None:
        if drop.raw == b"first":
            (tmp_path / "second").write_text("second")
            (tmp_path / "second").rename(folder / "goal.md")

    daemon.answer = answer
    async with running(daemon):
        (folder / "goal.md").write_text("first")
        await daemon.until_drops(2)
        await daemon.until(lambda: not names(folder))
    assert [drop.raw for drop in daemon.drops] == [b"first", b"second"]


def test_a_file_that_was_changed_since_it_was_looked_at_keeps_its_name(tmp_path):
    """Its writer would make a second one by that name, and one drop would be two goals."""
    goal = tmp_path / "goal.md"
    goal.write_text("half")
    (found,) = look_around(tmp_path)
    goal.write_text("half and half")
    with pytest.raises(Changed):
        claim(found)
    assert names(tmp_path) == ["goal.md"]


def no_lock(folder):
    (folder / LOCK_NAME).mkdir(parents=True)
    return (folder / LOCK_NAME).rmdir


def no_folder(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    return folder.unlink


@pytest.mark.parametrize(("break_it", "said"), [(no_lock, "plain file"), (no_folder, "")])
async def test_a_folder_that_is_unusable_is_named_once_and_used_when_it_is_fixed(
    daemon, folder, break_it, said
):
    fix = break_it(folder)
    inbox = daemon.inbox(sweep_s=0.05)
    await inbox.start()
    await daemon.until(lambda: daemon.events() == ["inbox.unusable"])
    assert said in daemon.logged.entries[0]["error"]
    fix()
    await daemon.until(folder.is_dir)
    (folder / "goal.md").write_text("fixed")
    await daemon.until_drops(1)
    await inbox.stop()
    assert daemon.events() == ["inbox.unusable"]


async def test_a_folder_that_is_deleted_is_made_anew(daemon, folder):
    async with running(daemon):
        for count in range(1, 4):
            shutil.rmtree(folder)
            await daemon.until(folder.is_dir)
            (folder / f"goal-{count}.md").write_text("after all")
            await daemon.until_drops(count)
            await daemon.until(lambda: not names(folder))


async def test_stop_lets_what_is_under_way_end(daemon, folder):
    inside, go_on = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def accept(drop: Dropped) -> None:
        inside.set()
        await go_on.wait()
        done.append(drop.name)

    daemon.accept = accept
    inbox = daemon.inbox()
    folder.mkdir(parents=True)
    (folder / "goal.md").write_text("slow")
    await inbox.start()
    await inside.wait()
    stopping = asyncio.create_task(inbox.stop())
    go_on.set()
    await stopping
    assert done == ["goal.md"]
    assert names(folder) == []


async def test_stop_ends_an_accept_that_hangs_and_its_file_stays_claimed(
    daemon, folder, monkeypatch
):
    monkeypatch.setattr(module, "STOP_DEADLINE_S", 0.2)
    inside, ended = asyncio.Event(), asyncio.Event()

    async def hangs(_: Dropped) -> None:
        inside.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    daemon.accept = hangs
    async with asyncio.timeout(60):
        async with running(daemon):
            (folder / "goal.md").write_text("hangs")
            await inside.wait()
        await ended.wait()
    (name,) = names(folder)
    assert name.startswith(".clew-claimed-")


async def test_while_the_daemon_is_not_ready_files_stay_as_they_are(daemon, folder):
    """A full disk: nothing could be recorded."""
    is_ready, asked = False, []
    folder.mkdir(parents=True)
    for count in range(300):
        (folder / f"goal-{count}.md").write_text("later")
    before = names(folder)
    async with running(daemon, sweep_s=0.05, ready=lambda: asked.append(1) or is_ready):
        await daemon.until(lambda: len(asked) > 3)  # as many sweeps in which all were due
        assert names(folder) == before
        assert daemon.drops == []
        is_ready = True
        await daemon.until(lambda: not names(folder))
    assert len(daemon.drops) == 300


async def test_a_fault_of_the_daemon_leaves_the_file_and_stops_no_other(daemon, folder):
    def answer(drop: Dropped) -> str | None:
        if drop.name == "bad.md" and daemon.names.count("bad.md") < 3:
            raise OSError(28, "No space left on device")
        return None

    daemon.answer = answer
    async with running(daemon):
        (folder / "bad.md").write_text("full")
        (folder / "good.md").write_text("fine")
        await daemon.until(lambda: not names(folder))
    assert Counter(daemon.names) == {"bad.md": 3, "good.md": 1}
    assert daemon.events() == ["inbox.deferred"]


async def test_a_file_that_cannot_be_claimed_keeps_its_name_and_is_tried_again(
    daemon, folder, monkeypatch
):
    rename = Path.rename

    def refuse(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", refuse)
    async with running(daemon):
        (folder / "goal.md").write_text("no room")
        await daemon.until(lambda: "inbox.deferred" in daemon.events())
        assert names(folder) == ["goal.md"]
        assert daemon.drops == []
        monkeypatch.setattr(Path, "rename", rename)
        await daemon.until(lambda: not names(folder))
    assert daemon.names == ["goal.md"]
    assert "No space left" in daemon.logged.entries[0]["error"]


async def test_a_file_that_may_have_been_accepted_stays_claimed_and_keeps_its_identity(
    daemon, folder
):
    """A daemon that dies, or whose ledger does not answer, cannot know: only the identity tells."""

    def answer(drop: Dropped) -> str | None:
        raise TimeoutError

    daemon.answer = answer
    folder.mkdir(parents=True)
    (folder / "goal.md").write_text("same")
    for _ in range(2):
        async with running(daemon):
            await daemon.until_drops(len(daemon.drops) + 1)
    assert len({drop.identity for drop in daemon.drops}) == 1
    assert not (folder / "goal.md").exists()
    daemon.answer = lambda _: None
    async with running(daemon):
        await daemon.until(lambda: not names(folder))
    assert len({drop.identity for drop in daemon.drops}) == 1
