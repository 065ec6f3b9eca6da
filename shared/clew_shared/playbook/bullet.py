"""A bullet: one distilled strategy with its counts of help and harm.

After ACE (agentic context engineering, arXiv 2510.04618). It reads no clock: callers pass the time of a change.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, Self

from clew_shared.text.shorten import one_line

Tag = Literal["helpful", "harmful", "neutral"]

TAGS: tuple[Tag, ...] = ("helpful", "harmful", "neutral")
_Z_90 = 1.645
COUNT_MAX = 999_999_999
SEEN_MIN = 3
"""In how many goals, whose checks passed, a loop has to be seen before agents are told of it."""


@dataclass(slots=True)
class Bullet:
    """One strategy of a section, and how often it helped, harmed, or did neither.

    Times are UTC in ISO 8601. A lesson about a passing fault has `expires_at`; others never expire. A lesson about a
    loop names the first `SEEN_MIN` goals that it was `seen_in`, whose checks passed.
    """

    id: str
    section: str
    content: str
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    created_at: str = ""
    updated_at: str = ""
    source_goal: str = ""
    expires_at: str = ""
    seen_in: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.updated_at = self.updated_at or self.created_at

    def tag(self, tag: str, increment: int = 1, at: str = "") -> None:
        """Count uses at the time `at`; ValueError for a tag other than helpful, harmful and neutral."""
        if tag not in TAGS:
            raise ValueError(f"unknown tag {tag!r} for {self.id}; use one of {', '.join(TAGS)}")
        if increment < 0:
            raise ValueError(f"increment is {increment} for {self.id}; counts only grow")
        setattr(self, tag, getattr(self, tag) + increment)
        self.updated_at = at or self.updated_at

    def see(self, goal: str) -> None:
        """Note a goal, once, until there are as many as are needed."""
        if goal not in self.seen_in and len(self.seen_in) < SEEN_MIN:
            self.seen_in = (*self.seen_in, goal)

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
    def lower_bound(self) -> float:
        """Wilson's lower bound of the share of help, at 90 % confidence, starting from one of each.

        Five helpful of five outrank one of one, and an unused bullet outranks a harmful one.
        """
        total, z2 = self.verdicts + 2, _Z_90**2
        share = (self.helpful + 1) / total
        spread = _Z_90 * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
        return max(0.0, (share + z2 / (2 * total) - spread) / (1 + z2 / total))

    @property
    def is_shown(self) -> bool:
        """Whether agents may be shown it: a lesson of a loop only when enough goals have had it."""
        return not self.seen_in or len(self.seen_in) >= SEEN_MIN

    def expired(self, at: float) -> bool:
        """Return whether it has expired at `at`, in seconds since 1970."""
        return bool(self.expires_at) and seconds(self.expires_at) <= at

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, `expires_at` and `seen_in` only if they are set."""
        optional = ("expires_at", "seen_in")
        return {
            name: value for name, value in asdict(self).items() if value or name not in optional
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Create a bullet from its dict; unknown keys are ignored, ValueError names missing or wrong ones."""
        name = f"strategy {data.get('id', '?')!r}"
        if missing := [key for key in ("id", "section", "content") if not data.get(key)]:
            raise ValueError(f"{name} lacks {', '.join(missing)}")
        if wrong := [tag for tag in TAGS if not _is_count(data.get(tag, 0))]:
            raise ValueError(f"{name}: {', '.join(wrong)} must be an integer >= 0")
        given = {one.name: data[one.name] for one in fields(cls) if data.get(one.name)}
        seen_in = given.pop("seen_in", ())
        if not isinstance(seen_in, list | tuple) or not all(isinstance(n, str) for n in seen_in):
            raise ValueError(f"{name}: seen_in must be a list of strings")
        texts = {key: value for key, value in given.items() if key not in TAGS}
        if not all(isinstance(value, str) for value in texts.values()):
            raise ValueError(f"{name}: {', '.join(texts)} must be strings")
        given |= {key: one_line(value) for key, value in texts.items()}
        return cls(**given, seen_in=tuple(seen_in[:SEEN_MIN]))


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


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= COUNT_MAX
