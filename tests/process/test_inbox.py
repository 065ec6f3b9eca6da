"""The inbox on a real folder with real inotify events."""

import asyncio
import errno
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from clew_daemon.inbox import files
from clew_daemon.inbox.files import Dropped
from clew_daemon.inbox.inbox import Inbox
from clew_daemon.inbox.owner import LOCK_NAME, HeldElsewhereError, InboxOwner
from clew_daemon.inbox.verdicts import Accepted, Already, Later, Rejected, Verdict

DEADLINE_S = 20


def names(folder: Path) -> list[str]:
    """Name what lies in an inbox besides its lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK_NAME)


class Daemon:
    """Accepts what it is handed, and can be waited for."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rejected = folder / "rejected"
        self.drops: list[Dropped] = []
        self.answer = lambda drop: Accepted(f"goal-{len(self.drops)}")
        self.changed = asyncio.Condition()
        self.logged = LogCapture()
        self.owner = InboxOwner(folder)

    async def accept(self, drop: Dropped) -> Verdict:
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
            while not holds():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    def inbox(self, **settings) -> Inbox:
        log = structlog.wrap_logger(None, processors=[self.logged])
        return Inbox(
            self.folder,
            self.rejected,
            owner=self.owner,
            accept=self.accept,
            log=log,
            **{"settle_s": 0.05, "sweep_s": 60, **settings},
        )

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.logged.entries]

    @property
    def names(self) -> list[str]:
        return [drop.name for drop in self.drops]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "inbox"


@pytest.fixture
def daemon(folder: Path) -> Daemon:
    return Daemon(folder)


@asynccontextmanager
async def running(daemon: Daemon, **settings):
    inbox = daemon.inbox(**settings)
    await inbox.start()
    await daemon.until(lambda: inbox._watched)
    try:
        yield inbox
    finally:
        await inbox.stop()


async def test_a_file_that_is_written_is_handed_over_and_leaves(daemon, folder):
    async with running(daemon):
        (folder / "goal.md").write_text("# Say hello")
        await daemon.until_drops(1)
        await daemon.until(lambda: not names(folder))
    assert [(drop.name, drop.raw) for drop in daemon.drops] == [("goal.md", b"# Say hello")]


async def test_a_file_that_is_moved_in_is_taken_without_a_sweep(daemon, folder, tmp_path):
    (tmp_path / "elsewhere.txt").write_text("do it")
    async with running(daemon):
        (tmp_path / "elsewhere.txt").rename(folder / "goal.TXT")
        await daemon.until_drops(1)
    assert daemon.names == ["goal.TXT"]


async def test_files_that_lie_there_at_the_start_are_taken(daemon, folder):
    folder.mkdir(parents=True)
    (folder / "goal.md").write_text("early")
    async with running(daemon):
        await daemon.until_drops(1)
    assert daemon.drops[0].raw == b"early"


async def test_other_names_stay_where_they_are(daemon, folder):
    folder.mkdir(parents=True)
    others = {".hidden.md", "goal.md.tmp", "goal.md.part", "goal.md~", "goal.yaml", "goal"}
    for name in others:
        (folder / name).write_text("not yet")
    async with running(daemon):
        (folder / "goal.md").write_text("now")
        await daemon.until_drops(1)
    assert daemon.names == ["goal.md"]
    assert others <= set(names(folder))
    assert daemon.events() == []


async def test_a_file_that_grows_is_taken_once_and_whole(daemon, folder):
    parts = [f"line {count}\n".encode() for count in range(20)]
    async with running(daemon, settle_s=2):
        with (folder / "goal.md").open("wb", buffering=0) as file:
            for part in parts:
                file.write(part)
                await asyncio.sleep(0.02)  # a slow writer is the very thing that is tried
        await daemon.until_drops(1)
    assert [drop.raw for drop in daemon.drops] == [b"".join(parts)]


async def test_an_empty_file_waits_for_its_content(daemon, folder):
    async with running(daemon, settle_s=0.05):
        (folder / "goal.md").touch()
        (folder / "later.md").write_text("a file that settles long before an empty one would")
        await daemon.until_drops(1)
        (folder / "goal.md").write_text("here it comes")
        await daemon.until_drops(2)
    assert daemon.drops[1].raw == b"here it comes"


