"""The playbook as a fold of its events, and what a change to it means: deltas, credits, lessons in, events out.

A replay on any machine at any time yields the same playbook, ids included.

Pure: the time is an argument, and only the caller's draft changes. Each function sees the playbook as it is after the
events already in the draft.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew_shared.playbook.bullet import TAGS, Bullet, Tag
from clew_shared.playbook.playbook import LearnedPlaybook, normalized
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import (
    BulletAdded,
    BulletRemoved,
    BulletRestored,
    BulletTagged,
    BulletUpdated,
)
from clew_shared.record.moment import iso
from clew_shared.text.redact import redact

BULLETS_MAX = 2_000
VERDICTS_MIN = 3
"""Automatic pruning leaves a strategy alone until this many outcomes spoke for or against it."""


class DeltaError(ValueError):
    """A change that cannot be made; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a run taught, with its evidence and the numbers of its actions.

    `again` is what is recorded where it was known before; `seen`: it is about a loop of a goal whose checks passed.
    """

    section: str
    content: str
    evidence: str = ""
    actions: tuple[int, ...] = ()
    again: str = "learned again"
    seen: bool = False


@dataclass(slots=True)
class Draft:
    """A copy of a playbook and the events applied to it; the original does not change."""

    playbook: LearnedPlaybook
    events: list[ev.Event]

    @classmethod
    def of(cls, playbook: LearnedPlaybook) -> "Draft":
        return cls(playbook.copy(), [])

    def add(self, event: ev.Event) -> None:
        apply(self.playbook, event)
        self.events.append(event)


def learn(draft: Draft, deltas: Iterable[Mapping[str, Any]], goal: str, at: float) -> list[str]:
    """Apply an agent's deltas in order; return the ids that they touched. DeltaError if one is wrong."""
    touched = []
    for n, delta in enumerate(deltas):
        try:
            event = _delta(draft.playbook, delta, goal, at)
        except ValueError as error:
            raise DeltaError(f"delta {n}: {error}") from None
        draft.add(event)
        touched.append(event.id)
    return touched


def add_lessons(
    draft: Draft, lessons: Iterable[Lesson], goal: str, at: float, credited: Sequence[str] = ()
) -> None:
    """Add what a run taught; a known lesson counts as neutral, once, and an archived one stays archived.

    A strategy that this outcome has `credited` is not counted again.
    """
    for lesson in lessons:
        known = draft.playbook.find(lesson.section, lesson.content)
        if known is None and draft.playbook.find(lesson.section, lesson.content, archived=True):
            continue
        if known and known.id in credited:
            continue
        if known is None and len(draft.playbook.bullets()) >= BULLETS_MAX:
            continue
        draft.add(_addition(draft.playbook, lesson, goal, at))


def credit(draft: Draft, ids: Iterable[str], tag: Tag, goal: str, reason: str, at: float) -> None:
    """Tag the strategies that a goal's agents were shown with the goal's outcome."""
    for bullet_id in ids:
        if draft.playbook.get_bullet(bullet_id):
            event = BulletTagged(at=at, id=bullet_id, tag=tag, source_goal=goal, reason=reason)
            draft.add(event)


def prune(draft: Draft, below: float, at: float, verdicts_min: int = 1) -> list[str]:
    """Archive strategies with at least `verdicts_min` verdicts that score below; return their ids."""
    failed = [
        one
        for one in draft.playbook.bullets()
        if one.verdicts >= verdicts_min and one.score < below
    ]
    for one in failed:
        reason = f"pruned: score {one.score:.2f} is below {below:g}"
        draft.add(BulletRemoved(at=at, id=one.id, reason=reason))
    return [one.id for one in failed]


def remove(draft: Draft, bullet_id: str, reason: str, at: float) -> None:
    """Archive a strategy; DeltaError if no strategy has that id."""
    _existing(draft.playbook, bullet_id)
    draft.add(BulletRemoved(at=at, id=bullet_id, reason=reason))


def restore(draft: Draft, bullet_id: str, at: float) -> None:
    """Restore a strategy from the archive; DeltaError if it is not there."""
    found = next((one for one in draft.playbook.archived() if one.id == bullet_id), None)
    if found is None:
        raise DeltaError(f"no strategy {bullet_id!r} in the archive")
    if twin := draft.playbook.find(found.section, found.content):
        raise DeltaError(f"{twin.id} says the same as {bullet_id}; remove it first")
    draft.add(BulletRestored(at=at, id=bullet_id))


