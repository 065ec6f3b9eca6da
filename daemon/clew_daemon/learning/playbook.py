"""The playbook of this home: a fold of its events in the ledger, and the only way to change it.

What a change means is decided in `clew_shared.playbook`; here it is recorded. Changes are in force at once and
told once they are durable.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from clew_daemon.learning import deltas, exchange, review
from clew_daemon.learning.deltas import DeltaError, Draft
from clew_daemon.learning.record import apply
from clew_daemon.learning.selection import CHARS_MAX, select
from clew_daemon.record.store import SNAPSHOT_EVERY
from clew_shared.core.answers import WrongState
from clew_shared.playbook.playbook import VERSION
from clew_shared.playbook.playbook import Playbook as Kept
from clew_shared.playbook.reflector import ExecutionReflector
from clew_shared.record import events as ev
from clew_shared.record.codec import decode_playbook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clew_daemon.record.goals import Book
    from clew_daemon.record.store import Readable
    from clew_shared.config.settings import PlaybookSettings
    from clew_shared.core.core import Core
    from clew_shared.playbook.bullet import Bullet
    from clew_shared.record.state import State


def recorded(ledger: Readable, after: int = 0) -> Iterator[tuple[int, ev.Event]]:
    """Read the playbook's events whose number is greater than `after`, oldest first."""
    for row in ledger.read("", after):
        if row.kind.startswith("bullet_"):
            yield row.seq, decode_playbook(row.body)


class Playbook:
    """The strategies of all goals; `load` first."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.kept = Kept()

    def load(self) -> None:
        """Replay the playbook's events since its snapshot, and keep another one where there were many."""
        ledger, self.kept = self._book.ledger, Kept()
        after, replayed = 0, 0
        if found := ledger.latest_snapshot("", VERSION):
            after, self.kept = found[0], Kept.from_dict(json.loads(found[1]))
        for seq, event in recorded(ledger, after):
            apply(self.kept, event)
            after, replayed = seq, replayed + 1
        if replayed >= SNAPSHOT_EVERY:
            dumped = json.dumps(self.kept.to_dict(), ensure_ascii=False).encode()
            self._book.keep("", after, VERSION, dumped)

    def chosen(
        self, state: State, settings: PlaybookSettings, chars_max: int = CHARS_MAX
    ) -> list[Bullet]:
        """Choose what an agent of a goal is shown now, within a number of characters."""
        if not settings.enabled:
            return []
        words = goal_words(state)
        places = settings.max_strategies
        return select(self.kept.bullets(), words, time.time(), places, chars_max)

    async def learn(
        self, changes: list[dict[str, Any]], state: State, settings: PlaybookSettings
    ) -> list[dict[str, Any]]:
        """Take an agent's deltas, all or none; returns what it would be shown now, and what they touched.

        Raises WrongState on a wrong one. Where the playbook is off nothing is learned.
        """
        if not settings.enabled:
            return []
        draft = Draft.of(self.kept)
        try:
            touched = deltas.learn(draft, changes, state.goal_id, time.time())
        except DeltaError as error:
            raise WrongState(str(error)) from None
        await self._take(draft)
        shown = {one.id: one for one in self.chosen(state, settings)}
        shown |= {one.id: one for i in touched if (one := self.kept.get_bullet(i))}
        return [bullet.to_dict() for bullet in shown.values()]

    async def review(
        self, core: Core, rests: list[review.Rest], settings: PlaybookSettings
    ) -> None:
        """Credit what was shown, learn what the runs teach, and note that it was done: all at once or not."""
        draft, at, goal = Draft.of(self.kept), time.time(), core.state.goal_id
        reflector = ExecutionReflector(settings.min_tool_calls, settings.min_confidence)
        for rest in rests if settings.enabled else ():
            deltas.credit(draft, rest.shown, rest.tag, goal, rest.reason, at)
            lessons = review.lessons(rest, reflector)
            deltas.take_lessons(draft, lessons, goal, at, rest.shown)
        self.kept = draft.playbook
        await self._book.emit(core, ev.Reviewed(at=at, of=rests[-1].seq), own=draft.events)

    async def prune(self, below: float, verdicts_min: int = 1) -> list[str]:
        """Archive what scores below; returns the ids."""
        draft = Draft.of(self.kept)
        pruned = deltas.prune(draft, below, time.time(), verdicts_min)
        await self._take(draft)
        return pruned

    async def remove(self, bullet_id: str) -> None:
        """Archive a strategy, for a person. Raises DeltaError."""
        draft = Draft.of(self.kept)
        deltas.remove(draft, bullet_id, "by a person", time.time())
        await self._take(draft)

    async def restore(self, bullet_id: str) -> None:
        """Take a strategy out of the archive. Raises DeltaError."""
        draft = Draft.of(self.kept)
        deltas.restore(draft, bullet_id, time.time())
        await self._take(draft)

    async def take_in(self, bullets: Iterable[Bullet]) -> dict[str, int]:
        """Import bullets, all or none; counts them. Raises ValueError."""
        draft = Draft.of(self.kept)
        done = exchange.take_in(draft, bullets, time.time())
        await self._take(draft)
        return done

    async def _take(self, draft: Draft) -> None:
        """Go by a draft from now on, and record it; nobody may change anything in between."""
        self.kept = draft.playbook
        if draft.events:
            await self._book.emit_own(draft.events)


def goal_words(state: State) -> str:
    """Return what a goal is about, as text."""
    spec = state.spec
    tree = [t.description for t in state.goal.tasks]
    tree += [s.description for t in state.goal.tasks for s in t.subtasks]
    return "\n".join([spec.description, spec.notes, spec.done_when, *spec.checks.values(), *tree])
