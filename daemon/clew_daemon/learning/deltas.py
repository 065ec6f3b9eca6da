"""Changes to the playbook, and the playbook as a fold of them: a replay yields the same one, ids included."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clew_shared.playbook.playbook import TAGS, Bullet, LearnedPlaybook, Tag, normalized, seconds
from clew_shared.record import daemon_events as de
from clew_shared.record import events as ev
from clew_shared.record.moment import iso
from clew_shared.text.redact import redact

BULLETS_MAX, IMPORTED_AT_ONCE_MAX = 2_000, 100  # in all, and by one request
VERDICTS_MIN = 3  # outcomes for or against a strategy before it may be pruned automatically
_ID = re.compile(r"[a-z]{1,3}-\d{5,9}")
_AS_RECORDED = {"id", "section", "content", *TAGS, "source_goal", "seen_in"}


class DeltaError(ValueError):
    """A change that cannot be made; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a run taught, with its evidence and the numbers of its actions; `seen`: it is about a loop."""

    section: str
    content: str
    evidence: str = ""
    actions: tuple[int, ...] = ()
    seen: bool = False


@dataclass(slots=True)
class Draft:
    """A playbook, and the events of what is changed in it at one time, for a `goal` or by a person ("")."""

    playbook: LearnedPlaybook
    at: float
    goal: str = ""
    events: list[ev.Event] = field(default_factory=list)

    def learn(self, deltas: Iterable[Mapping[str, Any]]) -> list[str]:
        """Apply an agent's deltas in order; return the ids that they touched. DeltaError if one is wrong."""
        touched = []
        for n, delta in enumerate(deltas):
            try:
                touched.append(self._apply(delta))
            except ValueError as error:
                raise DeltaError(f"delta {n}: {error}") from None
        return touched

    def add_lessons(self, lessons: Iterable[Lesson], credited: Iterable[str] = ()) -> None:
        """Add what a run taught; a known lesson counts as neutral, once, unless this outcome has `credited` it."""
        book = self.playbook
        for one in lessons:
            known = book.find(one.section, one.content)
            was_removed = book.find(one.section, one.content, archived=True)
            has_room = not was_removed and len(book.bullets()) < BULLETS_MAX
            is_due = known.id not in credited if known else has_room
            if is_due:
                self._add(one)

    def tag(
        self, bullet_id: str, tag: Tag, reason: str = "", *, times: int = 1, seen: bool = False
    ) -> None:
        counted = {"tag": tag, "times": times, "reason": redact(reason), "seen": seen}
        self._record(de.BulletTagged(at=self.at, id=bullet_id, source_goal=self.goal, **counted))

    def prune(self, below: float, verdicts_min: int = 1) -> list[str]:
        """Archive strategies with at least `verdicts_min` verdicts that score below; return their ids."""
        live = self.playbook.bullets()
        failed = [one for one in live if one.verdicts >= verdicts_min and one.score < below]
        for one in failed:
            self.remove(one.id, f"pruned: score {one.score:.2f} is below {below:g}")
        return [one.id for one in failed]

    def remove(self, bullet_id: Any, reason: str) -> None:
        """Archive a strategy; DeltaError if no strategy has that id."""
        one = self._existing(bullet_id)
        self._record(de.BulletRemoved(at=self.at, id=one.id, reason=reason, source_goal=self.goal))

    def import_bullets(self, bullets: Iterable[Bullet]) -> dict[str, int]:
        """Add or update foreign bullets; return the counts of `added`, `updated` and unchanged (`known`) ones.

        A known strategy takes the larger counts: a copy cannot be distinguished from an independent find.
        """
        counts = {"added": 0, "updated": 0, "known": 0}
        for one in bullets:
            counts[self._import(one)] += 1
        return counts

    def _import(self, theirs: Bullet) -> str:
        section, content = normalized(theirs.section, redact(theirs.content))
        mine = self.playbook.find(section, content)
        if mine is None:
            if self.playbook.find(section, content, archived=True):
                return "known"
            self._put(replace(theirs, section=section, content=content), "imported")
            return "added"
        more: dict[Tag, int] = {tag: getattr(theirs, tag) - getattr(mine, tag) for tag in TAGS}
        for tag, times in more.items():
            if times > 0:
                self.tag(mine.id, tag, "imported", times=times)
        return "updated" if max(more.values()) > 0 else "known"

    def _apply(self, delta: Mapping[str, Any]) -> str:
        """Apply one delta of an agent; return the id that it touched."""
        op, section, content = (delta.get(key) for key in ("op", "section", "content"))
        if op == "add":
            if not isinstance(section, str) or not isinstance(content, str):
                raise DeltaError("`add` needs `section` and `content`, both strings")
            return self._add(Lesson(section, content))
        if op not in ("tag", "update", "remove"):
            raise DeltaError(f"{op!r} is not one of add, tag, update, remove")
        bullet = self._existing(delta.get("id"))
        if op == "remove":
            self.remove(bullet.id, "by the agent")
        elif op == "update":
            self._update(bullet, content)
        elif delta.get("tag") not in TAGS:
            raise DeltaError(f"`tag` is {delta.get('tag')!r}; use one of {', '.join(TAGS)}")
        else:
            self.tag(bullet.id, delta["tag"])
        return bullet.id

    def _update(self, bullet: Bullet, content: object) -> None:
        if not isinstance(content, str):
            raise DeltaError("`update` needs `content`, a string")
        _, content = normalized(bullet.section, redact(content))
        twin = self.playbook.find(bullet.section, content)
        if twin and twin.id != bullet.id:
            raise DeltaError(f"{twin.id} says the same; tag it, and remove {bullet.id}")
        event = de.BulletUpdated(at=self.at, id=bullet.id, content=content, source_goal=self.goal)
        self._record(event)

    def _add(self, lesson: Lesson) -> str:
        """Add a lesson, or count one that is known as neutral; return its id."""
        section, content = normalized(lesson.section, redact(lesson.content))
        if known := self.playbook.find(section, content):
            self.tag(known.id, "neutral", "learned again", seen=lesson.seen)
            return known.id
        seen_in = (self.goal,) if lesson.seen else ()
        found = Bullet("", section, content, created_at="", source_goal=self.goal, seen_in=seen_in)
        return self._put(found, redact(lesson.evidence), lesson.actions)

    def _put(self, found: Bullet, evidence: str, actions: tuple[int, ...] = ()) -> str:
        """Record a strategy that is new here, and return its id: its own where that is free."""
        live = self.playbook.bullets()
        if len(live) >= BULLETS_MAX:
            raise DeltaError(f"the playbook is full ({BULLETS_MAX} strategies); remove some first")
        taken = {one.id for one in (*live, *self.playbook.archived())}
        free = _ID.fullmatch(found.id) and found.id not in taken
        same = {name: getattr(found, name) for name in _AS_RECORDED}
        same["id"] = found.id if free else self.playbook.next_id(found.section)
        same["created_at"] = found.created_at if seconds(found.created_at) else ""
        self._record(de.BulletAdded(at=self.at, evidence=evidence, actions=actions, **same))
        return str(same["id"])

    def _existing(self, bullet_id: object) -> Bullet:
        if bullet := self.playbook.get_bullet(bullet_id) if isinstance(bullet_id, str) else None:
            return bullet
        raise DeltaError(f"no strategy {bullet_id!r}")

    def _record(self, event: ev.Event) -> None:
        apply(self.playbook, event)
        self.events.append(event)


