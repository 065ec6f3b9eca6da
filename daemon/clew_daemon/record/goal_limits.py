"""How many turns and attempts a goal gets, and which agent its present attempt has, by its file and the config."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew_daemon.config import profiles
from clew_shared.config import agent_tables as kinds
from clew_shared.config.tables import LimitSettings, Rung, Settings
from clew_shared.core.journal import Limits
from clew_shared.record.state import State

ActionLimit = tuple[float, str]  # seconds, and the setting that says so, as a person can change it
MESSAGES_MIN = 1_000


def action_limit(
    state: State, limits: LimitSettings, tool: str, args: Mapping[str, Any], *, is_runbook: bool
) -> ActionLimit:
    """Return how long an action may take: by its block in the goal file, by the goal file, or by the config."""
    steps = state.subtask.steps if is_runbook and state.subtask else []
    same = (s for s in steps if (s["tool"], s["args"]) == (tool, args))
    own = [s["timeout_s"] for s in same if "timeout_s" in s]
    if own:
        return max(own), "`timeout=` of its block in the goal file"
    if state.spec.timeout_s:
        return state.spec.timeout_s, "`timeout:` in the goal file"
    key = "runbook_timeout_s" if is_runbook else "action_timeout_s"
    return getattr(limits, key), f"[limits] {key}, or `timeout:` in the goal file"


def has_runbook(state: State, settings: Settings) -> bool:
    """Return whether a goal's agent is a runbook."""
    return isinstance(_own_agent(state, settings), kinds.RunbookAgentSettings)


def limits_of(state: State, settings: Settings) -> Limits:
    """Return what a goal may use where its file sets nothing else.

    Clew's own agents report their turns, of several messages each, so that only a fault of theirs sends messages
    without end; a runbook always ends. A subtask gets one attempt, unless the agent is a model.
    """
    agent, most = _own_agent(state, settings), settings.limits.max_actions
    is_command = isinstance(agent, kinds.CommandAgentSettings)
    messages = most if is_command else max(2 * most, MESSAGES_MIN)
    window = profiles.settings_for(settings, agent, 0).context.max_iterations
    table = profiles.profile_of(settings, agent).attempts
    first = profiles.first_attempt(settings, agent, state.attempts.turns_needed)
    return Limits(
        actions=most,
        messages=messages,
        iterations=None if isinstance(agent, kinds.RunbookAgentSettings) else window,
        attempts=state.spec.attempts
        or (table.limit if isinstance(agent, kinds.ModelAgentSettings) else 1),
        attempt_turns=max(table.iterations, first),
        first_turns=first,
    )


def present_agent(state: State, settings: Settings) -> tuple[str, kinds.Agent]:
    """Return the agent of the present attempt with its name, as model and rung set it up; KeyError if there is none."""
    rung = present_rung(state, settings)
    name = rung.agent or state.spec.agent
    agent = profiles.profiled_agent(settings, settings.agents.get(name or None))
    if not isinstance(agent, kinds.LlmAgentSettings):
        return name, agent
    changed = {"temperature": rung.temperature, "mode": rung.mode}
    given = {key: value for key, value in changed.items() if value is not None}
    return name, agent.model_copy(update=given)


def present_rung(state: State, settings: Settings) -> Rung:
    """Return how the present attempt differs from the agent's own settings."""
    return rung_of(state, settings, state.attempt.number)


def rung_of(state: State, settings: Settings, attempt: int) -> Rung:
    """Return how an attempt differs, by its number; a coding agent only by naming another agent, others not at all."""
    agent = _own_agent(state, settings)
    if not isinstance(agent, kinds.ModelAgentSettings):
        return Rung()
    rung = profiles.profile_of(settings, agent).attempts.rung(attempt)
    if isinstance(agent, kinds.CliAgentSettings) and rung.agent is None:
        return Rung()
    return rung


def agent_fault(state: State, settings: Settings, config: Path) -> str:
    """Return why the agent of the present attempt cannot be used, and what to do in `config`; "" if it can."""
    name = present_rung(state, settings).agent or state.spec.agent
    return settings.agents.fault(name or None, config) or ""


def _own_agent(state: State, settings: Settings) -> kinds.Agent | None:
    name = state.spec.agent or None
    known = name is None or name in settings.agents.names
    return settings.agents.get(name) if known else None
