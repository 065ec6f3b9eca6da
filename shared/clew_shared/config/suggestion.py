"""A setting that may fit a model better than the one in effect, as lines for the config. Pure data."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A key for a model, and the reason in figures; `table` is its table as TOML, `present`: the config has it."""

    model: str
    table: str
    present: bool
    key: str
    value: Any
    reason: str

    @property
    def line(self) -> str:
        """The key with its value as TOML."""
        return f"{self.key} = {json.dumps(self.value)}"


def suggested_lines(suggestions: Iterable[Suggestion]) -> list[str]:
    """Return the suggestions as lines of the config, each table once."""
    found: dict[str, list[str]] = {}
    for one in suggestions:
        note = "  # your config has this table already" if one.present else ""
        found.setdefault(one.table + note, []).append(one.line)
    return [line for table, keys in found.items() for line in (table, *keys)]