async def test_a_file_that_stays_empty_is_handed_over_as_such(daemon, folder):
    async with running(daemon):
        (folder / "goal.md").touch()
        await daemon.until_drops(1)
    assert daemon.drops[0].raw == b""


async def test_of_a_huge_file_one_byte_more_than_the_limit_is_read(daemon, folder):
    async with running(daemon):
        with (folder / "goal.md").open("wb") as file:
            file.truncate(1 << 40)
        await daemon.until_drops(1)
    assert len(daemon.drops[0].raw) == 1024 * 1024 + 1


async def test_a_rejected_file_moves_aside_with_the_reason_beside_it(daemon, folder):
    daemon.answer = lambda _: Rejected("line 3: `budget` must be a table\nlike {tokens: 1}")
    async with running(daemon):
        (folder / "goal.md").write_text("bad")
        await daemon.until(lambda: "goal.rejected" in daemon.events())
    assert (daemon.rejected / "goal.md").read_text() == "bad"
    reason = (daemon.rejected / "goal.md.error.txt").read_text()
    assert reason == "line 3: `budget` must be a table\nlike {tokens: 1}\n"
    assert daemon.logged.entries == [
        {
            "event": "goal.rejected",
            "name": "goal.md",
            "error": "line 3: `budget` must be a table",
            "log_level": "warning",
        }
    ]


async def test_a_second_rejected_file_of_a_name_gets_a_name_of_its_own(daemon, folder):
    daemon.answer = lambda drop: Rejected(f"not {drop.raw.decode()}")
    async with running(daemon):
        for count, text in enumerate(("one", "two"), start=1):
            (folder / "goal.md").write_text(text)
            await daemon.until(lambda n=count: daemon.events().count("goal.rejected") == n)
    found = {path.name: path.read_text() for path in daemon.rejected.iterdir()}
    assert found == {
        "goal.md": "one",
        "goal.md.error.txt": "not one\n",
        "goal-2.md": "two",
        "goal-2.md.error.txt": "not two\n",
    }


async def test_a_file_that_is_refused_for_now_is_tried_again(daemon, folder):
    answers = [Later(0.01), Later(), Accepted("goal-1")]
    daemon.answer = lambda _: answers[len(daemon.drops) - 1]
    async with running(daemon):
        (folder / "goal.md").write_text("later")
        await daemon.until_drops(3)
        await daemon.until(lambda: not names(folder))
    assert daemon.names == ["goal.md"] * 3


async def test_a_file_that_is_refused_for_now_has_its_name_while_it_waits(daemon, folder):
    daemon.answer = lambda _: Later(30)
    async with running(daemon):
        (folder / "goal.md").write_text("later")
        await daemon.until_drops(1)
        await daemon.until(lambda: names(folder) == ["goal.md"])
    assert (folder / "goal.md").read_text() == "later"


async def test_a_fault_of_the_daemon_leaves_the_file_and_stops_no_other(daemon, folder):
    def answer(drop: Dropped) -> Verdict:
        if drop.name == "bad.md" and daemon.names.count("bad.md") < 3:
            raise OSError(28, "No space left on device")
        return Accepted(drop.name)

    daemon.answer = answer
    async with running(daemon):
        (folder / "bad.md").write_text("full")
        (folder / "good.md").write_text("fine")
        await daemon.until(lambda: not names(folder))
    assert Counter(daemon.names) == {"bad.md": 3, "good.md": 1}
    assert daemon.events() == ["inbox.deferred"]


async def test_a_drop_that_was_recorded_before_a_crash_is_only_removed(daemon, folder):
    daemon.answer = lambda _: Already()
    async with running(daemon):
        (folder / "goal.md").write_text("again")
        await daemon.until(lambda: daemon.drops and not names(folder))
    assert len(daemon.drops) == 1


