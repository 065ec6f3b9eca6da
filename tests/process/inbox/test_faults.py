"""Files of the inbox that are refused, or that cannot be claimed, read or removed."""

import errno
import os
from collections import Counter

import pytest
from inbox_taker import names, running

from clew_daemon.inbox import files
from clew_daemon.inbox.files import Dropped
from clew_daemon.inbox.verdicts import Accepted, Already, Later, Rejected, Verdict


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
