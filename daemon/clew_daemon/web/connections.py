"""The server's side of a connection: uvicorn's, with bounds on how many there are and how long a head may take."""

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
        self.late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= CONNECTIONS_MAX and not self._end_longest():
            transport.abort()
            return
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()
        elif not self.transport.is_closing():
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        if self in self.connections:
            super().connection_lost(exc)

    def _end_longest(self) -> bool:
        """End the connection that has waited longest for a head; return whether there was one."""
        ours = [one for one in self.connections if isinstance(one, BoundedConnection)]
        waiting = {one.late.when(): one for one in ours if one.late is not None}
        if waiting:
            longest = waiting[min(waiting)]
            longest.stop_waiting()
            longest.transport.abort()
        return bool(waiting)

    def _expect_head(self) -> None:
        if self.late is None:
            self.late = self.loop.call_later(HEAD_S, self._give_up)

    def stop_waiting(self) -> None:
        """Wait for no head any more."""
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def _give_up(self) -> None:
        self.late = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
