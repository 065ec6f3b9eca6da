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

from clew_shared.config import tables
from clew_shared.config.agent_tables import Agent, LlmAgentSettings
from clew_shared.config.settings import Location
from clew_shared.config.tables import ModelProfile, Rung

PROMPT_SHARE = 2 / 3  # of a model's context: an answer may be half as long as the prompt
ROOM = 1.5
GOALS_MIN = 5  # Fewer verified goals say nothing
TURNS_MIN = 6  # The shortest attempt: a look, a change, its correction, and as much again

CONTEXT_KEYS = frozenset(tables.ContextSettings.model_fields) - {"models"}
AGENT_KEYS = ("mode", "temperature")
# Keys of a profile, and those of `[attempts]` that they stand for.
ATTEMPT_KEYS = {"attempts": "limit", "iterations": "iterations", "ladder": "ladder"}

# Of up to 3 billion parameters: more and shorter attempts, and a gentle ladder (docs/measurements.md). What such a
# model does not reach in a few turns it rarely reaches later in the same conversation; at a temperature of 0.7 its
# calls are wrong much more often than at 0.2. 1,000 tokens are more than it writes well in one call.
_SMALL = ModelProfile(
    attempts=5,
    iterations=6,
    answer_tokens=1000,
    ladder=(Rung(), Rung(temperature=0.4), Rung(temperature=0.6), Rung(temperature=0.8)),
)
# No letter may follow a size: 3bit and 2.4bpw are quantisations of models of any size.
_SIZES = ("[1-9][0-9][0-9]m", "0.[1-9]b", "[1-3]b", "[12].[0-9]b")
_QWEN_3 = ModelProfile(temperature=0.6, window=32_768)
_QWEN_3_INSTRUCT = ModelProfile(temperature=0.7, window=262_144)
# Families that people run locally: what their makers state (`window`, `temperature`: the model cards on Hugging Face),
# or what was tried with them (`mode`: docs/measurements.md). Tables of the config win over these.
FAMILIES: Mapping[str, ModelProfile] = {
    # by the size in the name, as in qwen2.5-coder:1.5b, Llama-3.2-3B-Instruct, gemma-3-270m-it
    **{f"*[-:]{size}{end}": _SMALL for size in _SIZES for end in ("", "[!a-z]*")},
    # in JSON mode a prompt takes less than half the tokens of one with native calls
    "qwen2.5-coder*": ModelProfile(mode="json", window=32_768),
    "qwen3": _QWEN_3,
    "qwen3-*": _QWEN_3,
    "qwen3-coder*": _QWEN_3_INSTRUCT,
    "qwen3-*instruct-2507*": _QWEN_3_INSTRUCT,
    # where the default prompt would not fit: Llama 3 (since 3.1: 128k), Gemma 2, Phi-3 mini 4k
    **dict.fromkeys(("llama3", "*llama-3-*", "gemma2", "gemma-2-*"), ModelProfile(window=8_192)),
    "phi-3-*4k*": ModelProfile(window=4_096),
    "mistral-small*": ModelProfile(temperature=0.15),
    "devstral*": ModelProfile(temperature=0.15),
    "deepseek-r1*": ModelProfile(temperature=0.6),
    "gpt-oss*": ModelProfile(temperature=1.0),
}


@dataclass(frozen=True, slots=True)
class EffectiveProfile:
    """What applies to an agent by its model; `sources` has the profile of each key, `by_user` the config's keys."""

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
    known = {k: (one, f"built-in {name}") for k, (one, name) in _given(FAMILIES, model).items()}
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
    """Return what profiles set for the agents' models, by where the config could: the value, and the profile's name."""
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
    """Return whether a profile's name matches a model's, whatever its case: whole, without folders, without its tag."""
    whole = model.strip().lower()
    last = whole.rpartition("/")[2]
    names = {whole, last, last.partition(":")[0]}
    return any(fnmatchcase(name, pattern.strip().lower()) for name in names)


def _given(models: Mapping[str, tables.ModelProfile], model: str) -> dict[str, tuple[Any, str]]:
    """Return the keys that matching profiles set, each with its value and the name of the profile."""
    found = [pattern for pattern in models if matches(pattern, model)]
    # the more of a name it spells out, the later; the whole name is more than its beginning
    found.sort(key=lambda one: (sum(char not in "*?" for char in one), "*" not in one))
    given = ((key, value, name) for name in found for key, value in models[name])
    return {key: (value, name) for key, value, name in given if value is not None}


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
