"""Strategies (bullets) with their counts, and the playbook that holds them, changed by single deltas (ACE)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, Literal, Self

from clew_shared.playbook.curator import meaning, opposite, same
from clew_shared.text.shorten import one_line

Tag = Literal["helpful", "harmful", "neutral"]

TAGS: tuple[Tag, ...] = ("helpful", "harmful", "neutral")
_TEXTS = ("id", "section", "content", "created_at", "updated_at", "source_goal")
COUNT_MAX = 999_999_999
SEEN_MIN = 3  # goals with passing checks that must have had a loop before agents are told of it


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(slots=True)
class Bullet:
    """A strategy and its counts, with times in ISO 8601; a lesson of a loop names goals that it was `seen_in`."""

    id: str
    section: str
    content: str
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    created_at: str = field(default_factory=_now)
    updated_at: str = ""
    source_goal: str = ""
    seen_in: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.updated_at = self.updated_at or self.created_at

    def tag(self, tag: str, increment: int = 1, at: str = "") -> None:
        """Count uses at the time `at`, or now; ValueError for a tag other than helpful, harmful and neutral."""
        if tag not in TAGS:
            raise ValueError(f"unknown tag {tag!r} for {self.id}; use one of {', '.join(TAGS)}")
        if increment < 0:
            raise ValueError(f"increment is {increment} for {self.id}; counts only grow")
        setattr(self, tag, getattr(self, tag) + increment)
        self.updated_at = at or _now()

    def see(self, goal: str) -> None:
        """Note a goal, once, until there are as many as are needed."""
        if goal not in self.seen_in:
            self.seen_in = (*self.seen_in, goal)[:SEEN_MIN]

    @property
    def uses(self) -> int:
        return self.helpful + self.harmful + self.neutral

    @property
    def verdicts(self) -> int:
        """How many outcomes spoke for or against it."""
        return self.helpful + self.harmful

    @property
    def score(self) -> float:
        """(helpful - harmful) / uses, from -1 to 1; 0 while it was never used."""
        return (self.helpful - self.harmful) / self.uses if self.uses else 0.0

    @property
    def worth(self) -> float:
        """The share of help among its verdicts, starting from one of each: five of five is more than one of one."""
        return (self.helpful + 1) / (self.verdicts + 2)

    @property
    def is_shown(self) -> bool:
        """Whether agents may be shown it: a lesson of a loop only when enough goals have had it."""
        return not self.seen_in or len(self.seen_in) >= SEEN_MIN

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, `seen_in` only if it is set."""
        return {key: value for key, value in asdict(self).items() if value or key != "seen_in"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Create a bullet from its dict; unknown keys are ignored, ValueError names missing or wrong ones."""
        name, seen_in = f"strategy {data.get('id', '?')!r}", data.get("seen_in") or ()
        if missing := [key for key in ("id", "section", "content") if not data.get(key)]:
            raise ValueError(f"{name} lacks {', '.join(missing)}")
        counts = {tag: data.get(tag, 0) for tag in TAGS}
        sound = [key for key, n in counts.items() if isinstance(n, int) and 0 <= n <= COUNT_MAX]
        if wrong := [key for key in TAGS if key not in sound]:
            raise ValueError(f"{name}: {', '.join(wrong)} must be an integer >= 0")
        if not isinstance(seen_in, list | tuple) or not all(isinstance(n, str) for n in seen_in):
            raise ValueError(f"{name}: seen_in must be a list of strings")
        texts = {key: data[key] for key in _TEXTS if data.get(key)}
        if not all(isinstance(value, str) for value in texts.values()):
            raise ValueError(f"{name}: {', '.join(texts)} must be strings")
        texts = {key: one_line(value) for key, value in texts.items()}
        return cls(**texts, **counts, seen_in=tuple(seen_in[:SEEN_MIN]))


def section_key(section: str) -> str:
    """Return the normal form of a section's name: `file_operations` equals "File Operations"."""
    return " ".join(section.replace("_", " ").casefold().split())


def seconds(text: str) -> float:
    """Return a time of ISO 8601 in seconds since 1970; 0 for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


VERSION = 1
MAX_CONTENT_CHARS = 1000
MAX_SECTION_CHARS = 80
TITLE = "## Learned Strategies"


class LearnedPlaybook:
    """Strategies learned across goals, each with an id that is never reused."""

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
        letters = "".join(filter(str.isalpha, section.lower()))[:3]
        return f"{letters or 'gen'}-{self._last_number + 1:05d}"

    def copy(self) -> Self:
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
        return conflicts(self.bullets())

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
        live, archive = playbook._bullets, playbook._archive
        for name, target in (("bullets", live), ("archived", archive)):
            for entry in _entries(data, name):
                bullet = Bullet.from_dict(entry)
                if bullet.id in live or bullet.id in archive:
                    raise ValueError(f"two strategies have the id {bullet.id!r}")
                # those of clew 0.1.0 that expire have had their time
                (archive if entry.get("expires_at") else target)[bullet.id] = bullet
        numbers = map(_number, (*live, *archive))
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
    limits = {"section": (section, MAX_SECTION_CHARS), "strategy": (content, MAX_CONTENT_CHARS)}
    for what, (text, most) in limits.items():
        if len(text) > most:
            raise ValueError(f"{what} of {len(text)} characters; at most {most} are allowed")
    return section, content


def conflicts(bullets: Iterable[Bullet]) -> list[tuple[Bullet, Bullet]]:
    """Return the pairs that contradict each other; only strategies of the same words can."""
    alike = defaultdict[frozenset[str], list[Bullet]](list)
    for bullet in bullets:
        alike[frozenset[str]().union(*meaning(bullet.content).words)].append(bullet)
    pairs = (pair for group in alike.values() for pair in combinations(group, 2))
    return [(one, other) for one, other in pairs if opposite(one.content, other.content)]


def render(bullets: Iterable[Bullet]) -> str:
    """Return the text of bullets by section, in the order given, with a note below contradicting ones."""
    shown = list(bullets)
    if not shown:
        return ""
    against, sections = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for one, other in conflicts(shown):
        against[one.id].append(f"[{other.id}]")
        against[other.id].append(f"[{one.id}]")
    for bullet in shown:
        lines = sections[section_key(bullet.section)]
        counts = f"(helpful={bullet.helpful}, harmful={bullet.harmful})"
        lines.append(f"- [{bullet.id}] {bullet.content} {counts}")
        if bullet.id in against:
            lines.append(f"  conflict: {', '.join(against[bullet.id])} says the opposite")
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
