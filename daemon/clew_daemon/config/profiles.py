"""Which settings apply to a model: its profile, over `[context]` and the defaults of its agent. Pure.

For each key, from the strongest: what the agent's own table sets, the profiles of the config, what `[context]` and
`[attempts]` set, the built-in profile of the model's family, the defaults. Where several profiles match, the one with
the most specific name wins, key by key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

from clew_daemon.config.families import FAMILIES
from clew_shared.config import tables
from clew_shared.config.agent_tables import Agent, LlmAgentSettings
from clew_shared.config.settings import Location

PROMPT_SHARE = 2 / 3
"""The part of a model's context that its prompt may take: an answer may be half as long as the prompt."""

BUILT_IN = "built-in "  # What the source of a built-in profile's value begins with

ROOM = 1.5
GOALS_MIN = 5  # Fewer verified goals say nothing

TURNS_MIN = 6  # The shortest attempt: a look, a change, its correction, and as much again

CONTEXT_KEYS = frozenset(tables.ContextSettings.model_fields) - {"models"}
AGENT_KEYS = ("mode", "temperature")
ATTEMPT_KEYS = {"attempts": "limit", "iterations": "iterations", "ladder": "ladder"}
"""Keys of a profile, and those of `[attempts]` that they stand for."""


@dataclass(frozen=True, slots=True)
class EffectiveProfile:
    """What applies to an agent by its model: `[context]`, `[attempts]`, and all keys that profiles set.

    `sources` has for each key that a profile sets the name of that profile, built-in ones as `built-in NAME`;
    `by_user` the keys that the config sets, by a profile of its own or a general table.
    """

    context: tables.ContextSettings
    attempts: tables.AttemptSettings
    values: Mapping[str, Any]
    sources: Mapping[str, str]
    by_user: frozenset[str]


def profile_of(settings: tables.Settings, agent: Agent | None) -> EffectiveProfile:
    """Return what the config and the built-in profiles say about an agent; for one without a model, the config."""
    if not isinstance(agent, LlmAgentSettings):
        return EffectiveProfile(settings.context, settings.attempts, {}, {}, frozenset())
    model, given = agent.model, settings.attempts.model_fields_set
    own = _given(settings.context.models, model)
    general = settings.context.model_fields_set & CONTEXT_KEYS
    general |= {own for own, key in ATTEMPT_KEYS.items() if key in given}
    known = {
        key: (value, f"{BUILT_IN}{name}") for key, (value, name) in _given(FAMILIES, model).items()
    }
    found = {key: one for key, one in known.items() if key not in general} | own
    values = {key: value for key, (value, _) in found.items()}
    sources = {key: name for key, (_, name) in found.items()}
    context = {key: value for key, value in values.items() if key in CONTEXT_KEYS}
    binding = "window" in own or not ({"max_tokens"} & {*own, *settings.context.model_fields_set})
    most = int(values["window"] * PROMPT_SHARE) if binding and "window" in values else None
    if most and most < context.get("max_tokens", settings.context.max_tokens):
        context["max_tokens"], sources["max_tokens"] = most, sources["window"]
    attempts = {key: values[own] for own, key in ATTEMPT_KEYS.items() if own in values}
    return EffectiveProfile(
        settings.context.model_copy(update=context),
        settings.attempts.model_copy(update=attempts),
        values,
        sources,
        frozenset({*general, *own}),
    )


def profiled_agent(settings: tables.Settings, agent: Agent) -> Agent:
    """Return an agent with the mode and the temperature of its model, where its own table sets none."""
    values = profile_of(settings, agent).values
    unset = [key for key in AGENT_KEYS if key in values and key not in agent.model_fields_set]
    return agent.model_copy(update={key: values[key] for key in unset}) if unset else agent


def in_effect(settings: tables.Settings) -> dict[Location, tuple[Any, str]]:
    """Return what profiles set for the models of the config's agents: place, value, and the profile's name.

    The place is where the config could set the value: `agents.NAME.temperature`, or a profile for exactly that model.
    """
    found: dict[Location, tuple[Any, str]] = {}
    for name, agent in settings.agents.named.items():
        if not isinstance(agent, LlmAgentSettings):
            continue
        profile = profile_of(settings, agent)
        for key, source in profile.sources.items():
            if key in AGENT_KEYS:
                if key not in agent.model_fields_set:
                    found["agents", name, key] = profile.values[key], source
            elif key != "window":
                own = {**profile.values, **dict(profile.context)}
                found["context", "models", agent.model, key] = own[key], source
    return found


def matches(pattern: str, model: str) -> bool:
    """Return whether a profile's name, with `*`, `?` and `[...]`, matches a model's, whatever their case.

    `Qwen/Qwen3-8B` is also `qwen3-8b`, `registry.local/qwen3:8b` also `qwen3:8b` and `qwen3`.
    """
    whole = model.strip().lower()
    last = whole.rpartition("/")[2]
    names = {whole, last, last.partition(":")[0]}
    return any(fnmatchcase(name, pattern.strip().lower()) for name in names)


def _given(models: Mapping[str, tables.ModelProfile], model: str) -> dict[str, tuple[Any, str]]:
    """Return the keys that matching profiles set, each with its value and the name of the profile."""
    found = [pattern for pattern in models if matches(pattern, model)]
    return {
        key: (value, pattern)
        for pattern in sorted(found, key=specificity)
        for key, value in models[pattern]
        if value is not None
    }


def specificity(pattern: str) -> tuple[int, bool]:
    """Return how much of a name a pattern spells out; the whole name is more than its beginning."""
    return sum(char not in "*?" for char in pattern), "*" not in pattern


# ---- how long a first attempt is, and how long its context stays full, by what a model's verified goals needed
#
# Half as much again as the longest attempt that completed anything: where a model goes on for longer than it ever
# needed, a new conversation is the better bet. Later attempts are as configured; so is what the config sets itself.


def first_attempt(settings: tables.Settings, agent: Agent | None, needed: int) -> int:
    """Return the turns of a first attempt, given the longest that a verified goal needed; 0 to leave it as it is."""
    can_adapt = needed and settings.attempts.adapt and isinstance(agent, LlmAgentSettings)
    if not can_adapt or "iterations" in profile_of(settings, agent).by_user:
        return 0
    return max(TURNS_MIN, ceil(ROOM * needed))


def settings_for(settings: tables.Settings, agent: Agent | None, needed: int) -> tables.Settings:
    """Return the settings with the `[context]` of an agent's model, whose windows move with a longer attempt."""
    profile = profile_of(settings, agent)
    context, usual = profile.context, profile.attempts.iterations
    first = first_attempt(settings, agent, needed)
    if first > usual and not {*tables.ORDERED} & profile.by_user:
        longer = {key: ceil(getattr(context, key) * first / usual) for key in tables.ORDERED}
        context = context.model_copy(update=longer)
    return settings.model_copy(update={"context": context})
