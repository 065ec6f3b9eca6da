"""Files of the inbox are taken: each one once, whole, and in the order of their age."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest
from inbox_taker import names, running

from clew_daemon.inbox.files import Changed, Dropped, claim, look_around


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
