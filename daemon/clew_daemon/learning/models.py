"""What models need, learned across goals: the turns of the longest attempt in their last verified goals."""

from __future__ import annotations

from collections import deque
from urllib.parse import urlsplit

from clew_daemon.config.profiles import GOALS_MIN
from clew_daemon.record.goals import GoalStore
from clew_shared.config.agent_tables import Agent, LlmAgentSettings
from clew_shared.core.journal import RecordedEvent
from clew_shared.record.daemon_events import ModelUsed
from clew_shared.record.prompt_facts import SERVED_CHARS_MAX, Prompt
from clew_shared.text.redact import redact


def model_key(agent: LlmAgentSettings) -> str:
    """Return what a model is known by: its name, and host and port of its endpoint."""
    return f"{agent.model}@{urlsplit(agent.base_url).netloc.rpartition('@')[2]}"


def of_model(prompt: Prompt | None, agent: Agent) -> Prompt | None:
    """Return an llm agent's report with the model that it is about, and without keys; any other as it is."""
    if prompt is None or not isinstance(agent, LlmAgentSettings):
        return prompt
    served = redact(prompt.served)[:SERVED_CHARS_MAX]
    return prompt.model_copy(update={"model": model_key(agent), "served": served})


RECENT_GOALS = 20  # The goals of a model that count: its last ones whose checks passed

USED_LOADED_MAX = 2_000  # How many of the latest records of all models are read


class KnownModels:
    """What is known of each model, from the ledger and from goals since; call `load` first."""

    def __init__(self, goals: GoalStore) -> None:
        self._goals = goals
        self._needed: dict[str, deque[int]] = {}  # by the model, of its last goals
        goals.listeners.append(self._on_records)

    def load(self) -> None:
        """Read what the ledger has."""
        self._needed.clear()
        for body in reversed(self._goals.ledger.own("model_used", USED_LOADED_MAX)):
            self._add(ModelUsed.model_validate_json(body))

    def turns_needed(self, agent: Agent) -> int:
        """Return the turns of the longest attempt that verified goals of an agent's model needed, 0 if too few did."""
        if not isinstance(agent, LlmAgentSettings):
            return 0
        needed = self._needed.get(model_key(agent), ())
        return max(needed) if len(needed) >= GOALS_MIN else 0

    def _add(self, event: ModelUsed) -> None:
        if event.needed:  # an older record may say nothing
            recent = deque[int](maxlen=RECENT_GOALS)
            self._needed.setdefault(event.model, recent).append(event.needed)

    def _on_records(self, _goal: str, records: list[RecordedEvent]) -> None:
        for record in records:
            if isinstance(record.event, ModelUsed):
                self._add(record.event)


def continued(agent: Agent, last: Prompt | None) -> Prompt | None:
    """Return what an agent's next prompt continues with: its goal's last report, unless that is of another model."""
    if not isinstance(agent, LlmAgentSettings) or last is None:
        return last
    key = model_key(agent)
    return last if last.model in ("", key) else Prompt(model=key)
