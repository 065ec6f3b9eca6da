"""Files of the inbox that are refused, or that cannot be claimed, read or removed."""

import errno
from collections import Counter
from pathlib import Path

from inbox_taker import names, running

from clew_daemon.inbox.files import Dropped


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
