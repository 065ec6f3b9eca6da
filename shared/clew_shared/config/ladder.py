"""The ladders of a config against its agents: which rungs name an agent that does not fit.

A ladder is that of `[attempts]`, or of one model. They are read as they were written, with whatever other errors the
config has, so that all of them are named at once.
"""

from collections.abc import Iterator
from typing import Any

from clew_shared.config.agent_tables import DEFAULT_AGENT, RUNBOOK_AGENT, agent_kind
from clew_shared.config.faults import dotted

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
