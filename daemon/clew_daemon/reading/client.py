"""The client of the control socket: one request and its answer (docs/protocol.md), with deadlines."""

from __future__ import annotations

import json
import os
import shlex
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clew_daemon.reading.errors import TO_START, CliError
from clew_daemon.reading.goal_list import ENDED
from clew_daemon.record.goal_view import GoalView
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clew_daemon.ledger.lock import Holder

CONNECT_S = 2
ANSWER_S = 30.0
LOOK_S = 3.0  # How long a command that only reads waits before it reads the ledger instead
ANSWER_BYTES_MAX = 64 << 20
ADDRESS_BYTES_MAX = 107


@dataclass(frozen=True, slots=True)
class Address:
    """A control socket, and the holder of the ledger's lock, if there is one."""

    socket: Path
    holder: Holder | None = None

    @property
    def silence(self) -> str:
        """Why no daemon answers there, and what to do."""
        if self.holder is None:
            return f"no daemon is running: start it with {TO_START}"
        if self.holder.role == "restore":
            return f"{self.holder.running} and holds the ledger: wait until it has ended"
        return (
            f"{self.holder.running} and holds the ledger, but does not answer at {self.socket}: it may be "
            "starting or stopping. If this lasts, see `clew logs`, then end that process and start it again"
        )


class NoDaemon(CliError):
    """No daemon answers at the control socket."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.silence, ExitCode.NO_DAEMON)


class NoAnswer(CliError):
    """A daemon listens but did not answer in time."""


class RequestRefused(CliError):
    """The daemon answered with an error."""


def call(at: Address | Path, method: str, *, within_s: float = ANSWER_S, **params: Any) -> Any:
    """Call a method of the daemon and return the result; raises NoDaemon, NoAnswer, RequestRefused for its errors."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    address = at if isinstance(at, Address) else Address(at)
    deadline = time.monotonic() + within_s
    with connected(address) as channel:
        try:
            channel.settimeout(within_s)
            with suppress(BrokenPipeError):  # a refusal may come before the request is read
                channel.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(channel, deadline))
        except TimeoutError:
            message = f"the daemon did not answer `{method}` within {within_s:g} s; see `clew logs`"
            raise NoAnswer(message) from None
        except (OSError, EOFError):  # it ended meanwhile
            raise NoDaemon(address) from None
        except ValueError as error:
            raise CliError(f"the daemon's answer cannot be read: {error}") from None
    if "error" in answer:
        fault = answer["error"]
        raise RequestRefused(str(fault.get("message", fault)))
    return answer.get("result")


def ask(at: Address | Path, method: str, **params: Any) -> Any:
    """Call a method; return None if no daemon answers within `LOOK_S`."""
    try:
        return call(at, method, within_s=LOOK_S, **params)
    except (NoDaemon, NoAnswer):
        return None


def connected(address: Address) -> socket.socket:
    """Return a connection to the daemon; raises NoDaemon, NoAnswer or CliError."""
    path = address.socket
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    wait = struct.pack("@ll", CONNECT_S, 0)  # while the queue of the socket is full
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    try:
        _connect(channel, path)
    except OSError as error:
        channel.close()
        if isinstance(error, FileNotFoundError | NotADirectoryError | ConnectionRefusedError):
            raise NoDaemon(address) from None
        if isinstance(error, BlockingIOError):
            raise NoAnswer(f"the daemon does not listen at {path} ({CONNECT_S} s waited)") from None
        raise CliError(f"the control socket {path} cannot be used: {error.strerror}") from None
    return channel


def _connect(channel: socket.socket, path: Path) -> None:
    """Connect, through the folder if the path is too long for a socket address."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_short = len(os.fsencode(path)) <= ADDRESS_BYTES_MAX
        channel.connect(str(path) if is_short else f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _line(channel: socket.socket, deadline: float) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        if (left_s := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        channel.settimeout(left_s)
        if not (part := channel.recv(1 << 16)):
            raise EOFError
        line += part
        if len(line) > ANSWER_BYTES_MAX:
            raise ValueError(f"longer than {ANSWER_BYTES_MAX} bytes")
    return bytes(line)


class Change(NamedTuple):
    """A change of one goal: a method of the daemon, and its parameters in the order of the command line."""

    method: str
    params: Mapping[str, Any]

    def send(self, at: Address) -> Any:
        """Call the method; returns and raises as `call`."""
        return call(at, self.method, **self.params)


def changes_of(goal: GoalView) -> list[Change]:
    """Return which changes that take nothing but its id apply to a goal now."""
    ended = goal["status"] in ENDED
    may = {
        "continue": goal["status"] in ("waiting", "blocked", "failed", "cancelled"),
        "pause": not (ended or goal["paused"] or goal["status"] == "blocked"),
        "cancel": not ended,
    }
    return [Change(verb, {"goal": goal["id"]}) for verb, applies in may.items() if applies]


def command_of(change: Change) -> str:
    """Return the command line that makes the same change."""
    return shlex.join(["clew", change.method, *change.params.values()])
