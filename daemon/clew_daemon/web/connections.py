"""The server's side of a connection: uvicorn's, with bounds on how many there are and how long a head may take."""

from __future__ import annotations

import asyncio

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

CONNECTIONS_MAX = 256
HEAD_S = 5.0
"""How long a client may take for the head of a request."""
HEAD_BYTES_MAX = 16 << 10


class BoundedConnection(H11Protocol):
    """Closes a connection whose next head is not whole in time; where there are too many, the one that waits longest.

    So a client that opens connections and sends nothing, for which no session is needed, keeps no one else out.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= CONNECTIONS_MAX and not self._end_longest():
            transport.abort()
            return
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif not self.transport.is_closing():
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self in self.connections:
            super().connection_lost(exc)

    def _end_longest(self) -> bool:
        """End the connection that has waited longest for a head; return whether there was one."""
        ours = [one for one in self.connections if isinstance(one, BoundedConnection)]
        waiting = [one for one in ours if one.late_at is not None]
        if not waiting:
            return False
        min(waiting, key=lambda one: one.late_at or 0.0).end()
        return True

    @property
    def late_at(self) -> float | None:
        """When a head that is waited for is late, by the loop's clock; None while none is."""
        return self._late.when() if self._late else None

    def end(self) -> None:
        """End the connection at once."""
        self._stop_waiting()
        self.transport.abort()

    def _expect_head(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
