"""What the daemon says of a reload in its STATUS= line."""

import asyncio
from types import SimpleNamespace

from clew_daemon.app import status
from clew_daemon.app.status import StatusLine
from clew_daemon.host.sd_notify import Notifier

RESULT = "reload refused: no such key"


class Heard(Notifier):
    """A service manager that remembers what it was told."""

    def __init__(self):
        super().__init__("")
        self.lines = asyncio.Queue()

    def status(self, text):
        self.lines.put_nowait(text)


def line_of():
    """The status line of a daemon without goals."""
    heard = Heard()
    line = StatusLine(heard)
    book = SimpleNamespace(listeners=[], states=dict)
    settings = SimpleNamespace(sandbox=SimpleNamespace(mode="enforce"))
    daemon = SimpleNamespace(goals=book, settings=settings, nursery=SimpleNamespace(report=None))
    line.describe(daemon, SimpleNamespace(last_restart=""))
    return line, heard


def test_the_result_of_a_reload_leaves_the_status_after_a_while(monkeypatch):
    monkeypatch.setattr(status, "RELOAD_RESULT_S", 0.01)
    monkeypatch.setattr(status, "EVERY_S", 0.0)

    async def shown():
        line, heard = line_of()
        following = asyncio.ensure_future(line.follow())
        line.show_reload(RESULT)
        first = line.text()
        later = await asyncio.wait_for(heard.lines.get(), 30)  # then STATUS= is sent again
        following.cancel()
        return first, later

    first, later = asyncio.run(shown())
    assert first.endswith(RESULT)
    assert "reload" not in later


def test_a_later_result_is_not_ended_by_the_timer_of_an_earlier_one(monkeypatch):
    async def shown():
        line, _ = line_of()
        monkeypatch.setattr(status, "RELOAD_RESULT_S", 0.01)
        line.show_reload(RESULT)
        monkeypatch.setattr(status, "RELOAD_RESULT_S", 1000.0)
        line.show_reload("reloaded, 1 key changed")
        await asyncio.sleep(0.05)
        return line.text()

    assert asyncio.run(shown()).endswith("reloaded, 1 key changed")
