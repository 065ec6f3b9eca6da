"""JSON that others wrote, read without trust: a field that is missing or of another type has an empty value."""

import json
from collections.abc import Mapping
from typing import Any

LINE_BYTES_MAX = 8 << 20
"""A longer line is not parsed."""


class Fields:
    """One JSON object."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @classmethod
    def of_line(cls, line: bytes) -> "Fields":
        """Return the object of a line of JSON, one without fields if it is none."""
        if len(line) > LINE_BYTES_MAX or not line.lstrip().startswith(b"{"):
            return cls({})
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            return cls({})
        return cls(values)

    def text(self, name: str) -> str:
        value = self._values.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """Return a finite number; a boolean is none."""
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if abs(value) < 1e15 else None

    def count(self, name: str) -> int:
        return max(0, int(self.number(name) or 0))

    def true(self, name: str) -> bool:
        return self._values.get(name) is True

    def object(self, name: str) -> "Fields":
        value = self._values.get(name)
        return Fields(value if isinstance(value, dict) else {})

    def objects(self, name: str) -> "tuple[Fields, ...]":
        value = self._values.get(name)
        items = value if isinstance(value, list) else []
        return tuple(Fields(item) for item in items if isinstance(item, dict))

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._values.get(name)
        items = value if isinstance(value, list) else []
        return tuple(item for item in items if isinstance(item, str))
