"""The wire between a bridge and the starter in its CLI's cell: SOCK_SEQPACKET, one JSON message a packet.

bridge                              starter
                        <- CliReady + [listener]        once
PutFiles                ->                              as often as needed, before a start
StartCli + [stdout, run]->

`run` is a socket of its own: hanging up there ends the CLI, and CliEnded comes when all that it had started has ended.
"""

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from clew_shared.wire.framing import WireMessage, encode, reader

PACKET_BYTES_MAX = 180 * 1024
"""What one packet holds where the system's limits for sockets are the usual ones."""

PLACE, PLACE_BYTES_MAX = ".clew/conversation.json", 16 * 1024


class PutFiles(WireMessage):
    """Write files into HOME, mode 0600, by their path in it; with `kept` remove everything but that first."""

    type: Literal["put"] = "put"
    files: dict[str, str] = Field(repr=False)
    kept: tuple[str, ...] | None = None


class StartCli(WireMessage):
    """Start the CLI; `env` is its whole environment. Comes with its standard output, and with `run`."""

    type: Literal["start"] = "start"
    argv: tuple[str, ...]
    env: dict[str, str] = Field(repr=False)
    stdin: str = Field(default="", repr=False)


class CliReady(WireMessage):
    """The cell is confined. Comes with the socket that the relay connects to; `token` is what it sends first."""

    program: str
    home: str
    tmp: str
    relay: tuple[str, ...]
    token: str = Field(default="", repr=False)
    conversation: str = Field(default="", repr=False)  # what is at PLACE, "" for no small file


class CliEnded(WireMessage):
    """How the CLI has ended, `code` as a shell gives it, and its last complaints; or why it could not start."""

    code: int = 0
    errors: str = ""
    fault: str = ""
    temporary: bool = False  # a later try may work


Order = PutFiles | StartCli
read_order: Callable[[bytes], Order] = reader(Order)


def packet(message: WireMessage) -> bytes:
    """Pack a message; OversizedMessageError beyond PACKET_BYTES_MAX."""
    what = f"{type(message).__name__}:"
    return encode(message, PACKET_BYTES_MAX, what=what, remedy=" go in one packet")
