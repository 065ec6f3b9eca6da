"""The config: `config.toml` and `CLEW_TABLE__KEY` of the environment, validated all at once.

Pure: text and environment come in as arguments. Every value knows where it came from, and every error names its place.
pydantic-settings can neither name the line of an error nor report those of file and environment together.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from clew_shared.config.agent_tables import DEFAULT_AGENT, RUNBOOK_AGENT, agent_kind
from clew_shared.config.faults import (
    Location,
    SettingsError,
    SettingsFault,
    dotted,
    explain,
    key_lines,
    plain_location,
)
from clew_shared.config.tables import Settings

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
    ("loops", "same_error_limit"): ": `loops.patience` has taken its place",
    ("loops", "themes"): "",
    ("playbook", "llm_reflection"): ": `agents.NAME.reflection` has taken its place",
    ("context", "stale_after_s"): "",
}
"""Keys of an earlier release, which are accepted and have no effect, and what is said of them."""


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


def load(text: str | None, env: Mapping[str, str], origin: str) -> Loaded:
    """Read the config from the file's text (None: no file) and the environment over it.

    `origin` is what places call the file. Raises SettingsError with all errors at once.
    """
    return _Source(text or "", env, origin).loaded()


def flatten(settings: Settings) -> dict[str, Any]:
    """Return every key, dotted, with its value as JSON would have it (tuples are lists)."""
    return {dotted(location): value for location, value in _leaves(settings).items()}


def changes(old: Settings, new: Settings) -> list[SettingChange]:
    """Return the keys whose values differ, in the order of the config; absent ones are None.

    The default agent is among them also where it follows from which agents there are.
    """
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
        self._origin, self._env = origin, env
        self._lines = key_lines(text)
        self._overrides: dict[Location, str] = {}  # variables, by the place that they set
        self._raw: dict[str, Any] = {}
        self._syntax: list[SettingsFault] = []
        self._parse(text)
        for name in filter(ENV_NAME.fullmatch, sorted(env)):
            parts = name.removeprefix("CLEW_").lower().split("__")
            self._overrides[self._put(parts, _literal(env[name]))] = name

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
        place, message = self._origin, ""
        try:
            self._raw = tomllib.loads(text)
        except RecursionError:
            message = "it is nested too deeply"
        except ValueError as error:
            where = re.search(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$", str(error))
            line = where[1] if where and where[1] else text.count("\n") + 1
            place, message = f"{place}:{line}", str(error)[: where.start() if where else None]
        if message:
            self._syntax.append(SettingsFault(place, f"is not valid TOML: {message}"))

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
        faults = list(self._syntax)
        shaped, kinds = _with_named_agents(self._raw)
        try:
            settings = Settings.model_validate(shaped, context=kinds)
        except ValidationError as error:
            if self._respelled(error):
                return self._validated()
            faults += [SettingsFault(self._place(at), m) for at, m in explain(error, self._raw)]
        else:
            if not faults:
                return settings
        raise SettingsError(sorted(faults, key=_by_line))

    def _respelled(self, error: ValidationError) -> bool:
        """Restore the spelling of text where the environment's `123` or `true` was meant as text."""
        found = False
        for fault in error.errors():
            location = plain_location(fault)
            name = self._overrides.get(location)
            is_text_wanted = fault["type"] in {"string_type", "literal_error"}
            if name and is_text_wanted and not isinstance(fault["input"], str):
                parts = [part.lower().replace("-", "_") for part in location]
                self._put(parts, self._env[name])
                found = True
        return found

    def _place(self, location: Location) -> str:
        """Return where the key, or what is nearest around it, was written."""
        for length in range(len(location), 0, -1):
            at = location[:length]
            if at in self._overrides:
                return f"env {self._overrides[at]}"
            if at in self._lines:
                return f"{self._origin}:{self._lines[at]}"
            inner = (name for place, name in self._overrides.items() if place[:length] == at)
            if name := next(inner, None):
                return f"env {name}"
        return self._origin


def _literal(text: str) -> Any:
    """Return the text as a TOML value if it is one, else the text itself."""
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
    named = dict(agents)
    shaped: dict[str, Any] = {"named": named}
    if not isinstance(named.get("default", {}), dict):
        shaped["default"] = named.pop("default")
    kinds |= {name: str(agent_kind(one)) for name, one in named.items() if isinstance(one, dict)}
    return {**raw, "agents": shaped}, kinds


def _by_line(fault: SettingsFault) -> tuple[str, int, str]:
    where, _, line = fault.place.rpartition(":")
    return (where, int(line), "") if line.isdigit() else ("", 0, fault.place)
