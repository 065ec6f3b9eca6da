"""The config: `config.toml` and `CLEW_TABLE__KEY` of the environment, validated all at once.

Pure: text and environment come in as arguments. Every value knows where it came from, and every error is a sentence
with its place: which key, and what would be right. pydantic-settings can neither name the line of an error nor report
those of file and environment together.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from clew_shared.config.agent_tables import AGENT_KINDS, DEFAULT_AGENT, RUNBOOK_AGENT
from clew_shared.config.tables import ModelProfile, Rung, Settings, ToolLoopSettings
from clew_shared.text.spelling import closest
from clew_shared.text.validation import requirement

Location = tuple[str, ...]

# fmt: off
LIVE_TABLES = ("loops", "attempts", "context", "restart", "heartbeat", "playbook", "snapshots", "log")
# fmt: on
"""Tables that apply to running goals at once (docs/configuration.md)."""
LIVE_KEYS = ("daemon.max_workers",)
LATER_TABLES = ("agents", "limits")
"""Tables that apply to goals that start later; what is in neither list needs a restart."""

Applies = Literal["now", "to new goals", "after a restart"]

ENV_NAME = re.compile(r"CLEW_[A-Z0-9]+(_[A-Z0-9]+)*(__[A-Z0-9]+(_[A-Z0-9]+)*)+")

OUTDATED = {
    ("loops", "stale_actions"): ": `loops.patience` has taken its place",
    ("loops", "themes"): "",
    ("playbook", "llm_reflection"): ": `agents.NAME.reflection` has taken its place",
    ("context", "stale_after_s"): "",
}
"""Keys of an earlier release, which are accepted and have no effect, and what is said of them."""


_TABLE_LINE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEY_LINE = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")


class SettingsError(ValueError):
    """The config cannot be used; all errors at once, each its place (FILE:LINE, or `env NAME`) and a sentence."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        super().__init__("\n".join(f"{place}: {message}" for place, message in faults))
        self.faults = faults


@dataclass(frozen=True)
class Loaded:
    """The effective config, where each dotted key comes from, and a sentence for each `outdated` key."""

    settings: Settings
    sources: dict[str, str]
    outdated: tuple[str, ...] = ()


@dataclass(frozen=True)
class SettingChange:
    """One key that a reload changes, and when that applies."""

    key: str
    old: Any
    new: Any
    applies: Applies


def load(text: str | None, env: Mapping[str, str], origin: str) -> Loaded:
    """Read the config from the file's text and the environment over it; SettingsError has all errors at once."""
    return _Source(text or "", env, origin).loaded()


def flatten(settings: Settings) -> dict[str, Any]:
    """Return every key, dotted, with its value as JSON would have it (tuples are lists)."""
    return {dotted(location): value for location, value in _leaves(settings).items()}


def changes(old: Settings, new: Settings) -> list[SettingChange]:
    """Return the keys whose values differ, in the order of the config, the effective default agent among them."""
    before, after = flatten(old), flatten(new)
    before["agents.default"] = old.agents.default_name
    after["agents.default"] = new.agents.default_name
    found = []
    for key in {**before, **after}:
        if before.get(key) != after.get(key):
            table = key.split(".", 1)[0]
            applies: Applies = "to new goals" if table in LATER_TABLES else "after a restart"
            if table in LIVE_TABLES or key in LIVE_KEYS:
                applies = "now"
            found.append(SettingChange(key, before.get(key), after.get(key), applies))
    return found


def _leaves(settings: Settings) -> dict[Location, Any]:
    """Return every key's place, as the file has it, with its value; of a model's profile those that are set."""
    values = settings.model_dump(mode="json")
    agents = values["agents"]
    values["agents"] = {"default": agents["default"], **agents["named"]}
    given = settings.model_dump(mode="json", exclude_none=True)
    values["attempts"]["ladder"] = given["attempts"]["ladder"]
    values["context"]["models"] = given["context"]["models"]
    return dict(_walk(values, ()))


def _walk(value: Any, at: Location) -> list[tuple[Location, Any]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in _walk(inner, (*at, name))]
    return [(at, value)]


