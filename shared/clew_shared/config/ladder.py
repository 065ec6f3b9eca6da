"""The ladder of `[attempts]` against the agents of the same config: which rungs name an agent that does not fit.

It reads the config as it was written, which may have other errors too, so that all of them are named at once.
"""

from collections.abc import Iterator
from typing import Any

from clew_shared.config.agent_tables import DEFAULT_AGENT, RUNBOOK_AGENT, agent_kind

_OF_MODELS = ("temperature", "mode")


def known_agents(raw: dict[str, Any]) -> dict[str, str]:
    """Return the agents of a config by name, each with its kind; the built-in ones too."""
    tables = raw.get("agents")
    named = tables if isinstance(tables, dict) else {}
    kinds = {name: str(agent_kind(one)) for name, one in named.items() if isinstance(one, dict)}
    return {DEFAULT_AGENT: "llm", RUNBOOK_AGENT: "runbook", **kinds}


def ladder_faults(raw: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Give the place and a sentence for each rung that names no agent, a runbook, or a model's key for another kind.

    A runbook repeats the blocks of the goal file, which is no new attempt at a goal that a model works on.
    """
    table = raw.get("attempts")
    ladder = table.get("ladder") if isinstance(table, dict) else None
    agents = known_agents(raw)
    for number, rung in enumerate(ladder if isinstance(ladder, list) else ()):
        name = rung.get("agent") if isinstance(rung, dict) else None
        if isinstance(name, str) and name and (why := _fault(name, rung, agents)):
            place = ("attempts", "ladder", str(number), "agent")
            yield place, f"`{'.'.join(place)}`: {why}"


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
