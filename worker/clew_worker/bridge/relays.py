"""Whether one run of a CLI still has a relay to the gateway: without one it may wait for an answer without an end."""

import asyncio

WITHOUT_RELAY_S = 2.0
"""How long a CLI may be without a relay before it is given up: one may start another."""


class Relays:
    """The relays of one run; `lost` is set when one ended with a call open on it, or the last one for good."""

    def __init__(self, patience_s: float = WITHOUT_RELAY_S) -> None:
        self.lost = asyncio.Event()
        self.listed = False
        """Whether the CLI has asked which tools there are: without that its model is offered none."""
        self._patience_s = patience_s
        self._connected = 0
        self._waiting: asyncio.TimerHandle | None = None

    def came(self) -> None:
        """Note that one has connected."""
        self._connected += 1
        self._stop_waiting()

    def went(self, *, open_calls: int) -> None:
        """Note that one has ended with this number of unanswered calls."""
        self._connected -= 1
        if open_calls:
            self.lost.set()
        elif not self._connected:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_later(self._patience_s, self.lost.set)

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting.cancel()
        self._waiting = None