def _delta(playbook: LearnedPlaybook, delta: Mapping[str, Any], goal: str, at: float) -> Any:
    op, bullet_id = delta.get("op"), delta.get("id")
    if op == "add":
        section, content = delta.get("section"), delta.get("content")
        if not isinstance(section, str) or not isinstance(content, str):
            raise DeltaError("`add` needs `section` and `content`, both strings")
        return _addition(playbook, Lesson(section, content), goal, at)
    if op not in ("tag", "update", "remove"):
        raise DeltaError(f"{op!r} is not one of add, tag, update, remove")
    bullet = _existing(playbook, bullet_id)
    if op == "tag":
        if delta.get("tag") not in TAGS:
            raise DeltaError(f"`tag` is {delta.get('tag')!r}; use one of {', '.join(TAGS)}")
        return BulletTagged(at=at, id=bullet.id, tag=delta["tag"], source_goal=goal)
    if op == "remove":
        return BulletRemoved(at=at, id=bullet.id, reason="by the agent", source_goal=goal)
    return _update(playbook, bullet, delta.get("content"), goal, at)


def _update(playbook: LearnedPlaybook, bullet: Bullet, content: Any, goal: str, at: float) -> Any:
    if not isinstance(content, str):
        raise DeltaError("`update` needs `content`, a string")
    _, content = normalized(bullet.section, redact(content))
    twin = playbook.find(bullet.section, content)
    if twin and twin.id != bullet.id:
        raise DeltaError(f"{twin.id} says the same; tag it, and remove {bullet.id}")
    return BulletUpdated(at=at, id=bullet.id, content=content, source_goal=goal)


def _addition(playbook: LearnedPlaybook, lesson: Lesson, goal: str, at: float) -> Any:
    section, content = normalized(lesson.section, redact(lesson.content))
    known = playbook.find(section, content)
    if known:
        return BulletTagged(
            at=at,
            id=known.id,
            tag="neutral",
            source_goal=goal,
            reason=redact(lesson.again),
            seen=lesson.seen,
        )
    if len(playbook.bullets()) >= BULLETS_MAX:
        raise DeltaError(f"the playbook is full ({BULLETS_MAX} strategies); remove some first")
    return BulletAdded(
        at=at,
        id=playbook.next_id(section),
        section=section,
        content=content,
        source_goal=goal,
        evidence=redact(lesson.evidence),
        actions=lesson.actions,
        seen_in=(goal,) if lesson.seen else (),
    )


def _existing(playbook: LearnedPlaybook, bullet_id: Any) -> Bullet:
    bullet = playbook.get_bullet(bullet_id) if isinstance(bullet_id, str) else None
    if bullet is None:
        raise DeltaError(f"no strategy {bullet_id!r}")
    return bullet


# ---- the fold


def fold(events: Iterable[ev.Event], playbook: LearnedPlaybook | None = None) -> LearnedPlaybook:
    """Return the playbook with recorded events applied, oldest first."""
    playbook = playbook or LearnedPlaybook()
    for event in events:
        apply(playbook, event)
    return playbook


def apply(playbook: LearnedPlaybook, event: ev.Event) -> None:
    """Apply one event to the playbook, in place; an unknown id changes nothing."""
    match event:
        case BulletAdded():
            playbook.put(_bullet(event))
        case BulletTagged():
            if bullet := playbook.get_bullet(event.id):
                bullet.tag(event.tag, event.times, iso(event.at))
                if bullet.expires_at and event.expires_at:
                    bullet.expires_at = iso(event.expires_at)
                if event.seen:
                    bullet.see(event.source_goal)
        case BulletUpdated():
            if bullet := playbook.get_bullet(event.id):
                bullet.content, bullet.updated_at = event.content, iso(event.at)
        case BulletRemoved():
            playbook.remove_bullet(event.id)
        case BulletRestored():
            playbook.restore_bullet(event.id)
        case _:
            pass


def _bullet(event: BulletAdded) -> Bullet:
    return Bullet(
        id=event.id,
        section=event.section,
        content=event.content,
        helpful=event.helpful,
        harmful=event.harmful,
        neutral=event.neutral,
        created_at=event.created_at or iso(event.at),
        updated_at=iso(event.at),
        source_goal=event.source_goal,
        expires_at=iso(event.expires_at) if event.expires_at else "",
        seen_in=event.seen_in,
    )