class _Source:
    """One config: what its file and the environment give, and where each value is."""

    def __init__(self, text: str, env: Mapping[str, str], origin: str) -> None:
        self._origin = origin
        self._where = {at: f"{origin}:{line}" for at, line in key_lines(text).items()}
        self._raw: dict[str, Any] = {}
        self._faults: list[tuple[str, str]] = []  # a place and a sentence
        self._parse(text)
        for name in filter(ENV_NAME.fullmatch, sorted(env)):
            parts = name.removeprefix("CLEW_").lower().split("__")
            at = self._put(parts, _literal(env[name]))
            self._where = {at[:n]: f"env {name}" for n in range(1, len(at))} | self._where
            self._where[at] = f"env {name}"

    def loaded(self) -> Loaded:
        outdated = []
        for (name, key), instead in OUTDATED.items():
            table = self._raw.get(name)
            if isinstance(table, dict) and table.pop(key, None) is not None:
                at = f"{self._place((name, key))}: `{name}.{key}`"
                outdated.append(f"{at} is not used any more{instead}")
        settings = self._validated()
        given = {location for location, _ in _walk(self._raw, ())}
        sources = {
            dotted(at): self._place(at) if at in given else "default" for at in _leaves(settings)
        }
        return Loaded(settings, sources, tuple(outdated))

    def _parse(self, text: str) -> None:
        invalid = "is not valid TOML"
        try:
            self._raw = tomllib.loads(text)
        except RecursionError:
            self._faults.append((self._origin, f"{invalid}: it is nested too deeply"))
        except ValueError as error:
            where = re.search(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$", str(error))
            line = where[1] if where and where[1] else text.count("\n") + 1
            message = str(error)[: where.start() if where else None]
            self._faults.append((f"{self._origin}:{line}", f"{invalid}: {message}"))

    def _put(self, parts: list[str], value: Any) -> Location:
        """Set the value at the place; a name of the file may differ from it in case and `-`."""
        table, location = self._raw, []
        for part in parts:
            same = (key for key in table if key.lower().replace("-", "_") == part)
            location.append(next(same, part))
            if len(location) < len(parts):
                if not isinstance(table.get(location[-1]), dict):
                    table[location[-1]] = {}
                table = table[location[-1]]
        table[location[-1]] = value
        return tuple(location)

    def _validated(self) -> Settings:
        shaped, kinds = _with_named_agents(self._raw)
        try:
            settings = Settings.model_validate(shaped, context=kinds)
        except ValidationError as error:
            for details in error.errors():
                at = _location(details)
                place, said = self._place(at), _sentence(details, at, self._raw)
                if place.startswith("env ") and details["type"] == "string_type":
                    said += " (the quotes are part of the value)"
                self._faults.append((place, said))
        else:
            if not self._faults:
                return settings
        raise SettingsError(sorted(self._faults, key=_by_line))

    def _place(self, location: Location) -> str:
        """Return where the key, or what is nearest around it, was written."""
        places = (self._where.get(location[:n]) for n in range(len(location), 0, -1))
        return next(filter(None, places), self._origin)


def _literal(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _with_named_agents(raw: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return `raw` in the shape of the model, `[agents] default` beside the agents by name, and the kinds of these."""
    kinds, agents = {DEFAULT_AGENT: "llm", RUNBOOK_AGENT: "runbook"}, raw.get("agents")
    if not isinstance(agents, dict):
        return raw, kinds
    tables = {n: {"kind": _kind(one), **one} for n, one in agents.items() if isinstance(one, dict)}
    named = {**agents, **tables}
    shaped: dict[str, Any] = {"named": named}
    if not isinstance(named.get("default", {}), dict):
        shaped["default"] = named.pop("default")
    kinds |= {name: str(one["kind"]) for name, one in tables.items()}
    return {**raw, "agents": shaped}, kinds


def _kind(table: Mapping[str, Any]) -> Any:
    """Return the kind of an agent's table; without `kind`, one with `command` is a command, one with `cli` a CLI."""
    implied = next((kind for kind in ("command", "cli") if kind in table), "llm")
    return table.get("kind", implied)


def _by_line(fault: tuple[str, str]) -> tuple[str, int, str]:
    where, _, line = fault[0].rpartition(":")
    return (where, int(line), "") if line.isdigit() else ("", 0, fault[0])


# -- errors as sentences


def _location(details: ErrorDetails) -> Location:
    """Return the place of an error as the file has it: without `named`, an agent's tag and pydantic's `[key]`."""
    location = tuple(str(part) for part in details["loc"] if part != "[key]")
    if location[:2] == ("agents", "named"):
        name, inner = location[2:3], location[3:]
        location = ("agents", *name, *(inner[1:] if inner and inner[0] in AGENT_KINDS else inner))
    return (*location, "kind") if details["type"] == "union_tag_invalid" else location


def _sentence(details: ErrorDetails, location: Location, raw: Mapping[str, Any]) -> str:
    if details["type"] == "extra_forbidden":
        known = _known_beside(location, raw)
        meant = closest(location[-1], known)
        hint = f"did you mean `{meant}`?" if meant else f"available: {', '.join(known)}"
        return f"unknown {'table' if len(location) == 1 else 'key'} `{dotted(location)}`; {hint}"
    if details["type"] == "union_tag_invalid":
        wanted = f"must be one of {', '.join(AGENT_KINDS)}, not {_shown(details['input']['kind'])}"
    elif details["type"] == "model_attributes_type":
        wanted = f"must be a table [{dotted(location)}], not {_shown(details['input'])}"
    else:
        shown = _shown(details["input"])
        quoted = shown if shown.startswith('"') else json.dumps(shown)
        wanted = requirement(details, shown, quoted, text="text in quotes")
    return f"`{dotted(location)}` {wanted}"


_INNER = {"tools": ToolLoopSettings, "models": ModelProfile, "ladder": Rung}


def _known_beside(location: Location, raw: Mapping[str, Any]) -> list[str]:
    """Return the keys that are known in the table of the unknown one."""
    if location[0] == "agents":
        return list(AGENT_KINDS[_kind(raw["agents"][location[1]])].model_fields)
    table: Any = Settings
    if len(location) > 1:
        inner = _INNER.get(location[1], Settings) if len(location) > 2 else None
        table = inner or Settings.model_fields[location[0]].annotation
    return list(table.model_fields)


def _shown(value: object) -> str:
    """Return the value as the file would have it, shortened to fit a line."""
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        return "a number with thousands of digits"
    return text if len(text) <= 80 else text[:77] + "…"


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
        for length in range(len(table) or 1, len(location) + 1):
            lines.setdefault(location[:length], number)
    return lines


def _parts(key: str) -> Location:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))
