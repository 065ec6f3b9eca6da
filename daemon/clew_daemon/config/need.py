"""How long an attempt is, and how long its context stays full, by what a model's verified goals needed. Pure.

The first attempt gets half as much again as the longest attempt that completed anything: where a model goes on for
longer than it ever needed, a new conversation is the better bet. Later attempts are never shorter than configured,
since a harder goal than all before it may need them. What the config sets itself is not changed.
"""

from math import ceil
from typing import Any

from clew_daemon.config.profiles import profiled_attempts, profiled_settings, set_by_user
from clew_shared.config.agent_tables import Agent, LlmAgentSettings
from clew_shared.config.tables import ORDERED, Settings

ROOM = 1.5
GOALS_MIN = 5
"""Fewer verified goals say nothing."""

TURNS_MIN = 6
"""The shortest attempt: a look, a change, its correction, and as much again."""


def first_attempt(settings: Settings, agent: Agent | None, needed: int) -> int:
    """Return the turns of a first attempt, given the longest that a verified goal needed; 0 to leave it as it is."""
    if not (needed and settings.attempts.adapt and isinstance(agent, LlmAgentSettings)):
        return 0
    if "iterations" in set_by_user(settings, agent.model):
        return 0
    return max(TURNS_MIN, ceil(ROOM * needed))


def settings_for(settings: Settings, agent: Agent | None, needed: int) -> Settings:
    """Return the settings for an agent's model, with windows that move with a longer attempt."""
    found, first = profiled_settings(settings, agent), first_attempt(settings, agent, needed)
    usual = profiled_attempts(settings, agent).iterations
    if first <= usual or not isinstance(agent, LlmAgentSettings):
        return found
    if {*ORDERED} & set_by_user(settings, agent.model):
        return found
    longer: dict[str, Any] = {
        key: ceil(getattr(found.context, key) * first / usual) for key in ORDERED
    }
    return found.model_copy(update={"context": found.context.model_copy(update=longer)})
