"""What the daemon says of a reload in its STATUS= line."""

import asyncio

from clew_daemon import app


def test_the_verdict_on_a_reload_leaves_the_status_after_a_while(monkeypatch):
    monkeypatch.setattr(app, "VERDICT_S", 0.01)
    daemon = object.__new__(app.App)
    daemon._verdict, daemon._verdict_ends = "", None

    async def judged() -> list[str]:
        daemon._news = asyncio.Event()
        daemon._judge("reload refused: no such key")
        said = [daemon._verdict]
        await asyncio.wait_for(daemon._news.wait(), 30)  # then STATUS= is sent again
        return [*said, daemon._verdict]

    assert asyncio.run(judged()) == ["reload refused: no such key", ""]


def test_a_later_verdict_is_not_ended_by_the_timer_of_an_earlier_one():
    daemon = object.__new__(app.App)
    daemon._verdict, daemon._verdict_ends = "", None

    async def judged() -> tuple[bool, bool]:
        daemon._judge("reload refused: no such key")
        first = daemon._verdict_ends
        daemon._judge("reloaded, 1 key changed")
        assert first is not None
        assert daemon._verdict_ends is not None
        return first.cancelled(), daemon._verdict_ends.cancelled()

    assert asyncio.run(judged()) == (True, False)
    assert daemon._verdict == "reloaded, 1 key changed"