async def test_while_nothing_can_be_decided_only_the_first_files_are_tried(daemon, folder):
    """A full disk: thousands of files would be renamed to and fro each second."""
    daemon.answer = lambda _: Later(30)
    folder.mkdir(parents=True)
    for count in range(300):
        (folder / f"goal-{count}.md").write_text("later")
    async with running(daemon, sweep_s=0.05) as inbox:
        await daemon.until_drops(64)
        for _ in range(3):
            await inbox.sweep()
    assert len(daemon.drops) == 64
    assert len(names(folder)) == 300


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EPERM])
async def test_a_file_that_cannot_be_claimed_keeps_its_name_and_is_tried_again(
    daemon, folder, monkeypatch, code
):
    rename = files.rename_new

    def refuse(source, target):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "rename_new", refuse)
    async with running(daemon):
        (folder / "goal.md").write_text("no room")
        await daemon.until(lambda: "inbox.deferred" in daemon.events())
        assert names(folder) == ["goal.md"]
        assert daemon.drops == []
        monkeypatch.setattr(files, "rename_new", rename)
        await daemon.until(lambda: not names(folder))
    assert daemon.names == ["goal.md"]
    assert os.strerror(code) in daemon.logged.entries[0]["error"]


async def test_a_file_that_may_have_been_accepted_stays_claimed_and_keeps_its_identity(
    daemon, folder
):
    """A daemon that dies, or whose ledger does not answer, cannot know: only the identity tells."""

    def answer(drop: Dropped) -> Verdict:
        raise TimeoutError

    daemon.answer = answer
    folder.mkdir(parents=True)
    (folder / "goal.md").write_text("same")
    for _ in range(2):
        async with running(daemon):
            await daemon.until_drops(len(daemon.drops) + 1)
    assert len({drop.identity for drop in daemon.drops}) == 1
    assert not (folder / "goal.md").exists()
    daemon.answer = lambda _: Already()
    async with running(daemon):
        await daemon.until(lambda: not names(folder))
    assert len({drop.identity for drop in daemon.drops}) == 1


async def test_a_file_is_claimed_before_it_is_accepted(daemon, folder):
    seen: list[bool] = []

    def answer(drop: Dropped) -> Verdict:
        seen.append((folder / drop.name).exists())
        return Accepted(drop.name)

    daemon.answer = answer
    async with running(daemon):
        (folder / "goal.md").write_text("mine")
        await daemon.until_drops(1)
        await daemon.until(lambda: not names(folder))
    assert seen == [False]


async def test_a_file_that_someone_has_open_for_writing_waits_under_its_own_name(daemon, folder):
    """Longer than settle_s without a write is no end: half a goal file was carried out so."""
    async with running(daemon):
        with (folder / "half.md").open("wb", buffering=0) as file:
            file.write(b"first half, ")
            await daemon.until(lambda: "inbox.waiting" in daemon.events())
            (folder / "other.md").write_text("others do not wait for it")
            await daemon.until(lambda: names(folder) == ["half.md"])
            file.write(b"second half")
        await daemon.until_drops(2)
        await daemon.until(lambda: not names(folder))
    assert [drop.raw for drop in daemon.drops][1:] == [b"first half, second half"]
    assert daemon.logged.entries == [
        {
            "event": "inbox.waiting",
            "name": "half.md",
            "reason": "another program still has it open for writing",
            "log_level": "info",
        }
    ]


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
        "print(files._has_writer(os.open(sys.argv[1], os.O_RDONLY)))\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["broken", "False"]), done.stderr


async def test_a_file_with_two_names_in_the_inbox_is_two_drops(daemon, folder):
    folder.mkdir(parents=True)
    (folder / "one.md").write_text("same")
    os.link(folder / "one.md", folder / "two.md")
    async with running(daemon):
        await daemon.until_drops(2)
        await daemon.until(lambda: not names(folder))
    assert sorted(daemon.names) == ["one.md", "two.md"]
    assert len({drop.identity for drop in daemon.drops}) == 2


