"""How many LLM calls run at once per endpoint, so that four workers do not choke one local model."""

import asyncio
import ipaddress
from collections import deque
from contextlib import suppress
from urllib.parse import urlsplit

REMOTE_CALLS = 8


class Endpoint:
    """The calls to one endpoint, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._open = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def is_full(self, calls: int) -> bool:
        """Return whether one more call has to wait, where `calls` may be open at once."""
        return bool(self._waiting) or self._open >= calls

    async def acquire(self, calls: int) -> None:
        """Wait until fewer than `calls` are open, and open one."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((calls, turn))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._open -= 1
            self._serve()
            raise

    def release(self) -> None:
        """Close a call."""
        self._open -= 1
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            calls, turn = self._waiting[0]
            if not turn.done():
                if self._open >= calls:
                    return
                self._open += 1
                turn.set_result(None)
            self._waiting.popleft()


class LlmSlots:
    """One `Endpoint` for each server, whatever the path."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint] = {}

    def of(self, base_url: str) -> Endpoint:
        """Return the endpoint of an address."""
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
