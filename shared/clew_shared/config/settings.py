"""The config: `config.toml` and `CLEW_TABLE__KEY` of the environment, validated all at once.

Pure: text and environment come in as arguments. Every value knows where it came from, and every
error names its place. Plain pydantic and tomllib: pydantic-settings can neither name the line of
an error nor report the errors of file and environment together.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from clew_shared.config.agent_tables import (
    AgentSettings,
    CliAgentSettings,
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
)
from clew_shared.config.context_tables import ContextSettings, ModelProfile
from clew_shared.config.faults import (
    Location,
    SettingsError,
    SettingsFault,
    dotted,
    explain,
    key_lines,
    known_agents,
    ladder_faults,
    plain_location,
)
from clew_shared.config.places import Places, places
from clew_shared.config.tables import (
    DaemonSettings,
    HeartbeatSettings,
    HeraldSettings,
    LedgerSettings,
    LimitSettings,
    LogSettings,
    LoopSettings,
    NotifySettings,
    PathSettings,
    PlaybookSettings,
    RestartSettings,
    SandboxSettings,
    Settings,
    SnapshotSettings,
    ToolLoopSettings,
)

__all__ = [
    "LATER_TABLES",
    "LIVE_TABLES",
    "AgentSettings",
    "CliAgentSettings",
    "CommandAgentSettings",
    "ContextSettings",
    "DaemonSettings",
    "HeartbeatSettings",
    "HeraldSettings",
    "LedgerSettings",
    "LimitSettings",
    "LlmAgentSettings",
    "Loaded",
    "LogSettings",
    "LoopSettings",
    "NotifySettings",
    "PathSettings",
    "Places",
    "PlaybookSettings",
    "RestartSettings",
    "RunbookAgentSettings",
    "SandboxSettings",
    "SettingChange",
    "Settings",
    "SettingsError",
    "SettingsFault",
    "SnapshotSettings",
    "ToolLoopSettings",
    "changes",
    "flatten",
    "load",
    "places",
]

LIVE_TABLES = (
    "loops",
    "attempts",
    "context",
    "restart",
    "heartbeat",
    "playbook",
    "snapshots",
    "log",
)
"""Tables that apply to running goals at once (docs/configuration.md)."""

LIVE_KEYS = ("daemon.max_workers",)
LATER_TABLES = ("agents", "limits")
"""Tables that apply to goals that start later; what is in neither list needs a restart."""

Applies = Literal["now", "to new goals", "after a restart"]

ENV_NAME = re.compile(r"CLEW_[A-Z0-9]+(_[A-Z0-9]+)*(__[A-Z0-9]+(_[A-Z0-9]+)*)+")


OUTDATED = {
    ("loops", "stale_actions"): "loops.patience",
    ("loops", "same_error_limit"): "loops.patience",
    ("playbook", "llm_reflection"): "agents.NAME.reflection",
}
"""Keys of the release before, which are accepted and have no effect, and those that took their place."""


@dataclass(frozen=True)
class Loaded:
    """The effective config, and for each dotted key `default`, `ORIGIN:LINE` or `env NAME`.

    `outdated` has a sentence for each key that is not used any more.
    """

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

    @property
    def live(self) -> bool:
        """Running goals follow at once."""
        return self.applies == "now"


@dataclass(frozen=True)
class _Override:
    """A value of the environment; `text` is its spelling, for keys that want text."""

    name: str
    value: Any
    text: str


def load(text: str | None, env: Mapping[str, str], origin: str) -> Loaded:
    """Read the config from the file's text (None: no file) and the environment over it.

    `origin` is what places call the file. Raises SettingsError with all errors at once.
    """
    raw, syntax = _parsed(text or "", origin)
    lines = key_lines(text or "")
    overrides = _overridden(raw, env)
    outdated = tuple(
        f"{_place(at, overrides, origin, lines)}: `{dotted(at)}` is not used any more: `{new}` has taken its place"
        for at, new in OUTDATED.items()
        if _removed(raw, at)
    )
    settings, faults = _validated(raw, overrides, origin, lines)
    if settings is None or syntax:
        raise SettingsError(sorted([*syntax, *faults], key=_by_line))
    given = {location for location, _ in _walk(raw, ())}
    sources = {
        dotted(at): _place(at, overrides, origin, lines) if at in given else "default"
        for at in _leaves(settings)
    }
    return Loaded(settings, sources, outdated)


def _removed(raw: dict[str, Any], at: tuple[str, str]) -> bool:
    """Remove a key from its table; returns whether it was there."""
    table = raw.get(at[0])
    return isinstance(table, dict) and table.pop(at[1], None) is not None


def flatten(settings: Settings) -> dict[str, Any]:
    """Return every key, dotted, with its value as JSON would have it (tuples are lists)."""
    return {dotted(location): value for location, value in _leaves(settings).items()}


def changes(old: Settings, new: Settings) -> list[SettingChange]:
    """Return the keys whose values differ, in the order of the config; absent ones are None.

    The default agent is among them also where it follows from which agents there are.
    """
    before, after = flatten(old), flatten(new)
    before["agents.default"], after["agents.default"] = (
        old.agents.default_name,
        new.agents.default_name,
    )
    return [
        SettingChange(key, before.get(key), after.get(key), _applies(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _applies(key: str) -> Applies:
    table = key.split(".", 1)[0]
    if table in LIVE_TABLES or key in LIVE_KEYS:
        return "now"
    return "to new goals" if table in LATER_TABLES else "after a restart"


def _by_line(fault: SettingsFault) -> tuple[str, int, str]:
    where, _, line = fault.place.rpartition(":")
    return (where, int(line), "") if line.isdigit() else ("", 0, fault.place)


def _leaves(settings: Settings) -> dict[Location, Any]:
    """Return every key's place, as the file has it, with its value."""
    return {
        at[:1] + at[2:] if at[:2] == ("agents", "named") else at: value
        for at, value in _walk(settings, ())
    }


