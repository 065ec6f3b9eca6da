"""What this home has learned, as folds of its events: the playbook, what agents are shown of it, what models need."""

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import structlog

from clew_daemon.config.profiles import GOALS_MIN
from clew_daemon.host.tasks import RETRY_S, GoalQueue
from clew_daemon.learning import review
from clew_daemon.learning.deltas import DeltaError, Draft, apply
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.store import STORED_EVERY, catch_up
from clew_shared.config.agent_tables import Agent, LlmAgentSettings
from clew_shared.config.tables import PlaybookSettings
from clew_shared.core.answers import WrongState
from clew_shared.core.core import Core
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger.errors import LedgerCorrupt
from clew_shared.ledger.reader import ReadSide
from clew_shared.playbook.curator import key_words
from clew_shared.playbook.playbook import VERSION, Bullet, LearnedPlaybook
from clew_shared.playbook.reflector import ExecutionReflector
from clew_shared.record import events as ev
from clew_shared.record.codec import decode_playbook
from clew_shared.record.daemon_events import ModelUsed
from clew_shared.record.spec import SERVED_CHARS_MAX, Prompt
from clew_shared.record.state import State
from clew_shared.text.redact import redact

log = structlog.get_logger()

R = TypeVar("R")

PRUNE_EVERY_S = 3600.0

RELEVANCE_WEIGHT = 0.5  # a strategy that fits the goal outranks a better one that does not
CHARS_MAX = 60_000  # The strategies fit a line of the worker protocol, however many are configured
LINE_CHARS = 60  # what a strategy's line takes besides its content: id, counts, part of a heading


def playbook_events(ledger: ReadSide, after: int = 0) -> Iterator[tuple[int, ev.Event]]:
    """Yield the playbook's events whose number is greater than `after`, oldest first."""
    for row in ledger.read("", after):
        if row.kind.startswith("bullet_"):
            yield row.seq, decode_playbook(row.body)


class PlaybookStore:
    """The strategies of all goals and their record; call `load` first."""

    def __init__(self, goals: GoalStore) -> None:
        self.goals = goals
        self.current = LearnedPlaybook()

    def load(self) -> None:
        """Replay the playbook's events since it was stored, and store it again if there were many."""
        ledger, self.current = self.goals.ledger, LearnedPlaybook()
        after, replayed = 0, 0
        if found := ledger.latest_snapshot("", VERSION):
            after, self.current = found[0], LearnedPlaybook.from_dict(json.loads(found[1]))
        for seq, event in playbook_events(ledger, after):
            apply(self.current, event)
            after, replayed = seq, replayed + 1
        if replayed >= STORED_EVERY:
            dumped = json.dumps(self.current.to_dict(), ensure_ascii=False).encode()
            self.goals.stored.store("", after, VERSION, dumped)

    def chosen(
        self, state: State, settings: PlaybookSettings, chars_max: int = CHARS_MAX
    ) -> list[Bullet]:
        """Return what an agent of the goal is shown now, within a number of characters."""
        if not settings.enabled:
            return []
        spec = state.spec
        about = [spec.description, spec.notes, spec.done_when, *spec.checks.values()]
        for task in state.goal.tasks:
            about += [task.description, *(subtask.description for subtask in task.subtasks)]
        bullets, places = self.current.bullets(), settings.max_strategies
        return select(bullets, "\n".join(about), places, chars_max)

    async def learn(
        self, changes: list[dict[str, Any]], state: State, settings: PlaybookSettings
    ) -> list[dict[str, Any]]:
        """Record an agent's deltas, all or none (WrongState); return what it is shown now, and what they touched."""
        if not settings.enabled:
            return []
        try:
            touched = await self.change(lambda draft: draft.learn(changes), state.goal_id)
        except DeltaError as error:
            raise WrongState(str(error)) from None
        shown = {one.id: one for one in self.chosen(state, settings)}
        shown |= {one.id: one for i in touched if (one := self.current.get_bullet(i))}
        return [bullet.to_dict() for bullet in shown.values()]

    async def review(
        self, core: Core, outcomes: list[review.GoalOutcome], settings: PlaybookSettings
    ) -> None:
        """Credit what was shown, learn what the runs teach, and record it with what models needed: all or nothing."""
        draft = Draft(self.current.copy(), time.time(), core.state.goal_id)
        reflector = ExecutionReflector(settings.min_tool_calls, settings.min_confidence)
        for outcome in outcomes if settings.enabled else ():
            for bullet in filter(None, map(draft.playbook.get_bullet, outcome.shown)):
                draft.tag(bullet.id, outcome.tag, outcome.reason)
            draft.add_lessons(review.lessons(outcome, reflector), outcome.shown)
        self.current = draft.playbook
        own = [*draft.events, *(used for outcome in outcomes for used in outcome.models)]
        reviewed = ev.Reviewed(at=draft.at, of=outcomes[-1].seq)
        await self.goals.decide(core, lambda core: core.emit(reviewed), own)

    async def change(self, do: Callable[[Draft], R], goal: str = "") -> R:
        """Record what `do` changes in a draft, all or nothing, and return its answer; raises what `do` raises."""
        draft = Draft(self.current.copy(), time.time(), goal)
        answer = do(draft)
        self.current = draft.playbook  # nothing is awaited between this and the record
        if draft.events:
            await self.goals.emit_own(draft.events)
        return answer