def fold(events: Iterable[ev.Event]) -> LearnedPlaybook:
    """Return the playbook that recorded events give, oldest first."""
    playbook = LearnedPlaybook()
    for event in events:
        apply(playbook, event)
    return playbook


def apply(playbook: LearnedPlaybook, event: ev.Event) -> None:
    """Apply one event to the playbook, in place; an unknown id changes nothing."""
    known = playbook.get_bullet(event.id) if isinstance(event, de.PlaybookEvent) else None
    match event:
        case de.BulletAdded():
            bullet = Bullet(**event.model_dump(include=_AS_RECORDED))
            bullet.created_at = event.created_at or iso(event.at)
            bullet.updated_at = iso(event.at)
            playbook.put(bullet)
            if event.expires_at:  # one of clew 0.1.0, which has had its time
                playbook.remove_bullet(event.id)
        case de.BulletTagged() if known:
            known.tag(event.tag, event.times, iso(event.at))
            if event.seen:
                known.see(event.source_goal)
        case de.BulletUpdated() if known:
            known.content, known.updated_at = event.content, iso(event.at)
        case de.BulletRemoved():
            playbook.remove_bullet(event.id)
        case de.BulletRestored():
            playbook.restore_bullet(event.id)
        case _:
            pass


def imported(text: str) -> list[Bullet]:
    """Parse an export, or a person's own list of strategies, which may lack ids; ValueError if it is wrong."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if isinstance(data, list) and all(isinstance(one, Mapping) for one in data):
        data = {"bullets": [{"id": str(n), **one} for n, one in enumerate(data, start=1)]}
    if not isinstance(data, Mapping):
        raise ValueError("a playbook is an object, or a list of objects")  # noqa: TRY004 (what a file holds is a value)
    return LearnedPlaybook.from_dict(data).bullets()