async def test_an_inbox_that_another_daemon_owns_is_left_alone_until_it_is_free(daemon, folder):
    other = Daemon(folder)
    async with running(daemon):
        second = other.inbox(sweep_s=0.05)
        await second.start()
        await other.until(lambda: other.events() == ["inbox.unusable"])
        (folder / "goal.md").write_text("once")
        await daemon.until_drops(1)
    assert "belongs to another daemon" in other.logged.entries[0]["error"]
    assert "[paths] inbox" in other.logged.entries[0]["error"]
    assert other.drops == []
    daemon.owner.release()
    await other.until(lambda: second._watched)
    (folder / "goal.md").write_text("again")
    await other.until_drops(1)
    await second.stop()
    assert other.events() == ["inbox.unusable"]


async def test_the_lock_is_taken_again_in_a_folder_that_stands_in_the_inboxs_place(daemon, folder):
    async with running(daemon, sweep_s=0.05):
        folder.rename(folder.with_name("moved"))
        await daemon.until(lambda: "inbox.recreated" in daemon.events())
        with pytest.raises(HeldElsewhereError):
            InboxOwner(folder).take()
        InboxOwner(folder.with_name("moved")).take()  # no longer ours
        (folder / "goal.md").write_text("here")
        await daemon.until_drops(1)


async def test_a_folder_in_the_inboxs_place_that_another_daemon_owns_is_unusable_for_now(
    daemon, folder
):
    theirs = folder.with_name("theirs")
    theirs.mkdir(parents=True)
    owner = InboxOwner(theirs)
    owner.take()
    async with running(daemon, sweep_s=0.05):
        folder.rename(folder.with_name("moved"))
        theirs.rename(folder)
        await daemon.until(lambda: "inbox.unusable" in daemon.events())
        (folder / "goal.md").write_text("not ours")
        owner.release()
        await daemon.until_drops(1)
    assert daemon.events().count("inbox.unusable") == 1


async def test_a_lock_that_is_removed_is_taken_again(daemon, folder):
    async with running(daemon) as inbox:
        (folder / LOCK_NAME).unlink()
        await inbox.sweep()
        with pytest.raises(HeldElsewhereError):
            InboxOwner(folder).take()


async def test_an_inbox_that_cannot_be_locked_is_unusable_with_the_reason_and_tried_again(
    daemon, folder
):
    (folder / LOCK_NAME).mkdir(parents=True)
    inbox = daemon.inbox(sweep_s=0.05)
    (folder / "goal.md").write_text("first the lock")
    await inbox.start()
    await daemon.until(lambda: daemon.events() == ["inbox.unusable"])
    assert "plain file" in daemon.logged.entries[0]["error"]
    assert daemon.drops == []
    (folder / LOCK_NAME).rmdir()
    await daemon.until_drops(1)
    await inbox.stop()
    assert daemon.events() == ["inbox.unusable"]


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


async def test_what_is_no_file_is_never_opened_and_named_once(daemon, folder):
    folder.mkdir(parents=True)
    (folder / "folder.md").mkdir()
    os.mkfifo(folder / "fifo.md")
    (folder / "nowhere.md").symlink_to("missing")
    (folder / "device.md").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        short = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{short}/socket.md")  # sun_path holds 108 bytes at the most
        os.close(short)
        async with running(daemon) as inbox:
            await inbox.sweep()
            (folder / "goal.md").write_text("a file")
            await daemon.until_drops(1)
    assert sorted(entry["name"] for entry in daemon.logged.entries) == [
        "device.md",
        "fifo.md",
        "folder.md",
        "nowhere.md",
        "socket.md",
    ]


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


async def test_a_thousand_files_dropped_while_it_runs_are_each_taken_once(daemon, folder):
    async with running(daemon):
        for count in range(1000):
            (folder / f"goal-{count}.md").write_text(str(count))
        await daemon.until(lambda: not names(folder))
    assert Counter(daemon.names) == {f"goal-{count}.md": 1 for count in range(1000)}


async def test_a_folder_that_is_deleted_is_made_anew_and_watched(daemon, folder):
    async with running(daemon):
        for count in range(1, 4):
            shutil.rmtree(folder)
            await daemon.until(folder.is_dir)
            await daemon.until(lambda n=count: daemon.events().count("inbox.recreated") == n)
            (folder / f"goal-{count}.md").write_text("after all")
            await daemon.until_drops(count)
            await daemon.until(lambda: not names(folder))


