"""Framing: strict JSON messages of bounded size, and the lines of a stream."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class WireMessage(BaseModel):
    """A message between two processes of one version of clew: unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def reader(union: Any) -> Callable[[bytes], Any]:
    """Return what unpacks any message of a union, by its `type`; pydantic.ValidationError if that is not valid."""
    return TypeAdapter[Any](Annotated[union, Field(discriminator="type")]).validate_json


class OversizedMessageError(ValueError):
    """A message is larger than its wire carries."""


def encode(
    message: WireMessage, bytes_max: int, *, what: str = "a message of", remedy: str = ""
) -> bytes:
    """Return a message as JSON; beyond `bytes_max` OversizedMessageError, which begins with `what` it is."""
    data = message.model_dump_json().encode()
    if len(data) > bytes_max:
        raise OversizedMessageError(f"{what} {len(data)} bytes, at most {bytes_max}{remedy}")
    return data


class Lines:
    """The bytes of a stream as lines of at most `bytes_max` bytes, whatever the pieces that they come in."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rest = bytearray()

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are whole now, with their ends; OversizedMessageError for one that is too long."""
        self._rest += data
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[: end + 1])
            del self._rest[: end + 1]
            yield line
        if len(self._rest) > self._bytes_max:
            raise OversizedMessageError(f"a line of more than {self._bytes_max} bytes")
