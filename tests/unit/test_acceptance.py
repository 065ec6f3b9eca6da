"""A drop is taken for a goal when that is durable, and not before: until then its file is the only record of it."""

import asyncio
from types import SimpleNamespace

import apsw
import pytest

from clew_daemon.config.places import places
from clew_daemon.host.keys import Keys
from clew_daemon.inbox.files import Dropped
from clew_daemon.inbox.inbox import accept
from clew_daemon.record import dependencies
from clew_shared.config.tables import Settings
from clew_shared.record import events as ev

DROP = Dropped("do.md", b"# Do\n## It\n- [ ] That\n  ```sh\n  true\n  ```\n", ("1", "2", "3"))


@pytest.fixture
async def daemon(book, tmp_path):
    settings = Settings()
    where = places({}, tmp_path / "home", settings)
    return SimpleNamespace(goals=book, settings=settings, places=where, keys=Keys({}))


async def test_a_drop_whose_acceptance_is_given_up_is_not_called_a_goal_before_that_is_durable(
    daemon,
):
    """Its file was removed at the second look, while the disk was full and the goal in memory only."""
    disk = apsw.Connection(str(daemon.goals.ledger.path))
    disk.execute("BEGIN IMMEDIATE")  # nothing can be written
    first = asyncio.ensure_future(accept(daemon, DROP))
    while not daemon.goals.identities:  # now it waits for the ledger
        assert not first.done()
        await daemon.goals.ledger.sync(0.05)
    first.cancel()
    second = asyncio.ensure_future(accept(daemon, DROP))
    assert not await daemon.goals.ledger.sync(0.2)
    assert not second.done()
    disk.execute("ROLLBACK")
    assert await second is None
    assert len(daemon.goals.ledger.goals()) == 1
    assert await accept(daemon, DROP) is None
    disk.close()


async def test_a_goal_without_a_name_is_not_looked_for_among_all_goals(daemon, monkeypatch):
    looked = []
    monkeypatch.setattr(dependencies, "holder", lambda *_: looked.append(_) or "")
    for number in "45":
        await accept(daemon, Dropped("do.md", DROP.raw, (number, "2", "3")))
    assert (len(daemon.goals.cores), looked) == (2, [])


@pytest.mark.parametrize(
    "front",
    [
        'checks: {a: "echo \\ud800"}',
        '"k\\ud800": 1',
        'workspace: "/tmp/\\ud800"',
        'workspace: "/tmp/a\\0b"',
        "workspace: RING",
    ],
)
async def test_a_file_that_could_not_be_recorded_is_rejected_and_the_next_one_is_taken(
    daemon, front, tmp_path
):
    """The ledger could not write it down, and the numbers of all later events were wrong."""
    ring = tmp_path / "ring"
    ring.symlink_to(ring)
    raw = f"---\n{front.replace('RING', str(ring))}\n---\nDo it\n".encode()
    assert await accept(daemon, Dropped("odd.md", raw, ("4", "5", "6")))
    assert await accept(daemon, DROP) is None
    assert len(daemon.goals.cores) == 1


async def test_a_drop_is_one_goal_however_many_take_it_at_once(daemon):
    assert await asyncio.gather(*(accept(daemon, DROP) for _ in range(5))) == [None] * 5
    assert len(daemon.goals.cores) == 1


async def test_the_beginning_of_an_id_means_the_goal_that_it_meant_when_the_file_was_accepted(
    daemon,
):
    await accept(daemon, DROP)
    (first,) = daemon.goals.cores
    after = b"---\ndepends_on: [DO, later]\n---\n# After\n"
    await accept(daemon, Dropped("after.md", after, ("2", "2", "3")))
    await accept(daemon, Dropped("do.md", DROP.raw, ("3", "2", "3")))
    (bound,) = [s for s in daemon.goals.states().values() if s.spec.description == "After"]
    assert bound.spec.depends_on == (first, "later")


async def rejected(daemon, name, text):
    error = await accept(daemon, Dropped(name, text.encode(), (name, text)))
    assert error
    return error


async def taken(daemon, name, text):
    assert await accept(daemon, Dropped(name, text.encode(), (name, text))) is None
    return daemon.goals.identities[(name, text)]


def end(daemon, goal):
    core = daemon.goals.cores[goal]
    with daemon.goals.entering(core):
        core.emit(ev.GoalEnded(status="cancelled"))


async def test_a_name_is_refused_while_a_living_goal_has_it_and_free_after_its_end(daemon):
    first = await taken(daemon, "a.md", "---\npriority: 1\nname: tea\n---\nMake tea\n")
    assert first.startswith("tea-")
    error = await rejected(daemon, "b.md", "---\npriority: 2\nname: tea\n---\nMake more\n")
    assert error.startswith(f"b.md cannot be used:\nline 3: `name` tea is in use by {first}")
    assert "is the id of another goal" in await rejected(
        daemon, "c.md", f"---\nname: {first}\n---\nx\n"
    )
    end(daemon, first)
    assert (await taken(daemon, "b.md", "---\nname: tea\n---\nMake more\n")) != first


async def test_the_last_goal_of_a_cycle_is_rejected_with_its_line_and_the_cycle(daemon):
    """Such goals were accepted, and waited for each other for ever."""
    await taken(daemon, "a.md", "---\nname: a\ndepends_on: [b]\n---\nx\n")
    await taken(daemon, "b.md", "---\nname: b\ndepends_on: c\n---\nx\n")
    error = await rejected(daemon, "c.md", "---\nname: c\ndepends_on: [a]\n---\nx\n")
    assert "line 3: `depends_on` makes a cycle: c → a → b → c" in error
    assert "makes a cycle: d → d" in await rejected(
        daemon, "d.md", "---\nname: d\ndepends_on: d\n---\nx\n"
    )
    await taken(daemon, "c.md", "---\nname: c\n---\nx\n")


@pytest.mark.parametrize("workspace", ["/", "HOME/.local/state/clew/x", "LINK/x", "HOMES/state"])
async def test_a_workspace_that_cannot_be_had_is_told_with_its_line_beside_other_errors(
    daemon, tmp_path, workspace
):
    """The default home's ledger was not looked after by a daemon of another home."""
    daemon.keys = Keys({"HOME": str(tmp_path)})
    (tmp_path / ".local" / "state").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / ".local" / "state" / "clew")
    for word, path in (("HOMES", "home"), ("HOME", "."), ("LINK", "link")):
        workspace = workspace.replace(word, str(tmp_path / path))
    error = await rejected(daemon, "a.md", f"---\npriority: x\nworkspace: {workspace}\n---\nx\n")
    assert "line 2: `priority`" in error
    assert "line 3: `workspace`" in error
