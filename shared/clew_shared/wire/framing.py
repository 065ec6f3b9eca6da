"""Framing: strict JSON messages of bounded size."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import to_json


class WireMessage(BaseModel):
    """A message between two processes of one version of clew: unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def reader(union: Any) -> Callable[[bytes], Any]:
    """Return what unpacks any message of a union, by its `type`; pydantic.ValidationError if that is not valid."""
    shape: Any = Annotated[union, Field(discriminator="type")]  # pyright: ignore[reportInvalidTypeForm] - a value
    return TypeAdapter[Any](shape).validate_json


class OversizedMessageError(ValueError):
    """A message is larger than its wire carries."""


def encode(
    message: object, bytes_max: int, *, what: str = "a message of", remedy: str = ""
) -> bytes:
    """Return a message as JSON; beyond `bytes_max` OversizedMessageError, which begins with `what` it is."""
    data = to_json(message)
    if len(data) > bytes_max:
        raise OversizedMessageError(f"{what} {len(data)} bytes, at most {bytes_max}{remedy}")
    return data
