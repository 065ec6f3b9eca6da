"""How each model made its calls in recent goals, and what the config could set for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.cli.display.output import columns
from clew_daemon.cli.display.sanitize import clean
from clew_daemon.cli.queries import model_conducts

if TYPE_CHECKING:
    from clew_daemon.cli.display.output import Line
    from clew_daemon.cli.instance import Instance
    from clew_daemon.learning.conduct import ModelConduct
    from clew_shared.config.suggestion import Suggestion

COLUMNS = ("goals", "turns", "calls", "refused", "repeated", "malformed")


def models_view(instance: Instance) -> dict[str, Any]:
    """Return the models by name, each with its counts, their shares, and the advice for it."""
    from clew_daemon.learning.advice import CALLS_MIN, GOALS_MIN, suggestions

    known = model_conducts(instance)
    found = suggestions(known, instance.settings_for_display)
    return {
        "models": [
            _model_view(one, [advice for advice in found if advice.model == name])
            for name, one in sorted(known.items())
        ],
        "minimum": {"goals": GOALS_MIN, "calls": CALLS_MIN},
    }


def _model_view(one: ModelConduct, advice: list[Suggestion]) -> dict[str, Any]:
    from clew_daemon.learning.advice import enough

    counts = one.counts
    return {
        "model": one.model,
        "goals": one.goals,
        "completed": one.completed,
        **dict(counts),
        "shares": {
            "refused": _share(counts.refused, counts.calls),
            "repeated": _share(counts.repeated, counts.calls),
            "malformed": _share(counts.malformed, counts.native + counts.malformed),
        },
        "enough": enough(one),
        "advice": [
            {"table": each.table, "key": each.key, "value": each.value, "reason": each.reason}
            for each in advice
        ],
        "lines": _lines(advice),
    }


def model_lines(view: dict[str, Any]) -> list[Line]:
    """Return the table of models, and under it what fits them better, or why nothing is said."""
    if not view["models"]:
        return [[("no model has been used in a goal that came to rest", "")]]
    head: Line = [("model", "bold"), *((name, "bold") for name in COLUMNS)]
    rows = [
        [(clean(one["model"]), ""), *((_cell(one, name), "") for name in COLUMNS)]
        for one in view["models"]
    ]
    return [
        *columns([head, *rows]),
        *(line for one in view["models"] for line in _advice_lines(one, view["minimum"])),
    ]


def _advice_lines(one: dict[str, Any], minimum: dict[str, int]) -> list[Line]:
    name = clean(one["model"])
    if not one["enough"]:
        needed = f"too little to advise: that takes {minimum['goals']} goals and {minimum['calls']} calls"
        return [[("", "")], [(f"{name}: {needed}", "dim")]]
    if not one["advice"]:
        return [[("", "")], [(f"{name}: nothing to change", "dim")]]
    reasons: list[Line] = [[(f"{name}: {clean(each['reason'])}", "")] for each in one["advice"]]
    copied: list[Line] = [[(f"    {clean(line)}", "cyan")] for line in one["lines"]]
    return [[("", "")], *reasons, [("to try it, in the config:", "dim")], *copied]


def _cell(one: dict[str, Any], name: str) -> str:
    share = one["shares"].get(name)
    return f"{one[name]:,}" if share is None or not one[name] else f"{one[name]:,} ({share:.0%})"


def _share(count: int, total: int) -> float:
    return round(count / total, 4) if total else 0.0


def _lines(advice: list[Suggestion]) -> list[str]:
    from clew_shared.config.suggestion import suggested_lines

    return suggested_lines(advice)
