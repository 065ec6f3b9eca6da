"""The playbook: bullets by section, changed by single deltas and never rewritten as a whole.

After ACE (arXiv 2510.04618): whole rewrites lose what was learned, deltas preserve it. The owner decides when a
strategy helped or harmed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from clew_shared.playbook.bullet import TAGS, Bullet, section_key
from clew_shared.playbook.curator import conflicts, same
from clew_shared.playbook.text import render

VERSION = 1
MAX_CONTENT_CHARS = 1000
MAX_SECTION_CHARS = 80


class LearnedPlaybook:
    """Strategies learned across goals, each with an id that is never reused."""

    bullet_type: ClassVar[type[Bullet]] = Bullet

    def __init__(self) -> None:
        self._bullets: dict[str, Bullet] = {}
        self._archive: dict[str, Bullet] = {}
        self._last_number = 0

    def add_bullet(self, section: str, content: str, source_goal: str = "") -> Bullet:
        """Add a strategy and return it; one that the section already has counts a neutral use.

        Raises ValueError for an empty section or content, and for one over 1,000 characters.
        """
        section, content = normalized(section, content)
        known = self.find(section, content)
        if known:
            known.tag("neutral")
            return known
        new_id = self.next_id(section)
        return self.put(self.bullet_type(new_id, section, content, source_goal=source_goal))

    def add_strategy(
        self,
        category: str = "",
        content: str = "",
        source_goal: str = "",
        *,
        section: str = "",
    ) -> Bullet:
        """Add a strategy; `category` is another name for the section. See `add_bullet`."""
        return self.add_bullet(category or section, content, source_goal)

    def tag_bullet(self, bullet_id: str, tag: str, increment: int = 1) -> Bullet | None:
        """Count a use of a bullet as helpful, harmful or neutral; None if there is no such id."""
        bullet = self._bullets.get(bullet_id)
        if bullet:
            bullet.tag(tag, increment)
        return bullet

    def remove_bullet(self, bullet_id: str) -> Bullet | None:
        """Archive a bullet and return it; None if there is no such id."""
        bullet = self._bullets.pop(bullet_id, None)
        if bullet:
            self._archive[bullet_id] = bullet
        return bullet

    def restore_bullet(self, bullet_id: str) -> Bullet | None:
        """Restore a bullet from the archive and return it; None if it is not there."""
        bullet = self._archive.pop(bullet_id, None)
        if bullet:
            self._bullets[bullet_id] = bullet
        return bullet

    def put(self, bullet: Bullet) -> Bullet:
        """Store a bullet under its id, replacing one of the same id."""
        self._last_number = max(self._last_number, _number(bullet.id))
        self._bullets[bullet.id] = bullet
        return bullet

    def find(self, section: str, content: str, *, archived: bool = False) -> Bullet | None:
        """Return the strategy of the section that means the same; `archived` searches the archive."""
        key, among = section_key(section), self._archive if archived else self._bullets
        in_section = (one for one in among.values() if section_key(one.section) == key)
        return next((one for one in in_section if same(one.content, content)), None)

    def next_id(self, section: str) -> str:
        """Return the id for the next strategy of the section."""
        letters = "".join(filter(str.isalpha, section.lower()))[:3]
        return f"{letters or 'gen'}-{self._last_number + 1:05d}"

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)()
        for bullet in self._bullets.values():
            other.put(replace(bullet))
        for bullet in self._archive.values():
            other.put(replace(bullet))
            other.remove_bullet(bullet.id)
        return other

    def get_bullet(self, bullet_id: str) -> Bullet | None:
        return self._bullets.get(bullet_id)

    def bullets(self) -> list[Bullet]:
        return list(self._bullets.values())

    def archived(self) -> list[Bullet]:
        return list(self._archive.values())

    def conflicts(self) -> list[tuple[Bullet, Bullet]]:
        """Return the pairs that contradict each other; a person or the counts decide between them."""
        bullets = self.bullets()
        pairs = conflicts([bullet.content for bullet in bullets])
        return [(bullets[one], bullets[other]) for one, other in pairs]

    def stats(self) -> dict[str, Any]:
        """Return the numbers of bullets, sections, tags, conflicts and archived bullets."""
        tags: dict[str, int] = {
            tag: sum(getattr(one, tag) for one in self._bullets.values()) for tag in TAGS
        }
        by_section: dict[str, int] = {}
        for bullet in self._bullets.values():
            by_section[bullet.section] = by_section.get(bullet.section, 0) + 1
        return {
            "bullets": len(self._bullets),
            "sections": len(by_section),
            "by_section": by_section,
            "tags": tags,
            **tags,
            "conflicts": len(self.conflicts()),
            "archived": len(self._archive),
        }

    def as_context(self, max_strategies: int = 50) -> str:
        """Return the text for a prompt, with the `max_strategies` most helpful; "" if there are none.

        Sections and bullets stay in the order in which they were added, so that a prompt changes as little as possible.
        """
        ranked = sorted(
            self._bullets.values(),
            key=lambda bullet: (bullet.lower_bound, bullet.updated_at, bullet.id),
            reverse=True,
        )
        chosen = {bullet.id for bullet in ranked[: max(0, max_strategies)]}
        return render(bullet for bullet in self._bullets.values() if bullet.id in chosen)

    def prune(self, threshold: float = -0.3) -> list[Bullet]:
        """Archive the used bullets whose score is below the threshold, and return them.

        The score is (helpful - harmful) / uses; a bullet that was never used stays.
        """
        failed = [one for one in self._bullets.values() if one.uses and one.score < threshold]
        for bullet in failed:
            self.remove_bullet(bullet.id)
        return failed

    def merge(self, other: "LearnedPlaybook") -> Self:
        """Merge the strategies of another playbook, which does not change; return this one.

        A strategy found independently in both adds its counts; a copy of the same bullet takes the larger ones, so
        that merging twice changes nothing. What was removed here stays removed.
        """
        for theirs in other.bullets():
            archived = self._archive.get(theirs.id)
            if archived and _is_copy(archived, theirs):
                continue
            mine = self._bullets.get(theirs.id)
            if mine and _is_copy(mine, theirs):
                _take_larger_counts(mine, theirs)
                continue
            known = self.find(theirs.section, theirs.content)
            if known and known.created_at == theirs.created_at:
                _take_larger_counts(known, theirs)
            elif known:
                for tag in TAGS:
                    known.tag(tag, getattr(theirs, tag))
            else:
                self._adopt(theirs)
        return self

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "last_number": self._last_number,
            "bullets": [bullet.to_dict() for bullet in self._bullets.values()],
            "archived": [bullet.to_dict() for bullet in self._archive.values()],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Create a playbook from its dict, an empty one from an empty dict; ValueError if unusable."""
        if not isinstance(data, Mapping):
            raise TypeError(f"a playbook is created from a dict, not from {data!r:.80}")
        if data.get("version", VERSION) != VERSION:
            raise ValueError(f"playbook version {data['version']!r}; this clew reads {VERSION}")
        playbook = cls()
        for name, target in (("bullets", playbook._bullets), ("archived", playbook._archive)):
            for entry in _entries(data, name):
                bullet = cls.bullet_type.from_dict(entry)
                if bullet.id in playbook._bullets or bullet.id in playbook._archive:
                    raise ValueError(f"two strategies have the id {bullet.id!r}")
                target[bullet.id] = bullet
        numbers = [_number(key) for key in (*playbook._bullets, *playbook._archive)]
        playbook._last_number = max(0, int(data.get("last_number", 0)), *numbers)
        return playbook

    def _adopt(self, theirs: Bullet) -> None:
        is_taken = theirs.id in self._bullets or theirs.id in self._archive
        bullet = replace(theirs, id=self.next_id(theirs.section) if is_taken else theirs.id)
        self.put(bullet)


