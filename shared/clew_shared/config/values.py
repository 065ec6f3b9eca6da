"""What the tables of `config.toml` have in common: their base class, and types of values with their bounds. Pure."""

from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

NumberT = TypeVar("NumberT", int, float)

Seconds = Annotated[float, Field(gt=0)]
SecondsOrZero = Annotated[float, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
Temperature = Annotated[float, Field(ge=0, le=2)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]


class Table(BaseModel):
    """What every table has in common: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        allow_inf_nan=False,
    )


def above(earlier: str, *, or_equal: bool = False) -> AfterValidator:
    """Return a validator for a value that must be larger than that of an earlier key, or `or_equal`."""

    def check(value: NumberT, info: ValidationInfo) -> NumberT:
        floor = info.data.get(earlier)
        if floor is None or value > floor or (or_equal and value == floor):
            return value
        words = "at least" if or_equal else "larger than"
        raise ValueError(f"must be {words} `{earlier}` ({floor:g}), not {value:g}")

    return AfterValidator(check)


def _path(text: str) -> str:
    """Return a path that can be used as it stands; else ValueError."""
    if "\0" in text:
        raise ValueError("must be a path, without NUL characters")
    if text.startswith("~") and text[1:2] not in ("", "/"):
        try:
            Path(text).expanduser()
        except RuntimeError:
            raise ValueError(f"must be a path; {text!r} begins with an unknown user") from None
    return text


def _absolute_path(text: str) -> str:
    if not text.startswith(("/", "~")):
        raise ValueError(f"must be an absolute path or begin with ~/, not {text!r}")
    return _path(text)


PathText = Annotated[str, Field(min_length=1), AfterValidator(_path)]
AbsolutePaths = Annotated[
    tuple[Annotated[str, AfterValidator(_absolute_path)], ...], Field(strict=False)
]
