"""Who changed what, and what undo restores; pure rules over the record (docs/snapshots.md).

A change belongs to the goal if it happened during an action or a check, and to someone else if it happened while
none was running. What is someone else's is never restored, unless a person asks for exactly that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clew_shared.snapshots.entries import Changes, Entry

Reason = Literal["shared", "later"]
"""Why a change of the goal is left: someone else changed the file too, or it was changed again afterwards."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot: what differs from the snapshot before it."""

    seq: int
    changes: Changes


@dataclass(frozen=True, slots=True)
class Acted:
    """What was found changed after an action: `own` by it, with each name's object after it; `foreign` before it.

    `all_own`: there were too many names to list, the rest of what changed is the action's. `all_foreign`: what
    changed before it could not be told, and may be anything.
    """

    seq: int
    own: dict[str, str] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    all_own: bool = False
    all_foreign: bool = False


Step = Seen | Acted


@dataclass(frozen=True, slots=True)
class Restored:
    """One entry that undo puts back: `present` is what must be there for it to be replaced by `wanted`."""

    name: str
    present: Entry | None
    wanted: Entry | None


@dataclass(frozen=True, slots=True)
class Left:
    """One entry that the goal changed and undo leaves as it is, unless it is asked to overwrite it."""

    name: str
    reason: Reason
    present: Entry | None
    wanted: Entry | None


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo does, sorted by name."""

    restore: tuple[Restored, ...] = ()
    left: tuple[Left, ...] = ()


@dataclass(slots=True)
class _Span:
    """What is known of the time between two snapshots."""

    own: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    all_own: bool = False
    all_foreign: bool = False

    def take(self, step: Acted) -> None:
        self.own |= step.own
        self.foreign |= step.foreign
        self.all_own |= step.all_own
        self.all_foreign |= step.all_foreign

    def is_own(self, name: str, now: Entry | None) -> bool:
        """Return whether the goal has made a file what it is at the end of the span."""
        if name not in self.own or self.all_own:
            return self.all_own
        there = (now.id or "/",) if now else ("", "/")  # a folder that is not empty is no entry
        return self.own[name] in (*there, "?")  # "?": it was not read, too large, or not a file


@dataclass(slots=True)
class _File:
    """One name between the base and now."""

    base: Entry | None
    end: Entry | None = None
    present: Entry | None = None
    own: bool = False
    foreign: bool = False


def plan(steps: Sequence[Step], first: int, last: int | None = None) -> UndoPlan:
    """Return what undoing the goal's changes after snapshot `first` does; `last`: only those up to that snapshot.

    `steps` are in the order of the record and reach to the present: its last is the snapshot taken now. `first` and
    `last` are the numbers of snapshots among them.
    """
    files: dict[str, _File] = {}
    foreign: set[str] = set()
    span = _Span()
    for step in _after(steps, first):
        if isinstance(step, Acted):
            span.take(step)
            continue
        inside = last is None or step.seq <= last
        _see(files, span, step, inside=inside)
        foreign |= span.foreign if inside else set()
        span = _Span()
    restore, left = [], []
    for name, file in sorted(files.items()):
        if not file.own or file.present == file.base:
            continue
        shared = file.foreign or name in foreign
        if shared or file.present != file.end:
            reason: Reason = "shared" if shared else "later"
            left.append(Left(name, reason, file.present, file.base))
        else:
            restore.append(Restored(name, file.present, file.base))
    return UndoPlan(tuple(restore), tuple(left))


def own_changes(steps: Sequence[Step], first: int, last: int | None = None) -> Changes:
    """Return what the goal changed from snapshot `first` to `last`, or to the last one."""
    found = plan([s for s in steps if last is None or s.seq <= last], first)
    changed: list[Restored | Left] = [*found.restore, *found.left]
    return {one.name: (one.wanted, one.present) for one in changed}


def _after(steps: Iterable[Step], first: int) -> Iterable[Step]:
    return (step for step in steps if step.seq > first)


def _see(files: dict[str, _File], span: _Span, step: Seen, *, inside: bool) -> None:
    """Take in a snapshot: what changed since the one before, and whose that was."""
    for name in span.own.keys() - step.changes.keys() if inside else ():
        if (known := files.get(name)) and not span.is_own(name, known.present):
            known.foreign = True  # someone else has changed it back to what it was
    for name, (was, now) in step.changes.items():
        file = files.setdefault(name, _File(base=was, end=was))
        file.present = now
        if inside:
            own = span.is_own(name, now)
            file.end = now
            file.own |= own
            file.foreign |= not own or span.all_foreign
