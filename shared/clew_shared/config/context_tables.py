"""`[context]` and `[context.models."NAME*"]`: how much a model is shown, and how it is asked. Pure data.

Which profile applies to which model is in `profiles.py`.
"""

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from clew_shared.config.values import AtLeastOne, SecondsOrZero, Table, Temperature, above

ModeSetting = Literal["auto", "tools", "json"]
"""How a model is asked for calls: by native tool calls, by JSON, or by whichever of them it answers with."""

CompactChars = Annotated[int, Field(ge=200)]
PromptTokens = Annotated[int, Field(ge=256)]

ORDERED = ("full_until", "moderate_until", "aggressive_until")
"""Each of these is larger than the one before."""


class Rung(Table):
    """How one attempt differs from the agent's own settings; `agent` names another agent of the config."""

    temperature: Temperature | None = None
    mode: ModeSetting | None = None
    agent: Annotated[str, Field(min_length=1)] | None = None

    def __str__(self) -> str:
        """Return the keys that are set, as in `temperature 0.7, mode json`."""
        set_here = self.model_dump(exclude_none=True)
        return ", ".join(f"{key} {value}" for key, value in set_here.items())


Ladder = Annotated[tuple[Rung, ...], Field(strict=False)]


class ModelProfile(Table):
    """What applies to the models whose name matches; unset keys are those of `[context]` and of the agent.

    `window` is the model's context in tokens: prompt and answer fit into it. `attempts` and `iterations` are
    `[attempts] limit` and `iterations` for this model.
    """

    window: Annotated[int, Field(ge=512)] | None = None
    max_chars: CompactChars | None = None
    max_tokens: PromptTokens | None = None
    answer_tokens: PromptTokens | None = None
    guidance: bool | None = None
    recent_actions: AtLeastOne | None = None
    stale_after_s: SecondsOrZero | None = None
    full_until: AtLeastOne | None = None
    moderate_until: AtLeastOne | None = None
    aggressive_until: AtLeastOne | None = None
    progress_from: AtLeastOne | None = None
    max_iterations: AtLeastOne | None = None
    mode: ModeSetting | None = None
    temperature: Temperature | None = None
    attempts: AtLeastOne | None = None
    iterations: AtLeastOne | None = None
    ladder: Ladder | None = None


def _in_order(profile: ModelProfile, info: ValidationInfo) -> ModelProfile:
    """Return a profile whose windows are in order, together with those of `[context]` that it leaves unset."""
    own = {key: getattr(profile, key) for key in ORDERED}
    if not any(own.values()):
        return profile
    found = [(key, own[key] or info.data.get(key)) for key in ORDERED]
    known = [(key, value) for key, value in found if value is not None]
    for (before, low), (after, high) in pairwise(known):
        if high <= low:
            raise ValueError(f"must have a larger `{after}` than `{before}` ({low}), not {high}")
    return profile


class ContextSettings(Table):
    """How much an agent's LLM is shown, and from which turn on it is shown less."""

    max_chars: CompactChars = 2000
    max_tokens: PromptTokens = 8000
    answer_tokens: PromptTokens | None = None
    guidance: bool = True
    recent_actions: AtLeastOne = 3
    stale_after_s: SecondsOrZero = 0.0
    check_within_s: SecondsOrZero = 10.0
    full_until: AtLeastOne = 10
    moderate_until: Annotated[AtLeastOne, above("full_until")] = 15
    aggressive_until: Annotated[AtLeastOne, above("moderate_until")] = 20
    progress_from: AtLeastOne = 5
    max_iterations: AtLeastOne = 30
    models: dict[str, Annotated[ModelProfile, AfterValidator(_in_order)]] = Field(
        default_factory=dict
    )

    @field_validator("models")
    @classmethod
    def _distinct(cls, value: dict[str, ModelProfile]) -> dict[str, ModelProfile]:
        names = [name.strip().lower() for name in value]
        if same := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"must not have two profiles for {same!r}: case makes no difference")
        return value
