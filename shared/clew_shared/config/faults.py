"""Errors in a config as sentences: which key, where it is, and what would be right.

Pure: it knows the shape of the tables, not their source.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from clew_shared.config.agent_tables import AGENT_KINDS, DEFAULT_AGENT, RUNBOOK_AGENT, agent_kind
from clew_shared.config.tables import Settings
from clew_shared.text.spelling import closest
from clew_shared.text.validation import requirement

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


# The ladders of a config against its agents: which rungs name an agent that does not fit.
#
# A ladder is that of `[attempts]`, or of one model. They are read as they were written, with whatever other errors the
# config has, so that all of them are named at once.

_OF_MODELS = ("temperature", "mode")


def known_agents(raw: dict[str, Any]) -> dict[str, str]:
    """Return the agents of a config by name, each with its kind; the built-in ones too."""
    tables = raw.get("agents")
    named = tables if isinstance(tables, dict) else {}
    kinds = {name: str(agent_kind(one)) for name, one in named.items() if isinstance(one, dict)}
    return {DEFAULT_AGENT: "llm", RUNBOOK_AGENT: "runbook", **kinds}


def ladder_faults(raw: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place and a sentence for each rung that names no agent, a runbook, or a model's key for another kind.

    A runbook repeats the blocks of the goal file, which is no new attempt at a goal that a model works on.
    """
    agents = known_agents(raw)
    for at, ladder in _ladders(raw):
        for number, rung in enumerate(ladder):
            name = rung.get("agent") if isinstance(rung, dict) else None
            if isinstance(name, str) and name and (why := _fault(name, rung, agents)):
                place = (*at, str(number), "agent")
                yield place, f"`{dotted(place)}`: {why}"


def _ladders(raw: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield each ladder of a config with its place: that of all models, and those of single models."""
    context = raw.get("context")
    models = context.get("models") if isinstance(context, dict) else None
    of_models = models.items() if isinstance(models, dict) else ()
    tables: list[tuple[tuple[str, ...], Any]] = [(("attempts",), raw.get("attempts"))]
    tables += [(("context", "models", name), profile) for name, profile in of_models]
    for at, table in tables:
        ladder = table.get("ladder") if isinstance(table, dict) else None
        if isinstance(ladder, list):
            yield (*at, "ladder"), ladder


def _fault(name: str, rung: dict[str, Any], agents: dict[str, str]) -> str:
    kind = agents.get(name)
    if kind is None:
        return f"unknown agent {name!r}; available: {', '.join(sorted(agents))}"
    if kind == "runbook":
        return f"{name!r} is a runbook, which cannot take over a model's work"
    given = [key for key in _OF_MODELS if key in rung]
    if kind != "llm" and given:
        return f"{name!r} is a {kind} agent, which has no {' and no '.join(given)}"
    return ""


Location = tuple[str, ...]

TABLE_LINE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
KEY_LINE = re.compile(
    r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


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


def plain_location(location: Location) -> Location:
    """Return the place of an error as the file has it: without `named`, an agent's tag and pydantic's `[key]`."""
    if location[-1:] == ("[key]",):
        return plain_location(location[:-1])
    if location[:2] != ("agents", "named"):
        return location
    name, inner = location[2:3], location[3:]
    return ("agents", *name, *(inner[1:] if inner and inner[0] in AGENT_KINDS else inner))


def explain(error: ValidationError, raw: dict[str, Any]) -> list[tuple[Location, str]]:
    """Return for each error its place and one sentence; `raw` is what was to be validated."""
    faults = []
    for details in error.errors():
        location = plain_location(tuple(map(str, details["loc"])))
        if details["type"] == "union_tag_invalid":
            location = (*location, "kind")
        faults.append((location, _sentence(details, location, raw)))
    return faults


def _sentence(details: "ErrorDetails", location: Location, raw: dict[str, Any]) -> str:
    if details["type"] == "extra_forbidden":
        return _unknown(location, raw)
    if details["type"].startswith("union_tag"):
        return _no_agent(location, raw)
    shown = _shown(details["input"])
    wanted = requirement(details, shown, _quoted(shown), text="text in quotes")
    return f"`{dotted(location)}` {wanted}{_suggested(details)}"


def _suggested(details: "ErrorDetails") -> str:
    """Return which of a few allowed words was probably meant, "" where none is close."""
    given = details["input"]
    if details["type"] != "literal_error" or not isinstance(given, str):
        return ""
    meant = closest(given, re.findall(r"'([^']*)'", details.get("ctx", {})["expected"]))
    return f"; did you mean {json.dumps(meant)}?" if meant else ""


def _quoted(shown: str) -> str:
    return shown if shown.startswith('"') else json.dumps(shown)


def _unknown(location: Location, raw: dict[str, Any]) -> str:
    what = "table" if len(location) == 1 else "key"
    known = _known_beside(location, raw)
    meant = closest(location[-1], known)
    if meant is not None:
        return f"unknown {what} `{dotted(location)}`; did you mean `{meant}`?"
    return f"unknown {what} `{dotted(location)}`; available: {', '.join(known)}"


def _known_beside(location: Location, raw: dict[str, Any]) -> list[str]:
    """Return the keys that are known in the table of the unknown one."""
    if location[0] == "agents":
        kind = agent_kind(raw["agents"][location[1]])
        return list(AGENT_KINDS[kind].model_fields)
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


def _no_agent(location: Location, raw: dict[str, Any]) -> str:
    agent, name = raw["agents"][location[1]], location[1]
    if isinstance(agent, dict):
        given = agent.get("kind")
        meant = closest(given, list(AGENT_KINDS)) if isinstance(given, str) else None
        hint = f"; did you mean {json.dumps(meant)}?" if meant else ""
        kinds = ", ".join(AGENT_KINDS)
        return f"`agents.{name}.kind` must be one of {kinds}, not {_shown(given)}{hint}"
    if closest(name, ["default"]):
        return f"unknown key `{dotted(location)}`; did you mean `default`?"
    return f"`{dotted(location)}` must be a table [agents.{name}], not {_shown(agent)}"


def _shown(value: Any) -> str:
    """Return the value as the file would have it, shortened to fit a line."""
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        return "a number with thousands of digits"
    return text if len(text) <= 80 else text[:77] + "…"


def key_lines(text: str) -> dict[Location, int]:
    """Return the line (from 1) of each table and key; a scan, good enough to point at."""
    lines: dict[Location, int] = {}
    table: Location = ()
    for number, line in enumerate(text.split("\n"), start=1):
        header = TABLE_LINE.match(line)
        key = KEY_LINE.match(line)
        if header:
            table = _parts(header[1])
        if header or key:
            location = table if key is None else (*table, *_parts(key[1]))
            for place in _upwards(location, len(table)):
                lines.setdefault(place, number)
    return lines


def _upwards(location: Location, table_length: int) -> Iterator[Location]:
    """Yield the place and those above it that appear first on its line."""
    for length in range(len(location), min(table_length, len(location) - 1), -1):
        yield location[:length]


def _parts(key: str) -> Location:
    return tuple(part.strip("\"'") for part in KEY_PART.findall(key))
