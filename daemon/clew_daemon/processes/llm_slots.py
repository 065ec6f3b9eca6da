"""How many LLM calls run at once per endpoint, so that four workers do not choke one local model."""

import asyncio
import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

REMOTE_CALLS = 8


class Endpoint:
    """The calls to one server, in the order in which they were asked for.

    Goals may have other limits after a reload, but one count: each waits until fewer than its own limit are open.
    """

    def __init__(self) -> None:
        self._open = 0
        self._turn, self._closed = asyncio.Lock(), asyncio.Event()

    def is_full(self, calls: int) -> bool:
        """Return whether one more call has to wait, where `calls` may be open at once."""
        return self._turn.locked() or self._open >= calls

    async def acquire(self, calls: int) -> None:
        """Wait until fewer than `calls` are open, and open one."""
        async with self._turn:
            while self._open >= calls:
                self._closed.clear()
                await self._closed.wait()
            self._open += 1

    def release(self) -> None:
        """Close a call."""
        self._open -= 1
        self._closed.set()


class LlmSlots:
    """One `Endpoint` for each server, whatever the path."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint] = {}

    def of(self, base_url: str) -> Endpoint:
        return self._endpoints.setdefault(urlsplit(base_url).netloc.lower(), Endpoint())


def calls_at(base_url: str, configured: int | None) -> int:
    """Return how many calls may be open there at once, by default fewer on this machine."""
    return configured or (1 if is_loopback(base_url) else REMOTE_CALLS)


def is_loopback(base_url: str) -> bool:
    """Return whether an endpoint is on this machine."""
    host = urlsplit(base_url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")
