"""A bullet: one distilled strategy with its counts of help and harm.

After ACE (agentic context engineering, arXiv 2510.04618). It knows nothing of other bullets.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal, Self

Tag = Literal["helpful", "harmful", "neutral"]

TAGS: tuple[Tag, ...] = ("helpful", "harmful", "neutral")
_Z_90 = 1.645


def now() -> str:
    """Give the time as bullets bear it: UTC, ISO 8601 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(slots=True)
class Bullet:
    """One strategy of a section; the counts say how often it helped, harmed, or did neither."""

    id: str
    section: str
    content: str
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    created_at: str = field(default_factory=now)
    updated_at: str = ""
    source_goal: str = ""

    def __post_init__(self) -> None:
        self.updated_at = self.updated_at or self.created_at

    def tag(self, tag: str, increment: int = 1) -> None:
        """Count one use; raises ValueError for a tag other than helpful, harmful and neutral."""
        if tag not in TAGS:
            raise ValueError(f"unknown tag {tag!r} for {self.id}; use one of {', '.join(TAGS)}")
        if increment < 0:
            raise ValueError(f"increment is {increment} for {self.id}; counts only grow")
        setattr(self, tag, getattr(self, tag) + increment)
        self.updated_at = now()

    @property
    def uses(self) -> int:
        return self.helpful + self.harmful + self.neutral

    @property
    def score(self) -> float:
        """How far it helps: (helpful - harmful) / uses, from -1 to 1; 0 while never used."""
        return (self.helpful - self.harmful) / self.uses if self.uses else 0.0

    @property
    def lower_bound(self) -> float:
        """The share of help it has at least, with 90 % confidence, from one of each to begin with.

        Wilson's lower bound: five of five outranks one of one, and an unused bullet a harmful one.
        """
        helped, total = self.helpful + 1, self.helpful + self.harmful + 2
        share, z2 = helped / total, _Z_90**2
        spread = _Z_90 * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
        return (share + z2 / (2 * total) - spread) / (1 + z2 / total)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make a bullet of its dict; unknown keys are ignored, ValueError names a missing one."""
        missing = [name for name in ("id", "section", "content") if not data.get(name)]
        if missing:
            raise ValueError(f"bullet {data.get('id', '?')!r} lacks {', '.join(missing)}")
        wrong = [name for name in TAGS if not _is_count(data.get(name, 0))]
        if wrong:
            raise ValueError(f"bullet {data['id']!r}: {', '.join(wrong)} must be whole and >= 0")
        given = {one.name: data[one.name] for one in fields(cls) if data.get(one.name)}
        texts = {name: value for name, value in given.items() if name not in TAGS}
        if not all(isinstance(value, str) for value in texts.values()):
            raise ValueError(f"bullet {data['id']!r}: {', '.join(texts)} must be texts")
        return cls(**{**given, **{name: " ".join(value.split()) for name, value in texts.items()}})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0
