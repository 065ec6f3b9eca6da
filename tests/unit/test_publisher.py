"""The published files of goals with long records: each action once, and no file beyond all bounds."""

import asyncio
import json
import threading

import pytest

from clew_daemon.publish import publisher as publisher_module
from clew_daemon.publish.publisher import Publisher
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.views.contextdir import ContextDir

AT = 1_790_000_000.0


async def begin(book, goal, folder):
    folder.mkdir()
    spec = Spec(description="Do", workspace=str(folder))
    await book.accept(ev.GoalAccepted(at=AT, goal_id=goal, spec=spec, identity=(goal,)), b"file")
    with book.entering(book.cores[goal]):
        book.cores[goal].emit(ev.GoalStarted(at=AT))
        book.cores[goal].start(AT)


@pytest.fixture
async def book(book, tmp_path):
    await begin(book, "a", tmp_path / "work")
    book.adopt(Settings(limits={"max_actions": 10**6}))
    return book


@pytest.fixture
async def publisher(book):
    publisher = Publisher(book)
    yield publisher
    await publisher.stop()


async def act(book, count, first=0, text="x", goal="a"):
    core = book.cores[goal]
    for n in range(first, first + count):
        with book.entering(core):
            done = ActionReport("success", f"{n}", changed=True, world=f"w{n}")
            core.record("edit", {"n": n, "text": text}, done, AT)
    await book.commit(core)
    await asyncio.sleep(0.01)  # the publisher hears a round after those who wait for the commit


def test_a_gitignore_that_a_user_has_changed_stays_as_it_is(tmp_path):
    (tmp_path / ".agent_context").mkdir()
    kept = tmp_path / ".agent_context" / ".gitignore"
    kept.write_text("state.json\n")
    ContextDir(str(tmp_path)).rebuild({}, [], [])
    assert kept.read_text() == "state.json\n"


def published(tmp_path, name):
    return (tmp_path / "work" / ".agent_context" / name).read_text()


def actions(tmp_path):
    return [
        json.loads(line)["args"]["n"] for line in published(tmp_path, "history.jsonl").splitlines()
    ]


async def test_what_a_rebuild_has_read_before_it_was_told_of_stands_there_once(
    tmp_path, book, publisher
):
    told = []
    book.listeners[:] = [lambda goal, records: told.append((goal, records))]
    await act(book, 5)
    publisher.open("a")
    await publisher.settle("a")
    for goal, records in told:
        publisher.take(goal, records)
    book.listeners[:] = [publisher.take]
    await act(book, 5, first=5)
    await publisher.settle("a")
    assert actions(tmp_path) == list(range(10))


async def test_a_state_with_large_arguments_is_published_shortened(tmp_path, book, publisher):
    await act(book, 30, text="long " * 12_000)
    publisher.open("a")
    await publisher.settle("a")
    text = published(tmp_path, "state.json")
    (task,) = json.loads(text)["goal"]["tasks"]
    assert len(text) < 1 << 20
    assert len(task["subtasks"][0]["actions"]) == 20
    assert len(actions(tmp_path)) == 30


async def test_two_long_rebuilds_hold_up_no_other_goal(tmp_path, book, publisher, monkeypatch):
    monkeypatch.setattr(publisher_module, "LINES_AT_ONCE", 2)
    go, lines = threading.Event(), publisher._lines
    monkeypatch.setattr(
        publisher, "_lines", lambda goal, fold: (goal == "c" or go.wait(60)) and lines(goal, fold)
    )
    for goal in ("b", "c"):
        await begin(book, goal, tmp_path / goal)
    for goal in ("a", "b"):
        await act(book, 5, goal=goal)
        publisher.open(goal)
    try:
        await asyncio.sleep(0.05)
        publisher.open("c")
        async with asyncio.timeout(10):
            await publisher.settle("c")
    finally:
        go.set()
