"""The executor's end of its socket: requests in, answers out, and pipes to be emptied meanwhile.

It knows framing and order, not what a request means.
"""

import contextlib
import os
import select
import socket
import time
from collections import deque

from clew_shared.wire import executor as ex

_WAITING_MAX = 64
_DRAINED_MAX = 64
_CHUNK = 65536
_POLL_S_MAX = 3_600.0


class WireError(Exception):
    """The daemon broke the protocol."""


class Wire:
    """The socket to the daemon; `closed` once the daemon has hung up."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._rest = b""
        self._requests: deque[ex.ExecutorRequest] = deque()
        self._drained: list[int] = []
        self.closed = False

    def send(self, message: ex.ExecutorAnswer) -> None:
        """Send one answer; a daemon that has hung up is noticed at the next read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(ex.to_line(message))

    def next_request(self) -> ex.ExecutorRequest | None:
        """Wait for a request; None when the daemon has hung up."""
        while not self._requests and not self.closed:
            self.wait((), None)
        return self._requests.popleft() if self._requests and not self.closed else None

    def drain(self, fd: int) -> None:
        """Own a pipe that a background process still writes to: read it from now on, and drop what comes."""
        if len(self._drained) >= _DRAINED_MAX:
            os.close(self._drained.pop(0))
        self._drained.append(fd)

    def wait(self, fds: tuple[int, ...], timeout_s: float | None) -> set[int]:
        """Wait until one of `fds` is readable or a request came, at most an hour; return those that are readable."""
        poll = select.poll()
        for fd in (*fds, *self._drained, self._sock.fileno()):
            poll.register(fd, select.POLLIN)
        timeout_ms = None if timeout_s is None else min(max(timeout_s, 0), _POLL_S_MAX) * 1000
        ready = {fd for fd, _ in poll.poll(timeout_ms)}
        for fd in ready.intersection(self._drained):
            if not os.read(fd, _CHUNK):
                self._drained.remove(fd)
                os.close(fd)
        if self._sock.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                self._read()
        return ready.intersection(fds)

    def pause(self, seconds: float) -> None:
        """Wait for some time, or until the daemon hangs up."""
        until = time.monotonic() + seconds
        while not self.closed and (left := until - time.monotonic()) > 0:
            self.wait((), left)

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = self._sock.recv(_CHUNK, socket.MSG_DONTWAIT)
        self.closed = self.closed or not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > ex.LINE_BYTES_MAX:
            raise WireError(f"a line of more than {ex.LINE_BYTES_MAX} bytes")
        self._requests.extend(map(ex.read_request, lines))
        if len(self._requests) > _WAITING_MAX:
            raise WireError(f"more than {_WAITING_MAX} requests are waiting")
