"""The playbook in the ledger: strategies learned across goals, as events of the daemon's own.

A small fold and the deltas of the protocol; which bullets a prompt shows is decided elsewhere.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from clew_shared import events as ev
from clew_shared.core import WrongState
from clew_shared.fold import iso
from clew_shared.redact import redact

if TYPE_CHECKING:
    from clew_daemon.book import Book

BULLETS_MAX = 2_000
CONTENT_CHARS_MAX = 2_000
SECTION_CHARS_MAX = 80
TAGS = ("helpful", "harmful", "neutral")


@dataclass(slots=True)
class Bullet:
    """One strategy (contract, section 9)."""

    id: str
    section: str
    content: str
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    created_at: str = ""
    updated_at: str = ""
    source_goal: str = ""


@dataclass(slots=True)
class Playbook:
    """The fold of the playbook's events, and how it changes."""

    book: Book
    bullets: dict[str, Bullet] = field(default_factory=dict)
    highest: int = 0

    def load(self) -> None:
        """Replay the playbook's events."""
        for row in self.book.ledger.read(""):
            if row.kind.startswith("bullet_"):
                self._apply(ev.decode_playbook(row.body))

    def view(self) -> list[dict[str, Any]]:
        """Give all bullets as JSON values."""
        return [asdict(bullet) for bullet in self.bullets.values()]

    async def learn(self, deltas: list[dict[str, Any]], goal: str) -> list[dict[str, Any]]:
        """Take deltas, all or none; gives the playbook after them. Raises WrongState on a wrong one."""
        events = [self._event(delta, goal, n) for n, delta in enumerate(deltas)]
        if events:
            await self.book.emit_own(events)
            for event in events:
                self._apply(event)
        return self.view()

    def _event(self, delta: dict[str, Any], goal: str, n: int) -> Any:
        at, op, bullet_id = time.time(), delta.get("op"), delta.get("id")
        if op == "add":
            return self._addition(delta, goal, at, n)
        if bullet_id not in self.bullets:
            raise WrongState(f"delta {n}: no bullet {bullet_id!r}")
        match op:
            case "tag" if delta.get("tag") in TAGS:
                return ev.BulletTagged(at=at, id=bullet_id, tag=delta["tag"], source_goal=goal)
            case "update" if isinstance(delta.get("content"), str) and delta["content"].strip():
                return ev.BulletUpdated(at=at, id=bullet_id, content=_content(delta["content"]))
            case "remove":
                return ev.BulletRemoved(at=at, id=bullet_id)
        raise WrongState(
            f"delta {n}: {op!r} with these fields is not one of add, tag, update, remove"
        )

    def _addition(self, delta: dict[str, Any], goal: str, at: float, n: int) -> Any:
        section, content = delta.get("section"), delta.get("content")
        if not (
            isinstance(section, str)
            and isinstance(content, str)
            and content.strip()
            and section.strip()
        ):
            raise WrongState(f"delta {n}: `add` needs `section` and `content`, both texts")
        content, section = _content(content), section.strip()[:SECTION_CHARS_MAX]
        for bullet in self.bullets.values():
            if _same(bullet.content, content):
                return ev.BulletTagged(at=at, id=bullet.id, tag="neutral", source_goal=goal)
        if len(self.bullets) >= BULLETS_MAX:
            raise WrongState(f"the playbook is full ({BULLETS_MAX} strategies); remove some first")
        self.highest += 1
        letters = "".join(c for c in section.lower() if c.isalnum())[:3] or "gen"
        return ev.BulletAdded(
            at=at,
            id=f"{letters}-{self.highest:05d}",
            section=section,
            content=content,
            source_goal=goal,
        )

    def _apply(self, event: Any) -> None:
        match event:
            case ev.BulletAdded():
                self.highest = max(self.highest, int(event.id.rpartition("-")[2] or 0))
                self.bullets[event.id] = Bullet(
                    event.id,
                    event.section,
                    event.content,
                    event.helpful,
                    event.harmful,
                    event.neutral,
                    iso(event.at),
                    iso(event.at),
                    event.source_goal,
                )
            case ev.BulletTagged() if event.id in self.bullets:
                bullet = self.bullets[event.id]
                setattr(bullet, event.tag, getattr(bullet, event.tag) + 1)
                bullet.updated_at = iso(event.at)
            case ev.BulletUpdated() if event.id in self.bullets:
                self.bullets[event.id].content = event.content
                self.bullets[event.id].updated_at = iso(event.at)
            case ev.BulletRemoved():
                self.bullets.pop(event.id, None)
            case _:
                pass


def _content(text: str) -> str:
    return redact(" ".join(text.split()))[:CONTENT_CHARS_MAX]


def _same(one: str, other: str) -> bool:
    return one.casefold().rstrip(".! ") == other.casefold().rstrip(".! ")
