"""Follows the daemon's stream of events, to tell open pages what changed; what changed they read from the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_daemon.cli.stream.asynchronous import stream_news
from clew_daemon.cli.stream.messages import StreamBatch
from clew_daemon.web.live import ALL

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance
    from clew_daemon.web.live import LiveChanges


async def follow(instance: Instance, live: LiveChanges) -> None:
    """Note every change until cancelled: the goals of new events, or all where the daemon came or went."""
    async for news in stream_news(lambda: instance.socket):
        if isinstance(news, StreamBatch):
            if news.events:
                live.add(sorted({event.goal for event in news.events}))
        else:
            live.add([ALL])
