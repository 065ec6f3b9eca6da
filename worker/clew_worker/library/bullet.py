"""A bullet with the times of its creation and its last tag."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from clew_shared.playbook import bullet as shared


def now() -> str:
    """Return the time in the form of bullets: UTC, ISO 8601 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(slots=True)
class Bullet(shared.Bullet):
    """One strategy of a section, with counts of how often it helped, harmed, or did neither."""

    created_at: str = field(default_factory=now)

    def tag(self, tag: str, increment: int = 1, at: str = "") -> None:
        """Count a use, now; ValueError for a tag other than helpful, harmful and neutral."""
        shared.Bullet.tag(self, tag, increment, at or now())
