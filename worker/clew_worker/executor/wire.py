"""The executor's end of its socket: requests in, replies out, and a look at it while waiting.

It knows framing and order, not what a request means.
"""

import contextlib
import os
import select
import socket
import time
from collections import deque

from clew_shared.wire import cells as cellwire
from clew_shared.wire.cells import Cancel, Check, Digest, Killall, Run

Request = Run | Digest | Check | Killall

_WAITING_MAX = 64
_LEFTOVERS_MAX = 64
_CHUNK = 65536


class WireError(Exception):
    """The daemon broke the protocol."""


class Wire:
    """Requests of the daemon, and pipes that nobody reads any more but that must not fill up."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._buffer = bytearray()
        self._requests: deque[Request] = deque()
        self._cancelled: set[int] = set()
        self._leftovers: list[int] = []
        self.closed = False

    def send(self, message: cellwire.FromExecutor) -> None:
        """Send one reply; a daemon that is gone is noticed at the next read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(cellwire.line(message))

    def next_request(self) -> Request | None:
        """Wait for a request; None when the daemon has hung up."""
        while not self._requests and not self.closed:
            self.wait((), None)
        return self._requests.popleft() if self._requests and not self.closed else None

    def is_cancelled(self, request_id: int) -> bool:
        """Say whether a request is no longer wanted: cancelled, or nobody is there."""
        return self.closed or request_id in self._cancelled

    def forget(self, request_id: int) -> None:
        self._cancelled.discard(request_id)

    def leave(self, fd: int) -> None:
        """Take over a pipe that a background process still writes to: read on, and drop it."""
        if len(self._leftovers) >= _LEFTOVERS_MAX:
            os.close(self._leftovers.pop(0))
        self._leftovers.append(fd)

    def wait(self, fds: tuple[int, ...], timeout_s: float | None) -> set[int]:
        """Wait until one of `fds` is readable or a message came; those that are readable."""
        poll = select.poll()
        for fd in (*fds, *self._leftovers, self._sock.fileno()):
            poll.register(fd, select.POLLIN)
        timeout_ms = None if timeout_s is None else max(timeout_s, 0) * 1000
        ready = {fd for fd, _ in poll.poll(timeout_ms)}
        for fd in [one for one in self._leftovers if one in ready]:
            if not os.read(fd, _CHUNK):
                self._leftovers.remove(fd)
                os.close(fd)
        if self._sock.fileno() in ready:
            self._read()
        return ready.intersection(fds)

    def pause(self, request_id: int, seconds: float) -> bool:
        """Wait for some time; False if the request was cancelled meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.is_cancelled(request_id):
                return False
            self.wait((), left)
        return True

    def _read(self) -> None:
        try:
            data = self._sock.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            return
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            message = cellwire.read_to_executor(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
            self._take(message)
        if len(self._buffer) > cellwire.LINE_BYTES_MAX:
            raise WireError(f"a line of more than {cellwire.LINE_BYTES_MAX} bytes")

    def _take(self, message: Request | Cancel) -> None:
        if isinstance(message, Cancel):
            if len(self._cancelled) < _WAITING_MAX:
                self._cancelled.add(message.target)
            return
        if len(self._requests) >= _WAITING_MAX:
            raise WireError(f"more than {_WAITING_MAX} requests are waiting")
        self._requests.append(message)
