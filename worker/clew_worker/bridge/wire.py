"""The wire between a bridge and the starter in its CLI's cell: SOCK_SEQPACKET, one JSON message a packet.

bridge                              starter
                        <- CliReady + [listener]      once
PutFiles                ->                            as often as needed, before a start
StartCli                ->
                        <- CliStarted + [stdout, stderr]   or CliEnded with a `fault`
StopCli                 ->
                        <- CliEnded                   with all that the CLI had started
ReadFile                ->
                        <- FileRead
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from clew_shared.wire.framing import WireMessage, encode

PACKET_BYTES_MAX = 180 * 1024
"""What one packet holds where the system's limits for sockets are the usual ones."""

FILE_BYTES_MAX = 64 * 1024


class CliReady(WireMessage):
    """The cell is confined. Comes with the socket that the relay connects to; `token` is what it sends first."""

    type: Literal["ready"] = "ready"
    program: str
    home: str
    tmp: str
    relay: tuple[str, ...]
    token: str = Field(default="", repr=False)


class PutFiles(WireMessage):
    """Write files into HOME, mode 0600, by their path in it; with `kept` remove everything but that first."""

    type: Literal["put"] = "put"
    files: dict[str, str] = Field(repr=False)
    kept: tuple[str, ...] | None = None


class StartCli(WireMessage):
    """Start the CLI; `env` is its whole environment."""

    type: Literal["start"] = "start"
    argv: tuple[str, ...]
    env: dict[str, str] = Field(repr=False)
    stdin: str = Field(default="", repr=False)


class StopCli(WireMessage):
    """End the CLI with all that it has started."""

    type: Literal["stop"] = "stop"


class ReadFile(WireMessage):
    """Read a small file in HOME."""

    type: Literal["read"] = "read"
    path: str


class CliStarted(WireMessage):
    """The CLI runs. Comes with the read ends of its standard output and error."""

    type: Literal["started"] = "started"
    pid: int


class CliEnded(WireMessage):
    """The CLI has ended, and so has all that it had started; `code` as a shell gives it, `fault` if it never ran."""

    type: Literal["ended"] = "ended"
    code: int
    fault: str = ""


class FileRead(WireMessage):
    """The text of a file, None where there is no regular file of at most `FILE_BYTES_MAX`."""

    type: Literal["read"] = "read"
    text: str | None = Field(repr=False)


ToStarter = PutFiles | StartCli | StopCli | ReadFile
FromStarter = CliReady | CliStarted | CliEnded | FileRead
_by_type = Field(discriminator="type")
_orders: TypeAdapter[ToStarter] = TypeAdapter(Annotated[ToStarter, _by_type])
_reports: TypeAdapter[FromStarter] = TypeAdapter(Annotated[FromStarter, _by_type])
read_order = _orders.validate_json
"""Unpacks what the bridge sent; pydantic.ValidationError if it is not valid."""

read_report = _reports.validate_json
"""Unpacks what the starter sent; pydantic.ValidationError if it is not valid."""


def packet(message: ToStarter | FromStarter) -> bytes:
    """Pack a message; OversizedMessageError beyond PACKET_BYTES_MAX."""
    return encode(message, PACKET_BYTES_MAX, what=f"{message.type}:", remedy=" go in one packet")