async def test_another_file_renamed_over_the_name_meanwhile_is_not_lost(daemon, folder, tmp_path):
    def answer(drop: Dropped) -> Verdict:
        if drop.raw == b"first":
            (tmp_path / "second").write_text("second")
            (tmp_path / "second").rename(folder / "goal.md")
        return Accepted(drop.name)

    daemon.answer = answer
    async with running(daemon):
        (folder / "goal.md").write_text("first")
        await daemon.until_drops(2)
        await daemon.until(lambda: not names(folder))
    assert [drop.raw for drop in daemon.drops] == [b"first", b"second"]


async def test_text_appended_after_the_reading_is_a_drop_of_its_own(daemon, folder):
    def answer(drop: Dropped) -> Verdict:
        if drop.raw == b"first":
            (folder / "goal.md").write_text("first and more")
        return Accepted(drop.name)

    daemon.answer = answer
    async with running(daemon):
        (folder / "goal.md").write_text("first")
        await daemon.until_drops(2)
    assert daemon.drops[1].raw == b"first and more"


async def test_a_file_that_cannot_be_removed_is_recorded_once(daemon, folder, monkeypatch):
    def refuse(claim):
        raise PermissionError(13, "Permission denied")

    async with running(daemon) as inbox:
        with monkeypatch.context() as patched:
            patched.setattr(files, "remove", refuse)
            (folder / "goal.md").write_text("stays")
            await daemon.until_drops(1)
            await daemon.until(lambda: "inbox.deferred" in daemon.events())
            await inbox.sweep()
        await daemon.until(lambda: not names(folder))
    assert daemon.names == ["goal.md"]


async def test_a_file_that_may_not_be_read_is_rejected(daemon, folder, monkeypatch):
    def refuse(claim):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "read", refuse)
    async with running(daemon):
        (folder / "goal.md").write_text("secret")
        await daemon.until(lambda: "goal.rejected" in daemon.events())
    assert "chmod" in (daemon.rejected / "goal.md.error.txt").read_text()
    assert daemon.drops == []


async def test_without_inotify_files_are_taken_by_the_sweep(daemon, folder, monkeypatch):
    def refuse(self, path):
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr("clew_daemon.inbox.folder_watch.FolderWatch.renew", refuse)
    inbox = daemon.inbox(sweep_s=0.1)
    await inbox.start()
    await daemon.until(lambda: "inbox.unwatched" in daemon.events())
    (folder / "goal.md").write_text("seen by looking")
    await daemon.until_drops(1)
    await inbox.stop()
    assert daemon.events() == ["inbox.unwatched"]


async def test_a_folder_that_is_a_file_is_named_once_and_used_when_it_is_mended(daemon, folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    inbox = daemon.inbox(sweep_s=0.05)
    await inbox.start()
    await daemon.until(lambda: daemon.events() == ["inbox.unusable"])
    folder.unlink()
    await daemon.until(lambda: inbox._watched)
    (folder / "goal.md").write_text("mended")
    await daemon.until_drops(1)
    await inbox.stop()
    assert daemon.events() == ["inbox.unusable"]


async def test_start_and_stop_are_legal_in_any_order_and_leave_no_thread(daemon, folder):
    inbox = daemon.inbox()
    await inbox.stop()
    await inbox.start()
    await inbox.start()
    await inbox.stop()
    await inbox.stop()
    await inbox.start()
    await inbox.stop()
    watching = [t for t in threading.enumerate() if type(t).__module__.startswith("watchdog")]
    assert watching == []


async def test_stop_lets_what_is_under_way_end(daemon, folder):
    inside, go_on = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def accept(drop: Dropped) -> Verdict:
        inside.set()
        await go_on.wait()
        done.append(drop.name)
        return Accepted(drop.name)

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


async def test_a_sweep_takes_what_has_settled_now(daemon, folder):
    inbox = daemon.inbox(settle_s=0)
    folder.mkdir(parents=True)
    (folder / "goal.md").write_text("now")
    await inbox.sweep()
    await inbox.sweep()
    await inbox.stop()
    assert daemon.names == ["goal.md"]
