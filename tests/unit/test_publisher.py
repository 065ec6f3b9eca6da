"""The published files of goals with long records: each action once, and no file beyond all bounds."""

import asyncio
import json
import threading

import pytest

from clew_daemon import publisher as publisher_module
from clew_daemon.book import Book
from clew_daemon.publisher import Publisher
from clew_shared import events as ev
from clew_shared.core import Report
from clew_shared.ledger import Ledger
from clew_shared.settings import Settings

AT = 1_790_000_000.0


@pytest.fixture
async def book(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db")
    book = Book(ledger, Settings())
    book.listeners.clear()
    (tmp_path / "work").mkdir()
    spec = ev.Spec(description="Do", workspace=str(tmp_path / "work"))
    await book.accept(ev.GoalAccepted(at=AT, goal_id="a", spec=spec), b"file")
    book.adopt(Settings(limits={"max_actions": 10**6}))
    with book.entering(book.cores["a"]) as _:
        book.cores["a"].emit(ev.GoalStarted(at=AT))
        book.cores["a"].start(AT)
    yield book
    await ledger.close(10)


@pytest.fixture
async def publisher(book):
    publisher = Publisher(book)
    yield publisher
    await publisher.close()


async def act(book, count, first=0, text="x"):
    core = book.cores["a"]
    for n in range(first, first + count):
        with book.entering(core):
            done = Report("success", f"{n}", changed=True, world=f"w{n}")
            core.record("edit", {"n": n, "text": text}, done, AT)
    await book.commit(core)
    await asyncio.sleep(0.01)  # the publisher hears a round after those who wait for the commit


def published(tmp_path, name):
    return (tmp_path / "work" / ".agent_context" / name).read_text()


def actions(tmp_path):
    return [
        json.loads(line)["args"]["n"] for line in published(tmp_path, "history.jsonl").splitlines()
    ]


async def test_what_is_recorded_while_a_long_history_is_built_stands_there_once(
    tmp_path, book, publisher, monkeypatch
):
    begun, go = threading.Event(), threading.Event()
    build = publisher_module._build

    def slow(folder, state, lines, fold):
        found = list(lines)
        begun.set()
        go.wait(60)
        build(folder, state, found, fold)

    monkeypatch.setattr(publisher_module, "_build", slow)
    monkeypatch.setattr(publisher_module, "BACKLOG_MAX", 20)
    await act(book, 300)
    publisher.open("a")
    await asyncio.to_thread(begun.wait, 60)
    assert json.loads(published(tmp_path, "state.json"))["goal_id"] == "a"
    await act(book, 100, first=300)  # more than is held
    await act(book, 5, first=400)
    go.set()
    await publisher.settle("a")
    await act(book, 3, first=405)
    await publisher.settle("a")
    assert actions(tmp_path) == list(range(408))
    assert json.loads(published(tmp_path, "state.json"))["seq"] == book.cores["a"].state.seq


async def test_a_state_with_large_arguments_is_published_shortened(tmp_path, book, publisher):
    await act(book, 30, text="long " * 12_000)
    publisher.open("a")
    await publisher.settle("a")
    text = published(tmp_path, "state.json")
    (task,) = json.loads(text)["goal"]["tasks"]
    assert len(text) < 1 << 20
    assert len(task["subtasks"][0]["actions"]) == 20
    assert len(actions(tmp_path)) == 30


async def test_a_state_names_the_signatures_that_were_used_last(tmp_path, book, publisher):
    await act(book, 1_200)
    publisher.open("a")
    await publisher.settle("a")
    counts = json.loads(published(tmp_path, "state.json"))["loop_counts"]
    assert len(counts) == 1_000
    assert 'edit::{"n":1199,"text":"x"}' in counts
    assert 'edit::{"n":199,"text":"x"}' not in counts
