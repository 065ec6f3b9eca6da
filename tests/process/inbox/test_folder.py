"""The folder of the inbox: whose it is, in what state, and how it is watched."""

import asyncio
import shutil

import pytest
from inbox_taker import names, running

from clew_daemon.inbox import inbox as module
from clew_daemon.inbox.files import LOCK_NAME, Dropped


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
    async with asyncio.timeout(20):
        async with running(daemon):
            (folder / "goal.md").write_text("hangs")
            await inside.wait()
        await ended.wait()
    (name,) = names(folder)
    assert name.startswith(".clew-claimed-")
