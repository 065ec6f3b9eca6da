"""Who changed what, and what undo restores; pure rules over the record (docs/snapshots.md).

A change belongs to the goal if it happened during an action or a check, and to someone else if it happened while
none was running. What is someone else's is never restored, unless a person asks for exactly that.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from clew_shared.snapshots.entries import LEFT_OUT
from clew_shared.snapshots.names import quoted, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from clew_shared.snapshots.entries import Changes, Entry

UNREAD = "?"
"""In place of a git object: a file was not read, because it is too large or not a file, or for lack of time."""

Reason = Literal["shared", "unknown", "later", "left_out", "repository", "commits"]
"""Why a change of the goal is left: someone else changed the file too, clew cannot know whether someone did, it was
changed again afterwards, a snapshot does not have it (or, of a folder, what is in it), it is in a git repository
that was not there before, or in one in which there are other commits now."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot: what differs from the snapshot before it.

    `watched`: the executor that took it has seen everything since the one before. Without that, someone else may have
    changed files unseen.
    """

    seq: int
    changes: Changes
    watched: bool = True


@dataclass(frozen=True, slots=True)
class Acted:
    """What was found changed after an action: `own` by it, with each name's object after it; `foreign` before it.

    `all_own`: there were too many names to list, the rest of what changed is the action's. `all_foreign`: what
    changed before it could not be told, and may be anything. `lost`: it was cut off unseen, so that what is not as an
    action left it may be its doing, or someone else's.
    """

    seq: int
    own: dict[str, str] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    all_own: bool = False
    all_foreign: bool = False
    lost: bool = False


Step = Seen | Acted


@dataclass(frozen=True, slots=True)
class Restored:
    """One entry that undo puts back: `present` is what must be there for it to be replaced by `wanted`."""

    name: str
    present: Entry | None
    wanted: Entry | None

    @property
    def is_folder(self) -> bool:
        """Whether it is, or was, an empty folder and no file."""
        return all(one is None or stat.S_ISDIR(one.mode) for one in (self.present, self.wanted))


@dataclass(frozen=True, slots=True)
class Left:
    """One entry that the goal changed and undo leaves as it is, unless it is asked to overwrite it and can.

    A repository is one entry, by its folder.
    """

    name: str
    reason: Reason
    present: Entry | None
    wanted: Entry | None

    @property
    def can_be_overwritten(self) -> bool:
        """Whether a person can have it overwritten."""
        return self.reason in ("shared", "unknown", "later")

    @property
    def is_gone(self) -> bool:
        """Whether it is gone, and no snapshot has what it was."""
        return self.present is None and self.wanted == LEFT_OUT


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo does, sorted by name."""

    restore: tuple[Restored, ...] = ()
    left: tuple[Left, ...] = ()

    @property
    def overwritten(self) -> tuple[Restored, ...]:
        """What is restored in place of what was left, where a person asks for that."""
        left = (one for one in self.left if one.can_be_overwritten)
        return tuple(Restored(one.name, one.present, one.wanted) for one in left)


@dataclass(slots=True)
class _Span:
    """What is known of the time between two snapshots."""

    own: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    all_own: bool = False
    all_foreign: bool = False
    lost: bool = False

    def take(self, step: Acted) -> None:
        self.own |= step.own
        self.foreign |= step.foreign
        self.all_own |= step.all_own
        self.all_foreign |= step.all_foreign
        self.lost |= step.lost

    def judge(self, file: _File, name: str, now: Entry | None, *, watched: bool) -> None:
        """Take into a file whose the change of this span was."""
        recorded = self.own.get(name)
        there = (now.id or "/",) if now else ("", "/")  # a folder that is not empty is no entry
        explained = recorded in there or (recorded == UNREAD and watched)
        file.own |= recorded is not None or self.all_own or self.lost
        file.unknown |= self.all_foreign or (self.lost and not explained)
        file.unknown |= recorded == UNREAD and not watched
        if not (explained or recorded == UNREAD or self.all_own or self.lost):
            file.foreign = True


@dataclass(slots=True)
class _File:
    """One name between the base and now."""

    base: Entry | None
    end: Entry | None = None
    present: Entry | None = None
    own: bool = False
    foreign: bool = False
    unknown: bool = False
    closed: bool = False  # there is, or was, something in or above it that is in no snapshot

    @property
    def reason(self) -> Reason | None:
        """Why the change of the goal is left, None where it can be restored."""
        if self.closed or LEFT_OUT in (self.base, self.present):
            return "left_out"
        if self.foreign:
            return "shared"
        if self.unknown or self.end == LEFT_OUT:
            return "unknown"
        return None if self.present == self.end else "later"


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
    hidden = {name for name, file in files.items() if LEFT_OUT in (file.base, file.end)}
    kept = (name for name, file in files.items() if file.present == LEFT_OUT)
    holding = {folder for name in kept for folder in folders_above(name)}
    restore, left = [], []
    for name, file in sorted(files.items()):
        if not file.own or file.present == file.base:
            continue
        file.foreign |= name in foreign
        file.closed = bool(hidden) and not hidden.isdisjoint(folders_above(name))
        file.closed |= file.base is None and name in holding
        if reason := file.reason:
            left.append(Left(name, reason, file.present, file.base))
        else:
            restore.append(Restored(name, file.present, file.base))
    return UndoPlan(tuple(restore), tuple(left))


def folders_of_others(steps: Sequence[Step], first: int) -> set[str]:
    """Return names that include all folders which someone else made after snapshot `first`."""
    found: set[str] = set()
    span = _Span()
    for step in _after(steps, first):
        if isinstance(step, Acted):
            span.take(step)
            found |= step.foreign
            found -= {name for name, now in step.own.items() if not now}
            continue
        if not (span.all_own or span.lost):
            seen = {name for name, (_, now) in step.changes.items() if now and not now.id}
            found |= seen - span.own.keys()
        span = _Span()
    return found


def above_removed(entries: Iterable[Restored | Left], folders: AbstractSet[str]) -> tuple[str, ...]:
    """Return of each entry that is removed the deepest folder above it among `folders`, all sorted."""
    removed = (one.name for one in entries if one.wanted is None)
    found = (next((f for f in folders_above(name) if f in folders), "") for name in removed)
    return tuple(sorted(set(found) - {""}))


def own_changes(steps: Sequence[Step], first: int) -> Changes:
    """Return what the goal changed from snapshot `first` to the last one; `steps` as in `plan`."""
    found = plan(steps, first)
    changed: list[Restored | Left] = [*found.restore, *found.left]
    return {one.name: (one.wanted, one.present) for one in changed}


def folders_above(name: str) -> Iterator[str]:
    """Yield the folders above a quoted name, quoted, the deepest first."""
    path = unquoted(name)
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield quoted(path)


def _after(steps: Iterable[Step], first: int) -> Iterable[Step]:
    return (step for step in steps if step.seq > first)


def _see(files: dict[str, _File], span: _Span, step: Seen, *, inside: bool) -> None:
    """Take in a snapshot: what changed since the one before, and whose that was."""
    for name in span.own.keys() - step.changes.keys() if inside else ():
        if known := files.get(
            name
        ):  # changed back to what it was; by someone else, if not as the goal left it
            span.judge(known, name, known.present, watched=step.watched)
    for name, (was, now) in step.changes.items():
        file = files.setdefault(name, _File(base=was, end=was))
        file.present = now
        if inside:
            file.end = now
            span.judge(file, name, now, watched=step.watched)