class Reviewer(GoalQueue):
    """Reviews each goal that ended or was blocked, one after the other: as a whole, or not at all, whatever crashes."""

    def __init__(self, playbook: PlaybookStore, settings: Callable[[], PlaybookSettings]) -> None:
        super().__init__(self._review, _log_failure)
        self._playbook, self._goals = playbook, playbook.goals
        self._settings = settings

    async def _review(self, goal: str) -> None:
        core, ledger = self._goals.cores.get(goal), self._goals.ledger
        if core is None:
            return
        spec, after = core.state.spec, core.state.reviewed_seq
        fold = review.ReviewFold(goal, spec, after)
        outcomes = await asyncio.to_thread(lambda: list(catch_up(fold, ledger, goal)))
        if outcomes and goal in self._goals.cores:
            await self._playbook.review(core, outcomes, self._settings())


def _log_failure(goal: str, error: Exception) -> None:
    if isinstance(error, LedgerCorrupt):
        log.error("review.failed", goal=goal, reason=str(error))
    else:
        log.warning("review.deferred", goal=goal, reason=str(error), again_s=RETRY_S)


# ---- which strategies an agent is shown: those that fit its goal and have proved themselves


def select(
    bullets: Iterable[Bullet], goal: str, max_strategies: int, chars_max: int = CHARS_MAX
) -> list[Bullet]:
    """Return the strategies to show for a goal (its text): by their worth and by how well they fit, in the order given.

    A fifth of the places is for those without a verdict that would have none, so that new ones are tried.
    """
    live = [bullet for bullet in bullets if bullet.is_shown]
    words = key_words(goal)
    ranked = sorted(live, key=lambda one: (-_rank(one, words), one.id))
    places = max(0, max_strategies)
    new = [one for one in ranked[places:] if not one.verdicts][: places // 5]
    room, chosen = min(chars_max, CHARS_MAX), set[str]()
    for bullet in (*new, *ranked[: places - len(new)]):
        room -= len(bullet.content) + len(bullet.section) + LINE_CHARS
        if room < 0:
            break
        chosen.add(bullet.id)
    return [bullet for bullet in live if bullet.id in chosen]


def _rank(bullet: Bullet, words: frozenset[str]) -> float:
    """Return its worth, and how well it fits the words: half by section, half by content."""
    section, content = key_words(bullet.section.replace("_", " ")), key_words(bullet.content)
    share = len(content & words) / max(len(content), 1)
    return bullet.worth + RELEVANCE_WEIGHT * (bool(section & words) + share) / 2


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
        self._needed = defaultdict[str, deque[int]](lambda: deque(maxlen=RECENT_GOALS))
        goals.listeners.append(self._on_records)

    def load(self) -> None:
        self._needed.clear()
        for body in reversed(self._goals.ledger.own("model_used", USED_LOADED_MAX)):
            self._add(ModelUsed.model_validate_json(body))

    def turns_needed(self, agent: Agent) -> int:
        """Return the turns of the longest attempt that verified goals of an agent's model needed, 0 if too few did."""
        key = model_key(agent) if isinstance(agent, LlmAgentSettings) else ""
        needed = self._needed.get(key, ())
        return max(needed) if len(needed) >= GOALS_MIN else 0

    def _add(self, event: ev.Event) -> None:
        if isinstance(event, ModelUsed) and event.needed:  # an older record may say nothing
            self._needed[event.model].append(event.needed)

    def _on_records(self, _goal: str, records: list[RecordedEvent]) -> None:
        for record in records:
            self._add(record.event)


def continued(agent: Agent, last: Prompt | None) -> Prompt | None:
    """Return what an agent's next prompt continues with: its goal's last report, unless that is of another model."""
    if not isinstance(agent, LlmAgentSettings) or last is None:
        return last
    key = model_key(agent)
    return last if last.model in ("", key) else Prompt(model=key)
