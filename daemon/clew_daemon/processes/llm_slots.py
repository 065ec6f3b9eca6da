"""How many LLM calls run at once per endpoint, so that four workers do not choke one local model."""

import asyncio
import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

REMOTE_CALLS = 8


class LlmSlots:
    """The open calls to each server, whatever the path; goals of another limit (after a reload) have their own."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, int], asyncio.Semaphore] = {}

    def of(self, base_url: str, configured: int | None) -> asyncio.Semaphore:
        """Return what lets so many calls through at once, in their order; by default fewer on this machine."""
        calls = configured or (1 if is_loopback(base_url) else REMOTE_CALLS)
        server = urlsplit(base_url).netloc.lower(), calls
        return self._endpoints.setdefault(server, asyncio.Semaphore(calls))


def is_loopback(base_url: str) -> bool:
    """Return whether an endpoint is on this machine."""
    host = urlsplit(base_url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")