def normalized(section: str, content: str) -> tuple[str, str]:
    """Return both on one line; ValueError if one is empty, or the content over 1,000 characters."""
    if not isinstance(section, str) or not isinstance(content, str):
        raise TypeError(
            f"section and content must be strings, not {section!r:.40} and {content!r:.40}"
        )
    section, content = " ".join(section.split()), " ".join(content.split())
    if not section or not content:
        raise ValueError("a strategy needs a section and a content")
    if len(section) > MAX_SECTION_CHARS:
        raise ValueError(
            f"section of {len(section)} characters; at most {MAX_SECTION_CHARS} are allowed"
        )
    if len(content) > MAX_CONTENT_CHARS:
        raise ValueError(
            f"strategy of {len(content)} characters; at most {MAX_CONTENT_CHARS} are allowed"
        )
    return section, content


def _is_copy(mine: Bullet, theirs: Bullet) -> bool:
    return (mine.content, mine.created_at) == (theirs.content, theirs.created_at)


def _take_larger_counts(mine: Bullet, theirs: Bullet) -> None:
    for tag in TAGS:
        setattr(mine, tag, max(getattr(mine, tag), getattr(theirs, tag)))
    mine.updated_at = max(mine.updated_at, theirs.updated_at)


def _entries(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = data.get(name) or []
    entries = list(found.values()) if isinstance(found, Mapping) else found
    if not isinstance(entries, list) or not all(isinstance(one, Mapping) for one in entries):
        raise ValueError(f"{name} of a playbook must be a list of objects")
    return entries


def _number(bullet_id: str) -> int:
    digits = bullet_id.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
