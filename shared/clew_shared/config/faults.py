"""Errors in a config as sentences: which key, where it is, and what would be right.

Pure: it knows the shape of the tables, not their source.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from clew_shared.config.agent_tables import AGENT_KINDS, agent_kind
from clew_shared.config.tables import Settings
from clew_shared.text.spelling import closest
from clew_shared.text.validation import requirement

Location = tuple[str, ...]

_TABLE_LINE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEY_LINE = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")


@dataclass(frozen=True)
class SettingsFault:
    """One error; `place` is FILE:LINE, or `env NAME`."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class SettingsError(ValueError):
    """The config cannot be used; all errors at once, one per line."""

    def __init__(self, faults: list[SettingsFault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


def dotted(location: Location) -> str:
    """Return the place as TOML would write it: `loops.tools.run_cmd.repeat_limit`."""
    return ".".join(
        part if re.fullmatch(r"[\w-]+", part, re.ASCII) else json.dumps(part) for part in location
    )


def key_lines(text: str) -> dict[Location, int]:
    """Return the line (from 1) of each table and key; a scan, good enough to point at."""
    lines: dict[Location, int] = {}
    table: Location = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _TABLE_LINE.match(line):
            table = location = _parts(header[1])
        elif key := _KEY_LINE.match(line):
            location = (*table, *_parts(key[1]))
        else:
            continue
        above = len(table) if location != table else len(table) - 1
        for length in range(len(location), above, -1):
            lines.setdefault(location[:length], number)
    return lines


def _parts(key: str) -> Location:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))


def plain_location(details: ErrorDetails) -> Location:
    """Return the place of an error as the file has it: without `named`, an agent's tag and pydantic's `[key]`."""
    location = tuple(str(part) for part in details["loc"] if part != "[key]")
    if location[:2] == ("agents", "named"):
        name, inner = location[2:3], location[3:]
        location = ("agents", *name, *(inner[1:] if inner and inner[0] in AGENT_KINDS else inner))
    return (*location, "kind") if details["type"] == "union_tag_invalid" else location


def explain(error: ValidationError, raw: Mapping[str, Any]) -> list[tuple[Location, str]]:
    """Return for each error its place and one sentence; `raw` is what was to be validated."""
    return [(at := plain_location(one), _sentence(one, at, raw)) for one in error.errors()]


def _sentence(details: ErrorDetails, location: Location, raw: Mapping[str, Any]) -> str:
    if details["type"] == "extra_forbidden":
        known = _known_beside(location, raw)
        meant = closest(location[-1], known)
        hint = f"did you mean `{meant}`?" if meant else f"available: {', '.join(known)}"
        return f"unknown {'table' if len(location) == 1 else 'key'} `{dotted(location)}`; {hint}"
    if details["type"] == "union_tag_invalid":
        given = raw["agents"][location[1]].get("kind")
        kinds = ", ".join(AGENT_KINDS)
        wanted = f"must be one of {kinds}, not {_shown(given)}{_meant(given, AGENT_KINDS)}"
    elif details["type"] == "union_tag_not_found":
        wanted = f"must be a table [{dotted(location)}], not {_shown(details['input'])}"
    else:
        shown = _shown(details["input"])
        quoted = shown if shown.startswith('"') else json.dumps(shown)
        wanted = requirement(details, shown, quoted, text="text in quotes")
        if details["type"] == "literal_error":
            allowed = re.findall(r"'([^']*)'", details.get("ctx", {})["expected"])
            wanted += _meant(details["input"], allowed)
    return f"`{dotted(location)}` {wanted}"


def _meant(given: object, known: Collection[str]) -> str:
    meant = closest(given, known) if isinstance(given, str) else None
    return f"; did you mean {json.dumps(meant)}?" if meant else ""


def _known_beside(location: Location, raw: Mapping[str, Any]) -> list[str]:
    """Return the keys that are known in the table of the unknown one."""
    if location[0] == "agents":
        return list(AGENT_KINDS[agent_kind(raw["agents"][location[1]])].model_fields)
    model: type[BaseModel] = Settings
    for part in location[:-1]:
        if part in model.model_fields:  # else a name or a number that the user gave
            model = _table_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """Return the class of the tables that a type is about: its own, or that of its items."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_table_in, get_args(annotation))), None)


def _shown(value: object) -> str:
    """Return the value as the file would have it, shortened to fit a line."""
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        return "a number with thousands of digits"
    return text if len(text) <= 80 else text[:77] + "…"
