"""Pydantic's errors as sentences, for the config and front matter: what a value must be, and what it is. Pure."""

from datetime import date, time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": 'a list, like ["one", "two"]',
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
BOUNDS = {
    "greater_than": ("gt", "larger than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def faults_of(error: "ValidationError", whole: str) -> str:
    """Return the first ten errors in a line, each with its place; `whole` is that of an error of all."""
    first = error.errors()[:10]
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or whole}: {e['msg']}" for e in first)


class Expected(ValueError):
    """Raised by a validator with what the value must be, as in "a number of seconds above 0"."""


def requirement(error: "ErrorDetails", given: str, quoted: str, *, text: str = "text") -> str:
    """Return what a value must be and is, to follow its key: `must be at least 1, not 0`.

    `given` is the value as its file has it, `quoted` as text; a ValueError that is no Expected is the whole sentence.
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error" and not isinstance(context["error"], Expected):
        return str(context["error"])
    if kind == "missing":
        return "is required"
    if kind in {"too_short", "string_too_short"}:
        return "must not be empty"
    if kind == "string_type" and isinstance(error["input"], bool | int | float | date | time):
        return f"must be text; quote it: {quoted}"
    if kind == "too_long":
        return f"must have at most {context['max_length']} items, not {context['actual_length']}"
    expected = text if kind == "string_type" else EXPECTED.get(kind, error["msg"])
    if kind == "value_error":
        expected = str(context["error"])
    elif kind in BOUNDS:
        name, words = BOUNDS[kind]
        expected = f"{words} {context[name]:g}"
    elif kind == "literal_error":
        expected = f"one of {context['expected']}"
    return f"must be {expected}, not {given}"