def _walk(value: Any, at: Location) -> list[tuple[Location, Any]]:
    if isinstance(value, BaseModel):
        value = _fields(value)
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in _walk(inner, (*at, name))]
    return [(at, _plain(value))]


def _fields(table: BaseModel) -> dict[str, Any]:
    """Return the fields of a table; of a model's profile those that are set."""
    fields = {name: getattr(table, name) for name in type(table).model_fields}
    if isinstance(table, ModelProfile):
        return {name: value for name, value in fields.items() if value is not None}
    return fields


def _plain(value: Any) -> Any:
    """Return a value as TOML would have it: tuples are lists, tables in them have the keys that are set."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value


def _parsed(text: str, origin: str) -> tuple[dict[str, Any], list[SettingsFault]]:
    """Return the TOML as a dict, or an empty one and its syntax error."""
    try:
        return tomllib.loads(text), []
    except ValueError as error:
        where = re.search(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = int(where[1]) if where and where[1] else text.count("\n") + 1
        message = str(error)[: where.start()] if where else str(error)
        return {}, [SettingsFault(f"{origin}:{line}", f"is not valid TOML: {message}")]
    except RecursionError:
        return {}, [SettingsFault(origin, "is not valid TOML: it is nested too deeply")]


def _overridden(raw: dict[str, Any], env: Mapping[str, str]) -> dict[Location, _Override]:
    """Put the environment's values into `raw`; return them by their places."""
    overrides = {}
    for name in sorted(env):
        if not ENV_NAME.fullmatch(name):
            continue
        location = _put(raw, name.removeprefix("CLEW_").lower().split("__"), _literal(env[name]))
        overrides[location] = _Override(name, _literal(env[name]), env[name])
    return overrides


def _literal(text: str) -> Any:
    """Return the text as a TOML value if it is one, else the text itself."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _put(raw: dict[str, Any], parts: list[str], value: Any) -> Location:
    """Set the value at the place; a name of the file may differ from it in case and `-`."""
    table, location = raw, []
    for position, part in enumerate(parts):
        same = (key for key in table if key.lower().replace("-", "_") == part)
        key = next(same, part)
        location.append(key)
        if position == len(parts) - 1:
            table[key] = value
        else:
            if not isinstance(table.get(key), dict):
                table[key] = {}
            table = table[key]
    return tuple(location)


def _validated(
    raw: dict[str, Any],
    overrides: dict[Location, _Override],
    origin: str,
    lines: dict[Location, int],
) -> tuple[Settings | None, list[SettingsFault]]:
    settings, found = None, []
    try:
        settings = Settings.model_validate(_with_named_agents(raw))
    except ValidationError as error:
        if _respelled(raw, overrides, error):
            return _validated(raw, overrides, origin, lines)
        found = explain(error, raw)
    if wrong := _default_fault(raw):
        found.append((("agents", "default"), wrong))
    found += ladder_faults(raw)
    faults = [SettingsFault(_place(at, overrides, origin, lines), message) for at, message in found]
    return None if faults else settings, faults


def _default_fault(raw: dict[str, Any]) -> str:
    """Return that `[agents] default` names an unknown agent, "" if it does not; the agents may have errors too."""
    agents = raw.get("agents")
    default = agents.get("default") if isinstance(agents, dict) else None
    if not isinstance(agents, dict) or not isinstance(default, str):
        return ""
    names = sorted(known_agents(raw))
    if default in names:
        return ""
    return f"`agents.default`: unknown agent {default!r}; available: {', '.join(names)}"


def _respelled(
    raw: dict[str, Any], overrides: dict[Location, _Override], error: ValidationError
) -> bool:
    """Restore the spelling of text where the environment's `123` or `true` was meant as text."""
    found = False
    for fault in error.errors():
        location = plain_location(tuple(map(str, fault["loc"])))
        override = overrides.get(location)
        if override is None or fault["type"] not in {"string_type", "literal_error"}:
            continue
        if not isinstance(fault["input"], str):
            _put(raw, [part.lower().replace("-", "_") for part in location], override.text)
            found = True
    return found


def _with_named_agents(raw: dict[str, Any]) -> dict[str, Any]:
    """Return `raw` in the shape of the model: `[agents] default` beside the agents by name."""
    agents = raw.get("agents")
    if not isinstance(agents, dict):
        return raw
    named = dict(agents)
    shaped: dict[str, Any] = {"named": named}
    if "default" in named and not isinstance(named["default"], dict):
        shaped["default"] = named.pop("default")
    return {**raw, "agents": shaped}


def _place(
    location: Location,
    overrides: dict[Location, _Override],
    origin: str,
    lines: dict[Location, int],
) -> str:
    """Return where the key, or what is nearest around it, was written."""
    for length in range(len(location), 0, -1):
        at = location[:length]
        if at in overrides:
            return f"env {overrides[at].name}"
        if at in lines:
            return f"{origin}:{lines[at]}"
        inner = next((o for place, o in overrides.items() if place[:length] == at), None)
        if inner is not None:
            return f"env {inner.name}"
    return origin
