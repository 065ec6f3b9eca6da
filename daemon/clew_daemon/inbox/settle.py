"""When a file in the inbox counts as completely written: a pure rule, so that it can be proved.

It knows no clock, no folder and no asyncio: the time and what was seen come in as arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

SUFFIXES = (".md", ".txt")
EMPTY_SETTLE_S = 2.0
"""A file of no bytes is mostly one whose writer has only just opened it: it gets longer."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the file system says of one inode: `size` in bytes, times in ns."""

    dev: int
    ino: int
    ctime_ns: int
    mtime_ns: int
    size: int

    def same_but_moved(self, other: Stamp) -> bool:
        """Whether `other` is this very file, unwritten since; a rename alone changes its ctime."""
        return self._unmoved() == other._unmoved()

    def _unmoved(self) -> tuple[int, int, int, int]:
        return (self.dev, self.ino, self.mtime_ns, self.size)


@dataclass(frozen=True, slots=True)
class Look:
    """What a name was at one moment: equal looks mean that nothing was written in between.

    `entry` is what bears the name, `content` what is read through it: they differ for a link.
    """

    entry: Stamp
    content: Stamp
    regular: bool = True


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A look that has been the same since `since`; not to be tried before `not_before` (both s).

    `tries` counts how often it was taken and had to be left where it is.
    """

    look: Look
    since: float
    not_before: float = 0.0
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at `until` (s, on the clock that `now` came from)."""

    until: float


@dataclass(frozen=True, slots=True)
class Take:
    """It is completely written: read it."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """It cannot be read as a file while it looks like this."""


def is_goal_name(name: str) -> bool:
    """Whether a file of this name is meant for clew: `*.md` and `*.txt` that are not hidden."""
    return not name.startswith(".") and name.lower().endswith(SUFFIXES)


def settle_time_s(look: Look, settle_s: float) -> float:
    """Return how long this look must last, in seconds, before the file counts as written."""
    return settle_s if look.content.size else max(settle_s * 4, EMPTY_SETTLE_S)


def decide(
    now: float, seen: SeenFile | None, look: Look, *, settle_s: float
) -> Wait | Take | Ignore:
    """Return whether to take a file that looks like this now and was seen as `seen` before.

    Times in seconds on one monotonic clock. A first or a changed look starts the wait again.
    """
    if not look.regular:
        return Ignore()
    if seen is None or seen.look != look:
        return Wait(now + settle_time_s(look, settle_s))
    due = max(seen.since + settle_time_s(look, settle_s), seen.not_before)
    return Take() if now >= due else Wait(due)
