"""A playbook that an agent owns, saves and loads; under a daemon, strategies are in the ledger."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from clew_shared.files import write_whole
from clew_shared.playbook.playbook import TAGS, Bullet, LearnedPlaybook, normalized, render

BULLETS_MAX = 2_000


class Playbook(LearnedPlaybook):
    """Strategies learned across goals, each with an id that is never reused."""

    def put(self, bullet: Bullet) -> Bullet:
        """Store a bullet under its id, replacing one of the same id; where there are too many, archive another one."""
        super().put(bullet)
        while len(self._bullets) > BULLETS_MAX:
            others = (one for one in self._bullets.values() if one is not bullet)
            self.remove_bullet(min(others, key=_worth).id)
        return bullet

    def remove_bullet(self, bullet_id: str) -> Bullet | None:
        """Archive a bullet and return it; None if there is no such id."""
        removed = super().remove_bullet(bullet_id)
        while len(self._archive) > BULLETS_MAX:
            del self._archive[next(iter(self._archive))]
        return removed

    def add_bullet(self, section: str, content: str, source_goal: str = "") -> Bullet:
        """Add a strategy, a known one as a neutral use; ValueError if it is empty or over 1,000 characters."""
        section, content = normalized(section, content)
        if known := self.find(section, content):
            known.tag("neutral")
            return known
        return self.put(Bullet(self.next_id(section), section, content, source_goal=source_goal))

    def add_strategy(
        self, category: str = "", content: str = "", source_goal: str = "", *, section: str = ""
    ) -> Bullet:
        """Add a strategy; `category` is another name for the section. See `add_bullet`."""
        return self.add_bullet(category or section, content, source_goal)

    def tag_bullet(self, bullet_id: str, tag: str, increment: int = 1) -> Bullet | None:
        """Count a use of a bullet as helpful, harmful or neutral; None if there is no such id."""
        if bullet := self._bullets.get(bullet_id):
            bullet.tag(tag, increment)
        return bullet

    def stats(self) -> dict[str, Any]:
        """Return the numbers of bullets, sections, tags, conflicts and archived bullets."""
        bullets = self.bullets()
        by_section = Counter(one.section for one in bullets)
        tags: dict[str, int] = {tag: sum(getattr(one, tag) for one in bullets) for tag in TAGS}
        return {
            "bullets": len(bullets),
            "sections": len(by_section),
            "by_section": dict(by_section),
            "tags": tags,
            "conflicts": len(self.conflicts()),
            "archived": len(self._archive),
        }

    def as_context(self, max_strategies: int = 50) -> str:
        """Return the `max_strategies` most helpful for a prompt, in the order in which they were added; "" for none."""
        ranked = sorted(self._bullets.values(), key=_worth, reverse=True)
        chosen = {bullet.id for bullet in ranked[: max(0, max_strategies)]}
        text = render(bullet for bullet in self._bullets.values() if bullet.id in chosen)
        return f"\n{text}" if text else ""

    def prune(self, threshold: float = -0.3) -> list[Bullet]:
        """Archive the used bullets whose score, (helpful - harmful) / uses, is below the threshold, and return them."""
        failed = [one for one in self._bullets.values() if one.uses and one.score < threshold]
        for bullet in failed:
            self.remove_bullet(bullet.id)
        return failed

    def merge(self, other: LearnedPlaybook) -> Self:
        """Merge the strategies of another playbook, which does not change; return this one.

        A strategy found independently in both adds its counts; a copy of the same bullet takes the larger ones, so
        that merging twice changes nothing. What was removed here stays removed.
        """
        for theirs in other.bullets():
            removed, known = self._archive.get(theirs.id), self.find(theirs.section, theirs.content)
            if removed and _is_copy(removed, theirs):
                continue
            if known is None:
                taken = removed or theirs.id in self._bullets
                self.put(replace(theirs, id=self.next_id(theirs.section) if taken else theirs.id))
            elif _is_copy(known, theirs):
                for tag in TAGS:
                    setattr(known, tag, max(getattr(known, tag), getattr(theirs, tag)))
                known.updated_at = max(known.updated_at, theirs.updated_at)
            else:
                for tag in TAGS:
                    known.tag(tag, getattr(theirs, tag))
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the playbook as JSON, atomically; missing folders are created."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2)
        write_whole(target, f"{text}\n", 0o600)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return a saved playbook; OSError if the file cannot be read, ValueError if it is not a playbook."""
        text = Path(path).read_text(encoding="utf-8")
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not a playbook: {error}") from error


def _worth(bullet: Bullet) -> tuple[float, str, str]:
    return (bullet.worth, bullet.updated_at, bullet.id)


def _is_copy(mine: Bullet, theirs: Bullet) -> bool:
    return (mine.content, mine.created_at) == (theirs.content, theirs.created_at)
