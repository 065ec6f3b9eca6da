"""The playbook of this home: a fold of its events in the ledger, and the only way to change it.

`deltas`, `exchange` and `review` decide what a change means; here it is recorded. A change takes effect at once and is
answered once it is durable.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from clew_daemon.learning import deltas, exchange, review
from clew_daemon.learning.deltas import DeltaError, Draft, apply
from clew_daemon.learning.selection import CHARS_MAX, select
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.store import SNAPSHOT_EVERY, Readable
from clew_shared.config.tables import PlaybookSettings
from clew_shared.core.answers import WrongState
from clew_shared.core.core import Core
from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.playbook import VERSION, LearnedPlaybook
from clew_shared.playbook.reflector import ExecutionReflector
from clew_shared.record import events as ev
from clew_shared.record.codec import decode_playbook
from clew_shared.record.state import State


def playbook_events(ledger: Readable, after: int = 0) -> Iterator[tuple[int, ev.Event]]:
    """Yield the playbook's events whose number is greater than `after`, oldest first."""
    for row in ledger.read("", after):
        if row.kind.startswith("bullet_"):
            yield row.seq, decode_playbook(row.body)


class PlaybookStore:
    """The strategies of all goals and their record; call `load` first."""

    def __init__(self, goals: GoalStore) -> None:
        self._goals = goals
        self.current = LearnedPlaybook()

    def load(self) -> None:
        """Replay the playbook's events since its snapshot, and write a new snapshot if there were many."""
        ledger, self.current = self._goals.ledger, LearnedPlaybook()
        after, replayed = 0, 0
        if found := ledger.latest_snapshot("", VERSION):
            after, self.current = found[0], LearnedPlaybook.from_dict(json.loads(found[1]))
        for seq, event in playbook_events(ledger, after):
            apply(self.current, event)
            after, replayed = seq, replayed + 1
        if replayed >= SNAPSHOT_EVERY:
            dumped = json.dumps(self.current.to_dict(), ensure_ascii=False).encode()
            self._goals.snapshots.store("", after, VERSION, dumped)

    def chosen(
        self, state: State, settings: PlaybookSettings, chars_max: int = CHARS_MAX
    ) -> list[Bullet]:
        """Return what an agent of the goal is shown now, within a number of characters."""
        if not settings.enabled:
            return []
        words = goal_words(state)
        places = settings.max_strategies
        return select(self.current.bullets(), words, time.time(), places, chars_max)

    async def learn(
        self, changes: list[dict[str, Any]], state: State, settings: PlaybookSettings
    ) -> list[dict[str, Any]]:
        """Record an agent's deltas, all or none; return what it would be shown now, and what they touched.

        WrongState if one is wrong. A playbook that is switched off learns nothing.
        """
        if not settings.enabled:
            return []
        draft = Draft.of(self.current)
        try:
            touched = deltas.learn(draft, changes, state.goal_id, time.time())
        except DeltaError as error:
            raise WrongState(str(error)) from None
        await self._adopt(draft)
        shown = {one.id: one for one in self.chosen(state, settings)}
        shown |= {one.id: one for i in touched if (one := self.current.get_bullet(i))}
        return [bullet.to_dict() for bullet in shown.values()]

    async def review(
        self, core: Core, outcomes: list[review.GoalOutcome], settings: PlaybookSettings
    ) -> None:
        """Credit what was shown, learn what the runs teach, and record the review: all or nothing.

        What models needed is recorded with it, also where the playbook is switched off.
        """
        draft, at, goal = Draft.of(self.current), time.time(), core.state.goal_id
        reflector = ExecutionReflector(settings.min_tool_calls, settings.min_confidence)
        for outcome in outcomes if settings.enabled else ():
            for bullet in filter(None, map(draft.playbook.get_bullet, outcome.shown)):
                tag, reason = review.tag_for(outcome, bullet)
                deltas.credit(draft, [bullet.id], tag, goal, reason, at)
            lessons = review.lessons(outcome, reflector)
            deltas.add_lessons(draft, lessons, goal, at, outcome.shown)
        self.current = draft.playbook
        own = [*draft.events, *(used for outcome in outcomes for used in outcome.models)]
        await self._goals.emit(core, ev.Reviewed(at=at, of=outcomes[-1].seq), own=own)

    async def prune(self, below: float, verdicts_min: int = 1) -> list[str]:
        """Archive the strategies that score below; return their ids."""
        draft = Draft.of(self.current)
        pruned = deltas.prune(draft, below, time.time(), verdicts_min)
        await self._adopt(draft)
        return pruned

    async def remove(self, bullet_id: str) -> None:
        """Archive a strategy at a person's request; DeltaError if there is none."""
        draft = Draft.of(self.current)
        deltas.remove(draft, bullet_id, "by a person", time.time())
        await self._adopt(draft)

    async def restore(self, bullet_id: str) -> None:
        """Restore a strategy from the archive; DeltaError if it is not there."""
        draft = Draft.of(self.current)
        deltas.restore(draft, bullet_id, time.time())
        await self._adopt(draft)

    async def import_bullets(self, bullets: Iterable[Bullet]) -> dict[str, int]:
        """Import bullets, all or none; return the counts. ValueError if one is wrong."""
        draft = Draft.of(self.current)
        counts = exchange.import_bullets(draft, bullets, time.time())
        await self._adopt(draft)
        return counts

    async def _adopt(self, draft: Draft) -> None:
        """Replace the playbook by a draft and record its events, without a pause in between."""
        self.current = draft.playbook
        if draft.events:
            await self._goals.emit_own(draft.events)


def goal_words(state: State) -> str:
    """Return the text that says what a goal is about."""
    spec = state.spec
    tree = [t.description for t in state.goal.tasks]
    tree += [s.description for t in state.goal.tasks for s in t.subtasks]
    return "\n".join([spec.description, spec.notes, spec.done_when, *spec.checks.values(), *tree])
