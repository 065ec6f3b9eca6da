"""What each model needed in its verified goals, and how long its attempts are for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.cli.display.output import columns
from clew_daemon.cli.display.sanitize import clean
from clew_daemon.cli.queries import model_needs

if TYPE_CHECKING:
    from clew_daemon.cli.display.output import Line
    from clew_daemon.cli.instance import Instance
    from clew_shared.config.settings import Settings

COLUMNS = ("model", "verified goals", "turns needed", "first attempt", "later ones", "full until")


def models_view(instance: Instance) -> dict[str, Any]:
    """Return the models by name: what they needed, and what applies to those of the config's agents, else null."""
    from clew_daemon.config.need import GOALS_MIN

    needs, settings = model_needs(instance), instance.settings_for_display
    return {
        "models": [
            {
                "model": model,
                "goals": needs.goals(model),
                "needed": max(needs.by_model[model]),
                "applies": _applied(settings, model, needs.turns(model)),
            }
            for model in sorted(needs.by_model)
        ],
        "goals_min": GOALS_MIN,
        "adapt": settings.attempts.adapt,
    }


def _applied(settings: Settings, model: str, needed: int) -> dict[str, int] | None:
    """Return the turns of a first attempt and of later ones, and until when the context is full."""
    from clew_daemon.config.need import first_attempt, settings_for
    from clew_daemon.config.profiles import profiled_attempts
    from clew_daemon.learning.models import model_key
    from clew_shared.config.agent_tables import LlmAgentSettings

    llms = (a for a in settings.agents.named.values() if isinstance(a, LlmAgentSettings))
    agent = next((one for one in llms if model_key(one) == model), None)
    if agent is None:
        return None
    usual, first = profiled_attempts(settings, agent), first_attempt(settings, agent, needed)
    return {
        "first": first or usual.iterations,
        "later": max(first, usual.iterations),
        "full_until": settings_for(settings, agent, needed).context.full_until,
    }


def model_lines(view: dict[str, Any]) -> list[Line]:
    """Return the table of models, and under it when attempts adapt."""
    if not view["models"]:
        return [[("no model has completed a goal whose checks passed", "")]]
    head: Line = [(name, "bold") for name in COLUMNS]
    rows: list[Line] = []
    for one in view["models"]:
        applies = one["applies"] or {}
        shown = [applies.get(key, "-") for key in ("first", "later", "full_until")]
        cells = [clean(one["model"]), one["goals"], one["needed"], *shown]
        rows.append([(str(cell), "") for cell in cells])
    note = f"attempts adapt to a model from {view['goals_min']} verified goals on"
    off = "attempts do not adapt: [attempts] adapt is false"
    return [*columns([head, *rows]), [("", "")], [(note if view["adapt"] else off, "dim")]]
