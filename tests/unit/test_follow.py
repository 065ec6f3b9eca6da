"""Following the events: at a real socket above a real ledger, and without a daemon."""

import asyncio
import json
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from clew_daemon.cli.watched import Watched
from clew_daemon.control import handlers
from clew_daemon.control import server as server_module
from clew_daemon.control.lookup import handler
from clew_daemon.control.server import Control, ControlError
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.reading import follow as follow_module
from clew_daemon.reading.client import Address
from clew_daemon.reading.follow import News, follow, following
from clew_daemon.record.goal_events import GoalEvents
from clew_shared.ledger.errors import LedgerError, NewEvent
from clew_shared.ledger.reader import Cursor
from clew_shared.record import events as ev


class Daemon:
    """What answers `follow` and `ping`, without goals, workers and processes."""

    def __init__(self, folder):
        self.ledger = Ledger.open(folder / "ledger.db")
        self.goals = self._goals = GoalEvents(self.ledger, set(), {})
        self._lookup = self
        self.socket = folder / "control.sock"
        answers = {
            "follow": handler("follow", partial(handlers.ControlHandlers._follow, self)),
            "ping": handler("ping", self._ping),
        }
        self.control = Control(self.socket, answers)

    def find(self, name):
        raise ControlError(f"no goal {name!r}")

    async def _ping(self):
        return {"ready": True}

    async def _status(self, limit=None):
        return {"goals": [{"id": "a"}, {"id": "b"}]}

    async def record(self, *names):
        await self.goals.emit_own([ev.GoalStarted(at=1.0, epoch=n) for n in names])

    async def append(self, *bodies, goal="a"):
        await self.ledger.append([NewEvent(goal, "noted", body) for body in bodies])[1]


class Client:
    """One connection that follows."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ask(self, method="follow", **params):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.writer.write(json.dumps(request).encode() + b"\n")
        return await self.line()

    async def line(self):
        async with asyncio.timeout(60):
            return json.loads(await self.reader.readuntil(b"\n"))

    async def events(self, count):
        """The next events, as many as asked for."""
        found = []
        while len(found) < count:
            batch = (await self.line())["params"]
            found += batch["events"]
            self.after = batch["after"]
        return found


@pytest.fixture
async def daemon(tmp_path):
    one = Daemon(tmp_path)
    await one.control.start()
    yield one
    await one.control.stop()
    await one.ledger.close(10)


@asynccontextmanager
async def client(daemon):
    reader, writer = await asyncio.open_unix_connection(daemon.socket, limit=64 << 20)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def recorded(daemon):
    return [(row.seq, row.goal, json.loads(row.body)) for row in daemon.ledger.read_all()]


def shape(events):
    return [(one["seq"], one["goal"], one["event"]) for one in events]


async def test_a_cursor_before_purged_events_is_answered_with_a_reset(daemon):
    await daemon.append(b'{"kind":"noted"}', goal="kept")
    before = str(Cursor.at_end(daemon.ledger))
    await daemon.append(b'{"kind":"noted"}', b'{"kind":"noted"}', goal="gone")
    at_end = str(Cursor.at_end(daemon.ledger))
    await daemon.ledger.purge("gone")
    async with client(daemon) as one, client(daemon) as two:
        assert (await one.ask(after=before))["result"]["reset"] is True
        assert (await two.ask(after=at_end))["result"]["reset"] is False  # it misses nothing


async def test_those_who_follow_take_no_place_from_a_command(daemon, monkeypatch):
    monkeypatch.setattr(server_module, "FOLLOWERS_MAX", 2)
    monkeypatch.setattr(server_module, "CLIENTS_MAX", 1)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            assert "result" in await (await stack.enter_async_context(client(daemon))).ask()
        async with client(daemon) as one:
            assert "follow already" in (await one.ask())["error"]["message"]
            assert (await one.ask("ping"))["result"]["ready"]


async def test_a_client_that_reads_nothing_is_cut_off_and_comes_back_without_loss(
    daemon, monkeypatch
):
    monkeypatch.setattr(server_module, "STALLED_S", 0.2)
    big = b'{"kind":"noted","text":"%b"}' % (b"x" * 100_000)
    with capture_logs() as logs:
        async with client(daemon) as one, client(daemon) as other:
            await one.ask()
            after = None
            one.reader._transport.pause_reading()
            await daemon.append(*[big] * 200)
            await daemon.record(1)
            while not any(entry["event"] == "control.cut_off" for entry in logs):
                assert (await other.ask("ping"))["result"]["ready"]
                await asyncio.sleep(0.01)
            one.reader._transport.resume_reading()
            seen = []
            try:
                while True:
                    batch = (await one.line())["params"]
                    after, seen = batch["after"], seen + shape(batch["events"])
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
        assert len(seen) < 201
        async with client(daemon) as two:
            begun = (await two.ask(after=after or "0-"))["result"]
            assert begun["reset"] is False
            seen += shape(await two.events(201 - len(seen)))
    assert seen == await recorded(daemon)


async def append(ledger, *texts, goal="a"):
    await ledger.append([NewEvent(goal, "noted", text.encode()) for text in texts])[1]


@pytest.fixture
def news(path):
    found = follow(lambda: Address(path.with_name("no.sock")), path)
    assert "no daemon" in next(found).gone  # it says so once
    return found


def bodies(news):
    return [event.body.decode() for event in next(news).events]


async def test_a_ledger_that_is_not_there_yet_is_followed_from_its_first_event(path, news):
    assert bodies(news) == []
    ledger = Ledger.open(path)
    next(news)
    await append(ledger, "first")
    assert bodies(news) == ["first"]
    await ledger.close(10)


async def test_another_ledger_in_its_place_is_told_and_followed_from_its_end(path, news):
    ledger = Ledger.open(path)
    await append(ledger, "1")
    next(news)
    await append(ledger, "2", "3")
    assert bodies(news) == ["2", "3"]
    await ledger.close(10)
    other = Ledger.open(path.with_name("other.db"))
    await append(other, "a", "b", "c", "d")
    await other.close(10)
    for end in ("-wal", "-shm"):
        path.with_name(f"ledger.db{end}").unlink(missing_ok=True)
    path.with_name("other.db").replace(path)
    assert next(news).reset
    ledger = Ledger.open(path)
    await append(ledger, "e")
    assert bodies(news) == ["e"]
    await ledger.close(10)


def test_a_ledger_that_cannot_be_read_is_looked_at_again_soon(path, monkeypatch):
    def broken(*_):
        raise LedgerError(path, "is broken", "wait")

    seen, heard = threading.Semaphore(0), []
    monkeypatch.setattr(follow_module, "follow", broken)
    ended = following(
        SimpleNamespace(ledger=path), lambda news: (heard.append(news), seen.release())
    )
    began = time.monotonic()
    assert seen.acquire(timeout=20)
    assert seen.acquire(timeout=20)
    ended.set()
    assert time.monotonic() - began < 3
    assert "is broken" in heard[0].gone


def test_a_watch_that_is_paused_holds_back_what_it_follows():
    watched = Watched(None, [], attach=False)
    feed = threading.Thread(
        target=lambda: [watched._news.put(News()) for _ in range(10_000)], daemon=True
    )
    feed.start()
    feed.join(0.5)
    assert feed.is_alive()
    while feed.is_alive():
        watched._arrived()
