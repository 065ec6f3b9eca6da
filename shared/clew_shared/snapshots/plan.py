"""Who changed what, and what undo restores; pure rules over the record (docs/snapshots.md).

A name is the goal's if it was changed during an action or a check, and someone else's if it was changed while none was
running. What is someone else's is never restored, unless a person asks for exactly that. Contents are compared only
where no executor has watched, or not all names are on record.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
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
    """A snapshot, by its tree.

    `watched`: the executor that took it has seen everything since the one before. Without that, someone else may have
    changed files unseen.
    """

    seq: int
    tree: str
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
Between = Callable[[str, str], "Changes"]
"""Returns what differs between the trees of two snapshots."""


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
class _Names:
    """Whose the names are that were changed after a snapshot; `others`: as `folders_of_others`.

    The goal's, someone else's, and those of which it is not known.
    """

    between: Between
    base: str
    own: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)

    def take(self, acts: list[Acted], before: Seen, seen: Seen, *, inside: bool) -> None:
        """Take in the time between two snapshots; `inside`: it is part of what is undone."""
        one = _Names(self.between, self.base)
        own: dict[str, str] = {}
        for act in acts:
            own |= act.own
            one.foreign |= act.foreign
            self.others |= act.foreign
            self.others -= {name for name, now in act.own.items() if not now}
        one.own |= own.keys()
        all_own = any(act.all_own or act.lost for act in acts)
        if all_own or not seen.watched or any(act.all_foreign for act in acts):
            one.compare(acts, own, self.between(before.tree, seen.tree), seen)
        self.others |= one.others
        if inside:
            self.own |= one.own
            self.foreign |= one.foreign
            self.unknown |= one.unknown

    def compare(self, acts: list[Acted], own: dict[str, str], found: Changes, seen: Seen) -> None:
        """Take in what was found changed, where not all names are on record; `own`: each name's object after it."""
        lost = any(act.lost for act in acts)
        all_own = any(act.all_own for act in acts)
        all_foreign = any(act.all_foreign for act in acts)
        for name, (_, now) in found.items():
            said = own.get(name)
            as_said = said is not None and (seen.watched or _is_left_so(said, now))
            if lost or all_own:
                self.own.add(name)
            elif not as_said and said != UNREAD:
                self.foreign.add(name)
                if now and not now.id and said is None:
                    self.others.add(name)
            if all_foreign or (not as_said and (lost or said == UNREAD)):
                self.unknown.add(name)
        if not seen.watched and (back := own.keys() - found.keys()):  # changed, and changed back
            since = self.between(self.base, seen.tree)
            there = (name for name in back if name in since and own[name] != UNREAD)
            self.foreign |= {name for name in there if not _is_left_so(own[name], since[name][1])}


def _is_left_so(recorded: str, now: Entry | None) -> bool:
    """Return whether an entry is as it was recorded; a folder that is not empty is no entry."""
    return recorded in ((now.id or "/",) if now else ("", "/"))


def plan(steps: Sequence[Step], between: Between, first: int, last: int | None = None) -> UndoPlan:
    """Return what undoing the goal's changes after snapshot `first` does; `last`: only those up to that snapshot.

    `steps` are in the order of the record and reach to the present: its last is the snapshot taken now. `first` and
    `last` are the numbers of snapshots among them.
    """
    names = _names(steps, between, first, last)
    seen = {step.seq: step.tree for step in steps if isinstance(step, Seen)}
    changed = between(seen[first], seen[max(seen)])
    ended = changed if last is None else between(seen[first], seen[last])
    sides = [(name, side) for found in (changed, ended) for name, side in found.items()]
    hidden = {name for name, (was, _) in sides if was == LEFT_OUT}
    hidden |= {name for name, (_, end) in ended.items() if end == LEFT_OUT}
    kept = (name for name, (_, now) in changed.items() if now == LEFT_OUT)
    holding = {folder for name in kept for folder in folders_above(name)}
    restore, left = [], []
    for name in sorted(changed.keys() & names.own):
        was, now = changed[name]
        end = ended[name][1] if name in ended else was
        closed = bool(hidden) and not hidden.isdisjoint(folders_above(name))
        closed |= was is None and name in holding
        if closed or LEFT_OUT in (was, now):
            left.append(Left(name, "left_out", now, was))
        elif name in names.foreign:
            left.append(Left(name, "shared", now, was))
        elif name in names.unknown or end == LEFT_OUT:
            left.append(Left(name, "unknown", now, was))
        elif now != end:
            left.append(Left(name, "later", now, was))
        else:
            restore.append(Restored(name, now, was))
    return UndoPlan(tuple(restore), tuple(left))


def _names(steps: Iterable[Step], between: Between, first: int, last: int | None = None) -> _Names:
    found = _Names(between, "")
    acts: list[Acted] = []
    before: Seen | None = None
    for step in steps:
        if isinstance(step, Acted):
            acts.append(step)
            continue
        if step.seq == first:
            found.base = step.tree
        elif before and before.seq >= first:
            found.take(acts, before, step, inside=last is None or step.seq <= last)
        before, acts = step, []
    return found


def folders_of_others(steps: Sequence[Step], between: Between, first: int) -> set[str]:
    """Return names that include all folders which someone else made after snapshot `first`."""
    return _names(steps, between, first).others


def above_removed(entries: Iterable[Restored | Left], folders: AbstractSet[str]) -> tuple[str, ...]:
    """Return of each entry that is removed the deepest folder above it among `folders`, all sorted."""
    removed = (one.name for one in entries if one.wanted is None)
    found = (next((f for f in folders_above(name) if f in folders), "") for name in removed)
    return tuple(sorted(set(found) - {""}))


def own_changes(steps: Sequence[Step], between: Between, first: int) -> Changes:
    """Return what the goal changed from snapshot `first` to the last one; `steps` as in `plan`."""
    found = plan(steps, between, first)
    changed: list[Restored | Left] = [*found.restore, *found.left]
    return {one.name: (one.wanted, one.present) for one in changed}


def folders_above(name: str) -> Iterator[str]:
    """Yield the folders above a quoted name, quoted, the deepest first."""
    path = unquoted(name)
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield quoted(path)
