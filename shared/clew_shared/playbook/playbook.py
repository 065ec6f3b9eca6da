"""The playbook: bullets by section, changed by single deltas and never rewritten as a whole.

After ACE (arXiv 2510.04618): whole rewrites lose what was learned, deltas preserve it. The owner decides when a
strategy helped or harmed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from clew_shared.playbook.bullet import Bullet, section_key
from clew_shared.playbook.curator import conflicts, same
from clew_shared.text.shorten import one_line

VERSION = 1
MAX_CONTENT_CHARS = 1000
MAX_SECTION_CHARS = 80
TITLE = "## Learned Strategies"


class LearnedPlaybook:
    """Strategies learned across goals, each with an id that is never reused."""

    bullet_type: ClassVar[type[Bullet]] = Bullet

    def __init__(self) -> None:
        self._bullets: dict[str, Bullet] = {}
        self._archive: dict[str, Bullet] = {}
        self._last_number = 0

    def remove_bullet(self, bullet_id: str) -> Bullet | None:
        """Archive a bullet and return it; None if there is no such id."""
        bullet = self._bullets.pop(bullet_id, None)
        if bullet:
            self._archive[bullet_id] = bullet
        return bullet

    def restore_bullet(self, bullet_id: str) -> None:
        """Restore a bullet from the archive, if it is there."""
        if bullet := self._archive.pop(bullet_id, None):
            self._bullets[bullet_id] = bullet

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
        for bullet in (*self._bullets.values(), *self._archive.values()):
            other.put(replace(bullet))
        for bullet_id in self._archive:
            other.remove_bullet(bullet_id)
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


def normalized(section: str, content: str) -> tuple[str, str]:
    """Return both on one line; ValueError if one is empty, or the content over 1,000 characters."""
    if not isinstance(section, str) or not isinstance(content, str):
        given = f"{section!r:.40} and {content!r:.40}"
        raise TypeError(f"section and content must be strings, not {given}")
    section, content = one_line(section), one_line(content)
    if not section or not content:
        raise ValueError("a strategy needs a section and a content")
    for what, text, most in (
        ("section", section, MAX_SECTION_CHARS),
        ("strategy", content, MAX_CONTENT_CHARS),
    ):
        if len(text) > most:
            raise ValueError(f"{what} of {len(text)} characters; at most {most} are allowed")
    return section, content


def render(bullets: Iterable[Bullet]) -> str:
    """Return the text of bullets by section, in the order given, with a note below contradicting ones."""
    shown = list(bullets)
    if not shown:
        return ""
    against: dict[str, list[str]] = {}
    for one, other in conflicts([bullet.content for bullet in shown]):
        against.setdefault(shown[one].id, []).append(shown[other].id)
        against.setdefault(shown[other].id, []).append(shown[one].id)
    sections: dict[str, list[str]] = {}
    for bullet in shown:
        lines = sections.setdefault(section_key(bullet.section), [])
        counts = f"(helpful={bullet.helpful}, harmful={bullet.harmful})"
        lines.append(f"- [{bullet.id}] {bullet.content} {counts}")
        if others := ", ".join(f"[{other}]" for other in against.get(bullet.id, ())):
            lines.append(f"  conflict: {others} says the opposite")
    blocks = ["\n".join([f"### {name.title()}", *lines]) for name, lines in sections.items()]
    return "\n\n".join([TITLE, *blocks])


def _entries(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = data.get(name) or []
    entries = list(found.values()) if isinstance(found, Mapping) else found
    if not isinstance(entries, list) or not all(isinstance(one, Mapping) for one in entries):
        raise ValueError(f"{name} of a playbook must be a list of objects")
    return entries


def _number(bullet_id: str) -> int:
    digits = bullet_id.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
