"""Which settings fit a model, given how it has made its calls: lines for the config, each with its reason in figures.

Pure, and advice alone: nothing here is applied. A rule speaks only where enough was seen, and where the share that it
is about is surely too large: by the lower bound of what was seen (Wilson, 90 %).
"""

from __future__ import annotations

import glob
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from clew_daemon.learning.models import model_key
from clew_shared.config.agent_tables import LlmAgentSettings
from clew_shared.config.families import SMALL_ATTEMPTS, SMALL_ITERATIONS
from clew_shared.config.profiles import (
    BUILT_IN,
    names_of,
    profile_of,
    profiled_agent,
    profiled_attempts,
    specificity,
)
from clew_shared.config.suggestion import Suggestion
from clew_shared.playbook.wilson import lower_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clew_daemon.learning.conduct import ModelConduct
    from clew_shared.config.settings import Settings

GOALS_MIN = 3
CALLS_MIN = 30
"""With fewer goals or fewer calls of a model there is no advice."""

MALFORMED_SHARE = 0.1
"""More malformed native calls than this, and JSON answers that the server holds to a schema are the surer form."""

WASTED_SHARE = 0.15
"""More refused and repeated calls than this, and a model goes in circles."""

LIVELY = 0.4
"""The temperature advised against repetition: one step up. At 0.7 a small model's first calls get much worse."""

Advised = tuple[str, Any, str]
"""A key, its value, and the reason."""


def enough(one: ModelConduct) -> bool:
    """Return whether a model was seen often enough for advice."""
    return one.goals >= GOALS_MIN and one.counts.calls + one.counts.malformed >= CALLS_MIN


def suggestions(
    known: Mapping[str, ModelConduct], settings: Settings, only: Iterable[str] | None = None
) -> list[Suggestion]:
    """Return what fits the models of the config's agents better, each model once; `only` for some agents, by name."""
    found: dict[str, list[Suggestion]] = {}
    names = settings.agents.names if only is None else only
    for name in sorted(map(settings.agents.resolve, names)):
        agent = settings.agents.get(name) if name in settings.agents.names else None
        if not isinstance(agent, LlmAgentSettings) or not agent.model:
            continue
        one = known.get(model_key(agent))
        if one is not None and one.model not in found and enough(one):
            found[one.model] = list(_of(one, settings, name, agent))
    return [suggestion for of_model in found.values() for suggestion in of_model]


def _of(
    one: ModelConduct, settings: Settings, name: str, agent: LlmAgentSettings
) -> Iterator[Suggestion]:
    suggest = partial(_suggestion, settings, name, agent)
    for key, value, reason in (
        *_malformed(one, settings, agent),
        *_livelier(one, settings, agent),
        *_shorter(one, settings, agent),
    ):
        yield suggest(key, value, reason)


def _malformed(one: ModelConduct, settings: Settings, agent: LlmAgentSettings) -> Iterator[Advised]:
    """Advise JSON where many native calls cannot be read."""
    counts = one.counts
    answers = counts.native + counts.malformed
    is_asked = _effective(settings, agent).mode != "json"
    if is_asked and lower_bound(counts.malformed, answers) > MALFORMED_SHARE:
        what = f"{counts.malformed} of {answers} native calls of its last {one.goals} goals"
        yield "mode", "json", f"{what} could not be read"


def _livelier(one: ModelConduct, settings: Settings, agent: LlmAgentSettings) -> Iterator[Advised]:
    """Advise a higher temperature where a model goes in circles, unless a built-in profile knows better."""
    sources = profile_of(settings, agent.model).sources
    is_known = any(sources.get(key, "").startswith(BUILT_IN) for key in ("temperature", "ladder"))
    now = _effective(settings, agent).temperature
    if now < LIVELY and not is_known and (wasted := _wasted(one)):
        yield "temperature", LIVELY, f"{wasted}, at temperature {now:g}"


def _shorter(one: ModelConduct, settings: Settings, agent: LlmAgentSettings) -> Iterator[Advised]:
    """Advise the attempts of small models where a model goes in circles in longer ones."""
    now, wasted = profiled_attempts(settings, agent), _wasted(one)
    if not wasted or now.iterations <= SMALL_ITERATIONS:
        return
    yield "iterations", SMALL_ITERATIONS, f"{wasted}, in attempts of up to {now.iterations} turns"
    if now.limit < SMALL_ATTEMPTS:
        turns = f"{now.limit} of {now.iterations} are {now.limit * now.iterations}"
        total = SMALL_ATTEMPTS * SMALL_ITERATIONS
        more = f"{SMALL_ATTEMPTS} attempts of {SMALL_ITERATIONS} are {total} turns"
        yield "attempts", SMALL_ATTEMPTS, f"{more}, {turns}"


def _wasted(one: ModelConduct) -> str:
    """Return in figures how many calls brought nothing, "" where they are not surely many."""
    counts = one.counts
    if lower_bound(counts.wasted, counts.calls) <= WASTED_SHARE:
        return ""
    total = f"{counts.wasted} of {counts.calls} calls of its last {one.goals} goals"
    return f"{total} were refused as loops ({counts.refused}) or repeated ({counts.repeated})"


def _effective(settings: Settings, agent: LlmAgentSettings) -> LlmAgentSettings:
    effective = profiled_agent(settings, agent)
    assert isinstance(effective, LlmAgentSettings)  # noqa: S101 - it is of the same kind
    return effective


def _suggestion(
    settings: Settings, name: str, agent: LlmAgentSettings, key: str, value: Any, reason: str
) -> Suggestion:
    table, present = _table(settings, name, agent, key)
    return Suggestion(model_key(agent), table, present, key, value, reason)


def _table(settings: Settings, name: str, agent: LlmAgentSettings, key: str) -> tuple[str, bool]:
    """Return the table in which a key applies to an agent's model, and whether the config has it.

    What the agent's own table sets wins over any profile, and a profile for exactly this model over others.
    """
    if key in type(agent).model_fields and key in agent.model_fields_set:
        return f"[agents.{name}]", True
    pattern = f"{glob.escape(agent.model)}*"
    mine = (pattern.lower(), *names_of(agent.model))
    own = [one for one in settings.context.models if one.strip().lower() in mine]
    found = max(own, key=specificity, default="")
    return f"[context.models.{json.dumps(found or pattern, ensure_ascii=False)}]", bool(found)
