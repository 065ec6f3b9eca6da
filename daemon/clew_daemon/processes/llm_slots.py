"""How many LLM calls run at once per endpoint, so that four workers do not choke one local model."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

REMOTE_CALLS = 8


class LlmSlots:
    """One semaphore for each endpoint; `limit` returns the configured number, None for the default."""

    def __init__(self, limit: Callable[[], int | None]) -> None:
        self._limit = limit
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    def of(self, base_url: str) -> asyncio.Semaphore:
        """Return the semaphore of an endpoint."""
        key = urlsplit(base_url).netloc.lower()
        if key not in self._semaphores:
            calls = self._limit() or (1 if is_loopback(base_url) else REMOTE_CALLS)
            self._semaphores[key] = asyncio.Semaphore(calls)
        return self._semaphores[key]


def is_loopback(base_url: str) -> bool:
    """Return whether an endpoint is on this machine."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
