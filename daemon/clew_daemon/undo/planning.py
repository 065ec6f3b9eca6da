"""What an undo, a diff or an attempt's restore is about, from a goal's record and its store: it changes nothing.

An undo is of a goal, of one of its subtasks, or of the undo before it; between which snapshots it lies is a pure
question. Where a goal's store was removed, only the snapshots taken since count.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from clew_daemon.undo.view import NOTHING_IN_GIT, GitView
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.model import StepStatus
from clew_shared.record.snapshot_events import GitPlace, LeftOut, SnapshotTaken, UndoFinished
from clew_shared.record.state import State
from clew_shared.snapshots.entries import Entry, Reverted
from clew_shared.snapshots.names import folders_above, quoted, unquoted
from clew_shared.snapshots.plan import PLAN_S, Listed, UndoPlan, listed, plan
from clew_shared.snapshots.store import SnapshotStore, StoreError, StoreSlowError

Rows = Sequence[tuple[int, ev.Event]]
Place = tuple[int, int]
"""The index of a task and that of a subtask in it: what its number shows, as of one moment."""
Subtask = tuple[int, str, int]
"""Its task's index, its description, and how many before it in the task have the same: plans change its number."""

_TREE = (
    *(ev.GoalAccepted, ev.GoalRequeued, ev.Planned, ev.TreeEdited, ev.GoalEnded, ev.Escalated),
    *(ev.SubtaskStarted, ev.SubtaskFailed, ev.SubtaskEnded, ev.FinishRefused, ev.ProofRefused),
)


class UndoRefused(Exception):
    """It is not known what a goal or a subtask changed, or it changed nothing; the text says why."""


class NothingDone(UndoRefused):
    """A subtask has carried out no action."""


@dataclass(frozen=True, slots=True)
class Span:
    """From snapshot number `first` to number `last`, or to the present where that is None.

    `subtask` is the one that it is of, if of one, which is at `place`.
    """

    scope: Literal["goal", "subtask", "undo", "attempt"]
    first: int
    last: int | None = None
    place: Place = (0, 0)
    subtask: Subtask | None = None


def of_undo(started: ev.UndoStarted) -> Span:
    """Return the span that an undo on record reverts."""
    place = (started.task_idx, started.subtask_idx)
    return Span(started.scope, started.first, started.last, place)


class Spans:
    """The spans of one goal; `rows` are all its events, oldest first."""

    def __init__(self, rows: Iterable[tuple[int, ev.Event]]) -> None:
        self._state = State()
        self._snapshots: list[tuple[int, Subtask | None]] = []  # each with the subtask under way
        self._reopened = 0
        self._acting: dict[int, Subtask] = {}  # the subtasks of actions that were allowed
        self._acted: dict[Subtask, tuple[int, int]] = {}  # the snapshot before; the last end
        self._undone: tuple[Span, int] | None = None  # of what, and the snapshot before
        self._undos: list[tuple[Span, Span]] = []  # those in force: of what, and what reverts it
        for seq, event in rows:
            if isinstance(event, _TREE):
                apply(self._state, event, seq)
            self._take(seq, event)

    def _take(self, seq: int, event: ev.Event) -> None:
        match event:
            case ev.GoalRequeued(reopen=True):
                self._reopened = seq
            case ev.ActionAllowed() | ev.ActionBlocked(done=True) if current := self._current():
                self._acting[seq] = current
            case ev.ActionFinished() | ev.ActionInterrupted():
                self._end(seq, event.of)
            case ev.UndoStarted():
                of = of_undo(event)
                of = replace(of, subtask=self._at(of.place)) if of.scope == "subtask" else of
                self._undone = of, self._before
            case ev.UndoFinished(restored=0):
                self._undone = None
            case ev.SnapshotTaken():
                self._end(seq, *event.cut_off)  # it shows what they did
                self._snapshots.append((seq, self._current()))
                self._end_undo(seq)
            case ev.SnapshotsMissing(removed=True):
                self._acted = {one: (0, end) for one, (_, end) in self._acted.items()}
                self._snapshots, self._undos, self._undone = [], [], None
            case _:
                pass

    @property
    def _before(self) -> int:
        """The last snapshot, 0 for none: an action waits for one that is due."""
        return self._snapshots[-1][0] if self._snapshots else 0

    def _end(self, seq: int, *actions: int) -> None:
        for subtask in (self._acting.pop(one) for one in actions if one in self._acting):
            self._acted[subtask] = self._acted.get(subtask, (self._before, 0))[0], seq

    def _end_undo(self, seq: int) -> None:
        if self._undone:
            (of, before), self._undone = self._undone, None
            if of.scope == "undo":
                self._undos = [one for one in self._undos if one[1].first != of.first]
            elif of.scope != "attempt":
                self._undos.append((of, Span("undo", before, seq)))

    def _at(self, place: Place) -> Subtask | None:
        task, number = place
        tasks = self._state.goal.tasks
        known = [one.description for one in tasks[task].subtasks] if task < len(tasks) else []
        if number >= len(known):
            return None
        return task, known[number], known[:number].count(known[number])

    def _current(self) -> Subtask | None:
        subtask = self._state.subtask
        if subtask is None or self._state.ended or subtask.status != StepStatus.IN_PROGRESS:
            return None
        return self._at(self._state.place)

    def of(self, place: Place | None) -> Span:
        """Return the span of the whole goal, or of the subtask that is now at a place: of all its tries.

        Raises UndoRefused where it did nothing, or there is no snapshot from before.
        """
        if not self._snapshots:
            raise UndoRefused("there is no snapshot")
        if place is None:
            return Span("goal", self._snapshots[0][0])
        this = self._at(place)
        if this is None or this not in self._acted:
            raise NothingDone("that subtask has carried out no action")
        first, end = self._acted[this]
        last = next((one for one, of in self._snapshots if one >= end and of != this), None)
        if not first:
            raise UndoRefused("there is no snapshot from before the first action of that subtask")
        return Span("subtask", first, last, place, this)

    def of_attempts(self, place: Place) -> Span:
        """Return the span of all attempts at the subtask that is at a place, up to the present; raises as `of`.

        Where a person has reopened the goal, what they saw then is where it begins.
        """
        span = self.of(place)
        seen = next((one for one, _ in self._snapshots if one > self._reopened), self._before)
        return replace(span, scope="attempt", first=max(span.first, seen), last=None)

    def undo_in_force(self, of: Span) -> Span | None:
        """Return the last undo of the goal or the subtask of `of` that restored something and was not reverted."""
        same = (of.scope, of.subtask)
        reverse = (back for one, back in reversed(self._undos) if (one.scope, one.subtask) == same)
        return next(reverse, None)


_FOLDER = Entry(stat.S_IFDIR | 0o755, "")


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo would do, or has done (`finished`).

    `first` is the snapshot that is gone back to and `present` the last one: without them nothing was planned, because
    an undo that had been cut off was completed instead. `digest` is of what would be restored and left, for comparison
    with an earlier plan. `gone` is in no snapshot. `failed` has why names could not be restored, "" where they were
    changed meanwhile: they are left as they are. `removed` counts the files that were restored by being removed.
    """

    span: Span
    plan: UndoPlan = field(default_factory=UndoPlan)
    first: SnapshotTaken | None = None
    present: SnapshotTaken | None = None
    digest: str = ""
    git: GitView = field(default_factory=NOTHING_IN_GIT.copy)
    gone: tuple[LeftOut, ...] = ()
    finished: UndoFinished | None = None
    failed: dict[str, str] = field(default_factory=dict)
    removed: int = 0

    @property
    def git_before(self) -> GitPlace | None:
        """Where the user's repository stood then."""
        return self.first.git if self.first else None


def planned_undo(store: SnapshotStore, rows: Rows, subtask: Place | None) -> UndoResult:
    """Plan an undo from all events of a goal; where nothing is left to undo, the reversal of the last one.

    The last event is the snapshot of the present. Raises UndoRefused, StoreError; each in bounded time.
    """
    spans, list_of = Spans(rows), listed(store.within(PLAN_S))
    try:
        span = spans.of(subtask)
    except UndoRefused as error:
        more = "; without a subtask, the whole goal is undone" if subtask else ""
        raise UndoRefused(f"{error}{more}") from None
    found = planned(rows, list_of, span)
    undo = spans.undo_in_force(span)
    if found.plan.restore or undo is None or _is_newer(rows, list_of, found, undo):
        return found
    back = planned(rows, list_of, undo)
    return back if back.plan.restore else found


def _is_newer(rows: Rows, list_of: Listed, found: UndoResult, undo: Span) -> bool:
    """Return whether the goal has worked since an undo, and something is left that was not in question then."""
    ends, last = ev.ActionFinished | ev.ActionInterrupted, undo.last or 0
    if not any(seq > last and isinstance(event, ends) for seq, event in rows):
        return False
    then = planned([row for row in rows if row[0] <= last], list_of, replace(found.span, last=None))
    return not {one.name for one in then.plan.entries}.issuperset(
        one.name for one in found.plan.left
    )


def planned(rows: Rows, list_of: Listed, span: Span) -> UndoResult:
    """Plan how the workspace is put back to where a span begins; raises StoreError."""
    taken = {seq: event for seq, event in rows if isinstance(event, SnapshotTaken)}
    try:
        found = _sparing_repositories(plan(rows, list_of, span.first, span.last))
    except StoreSlowError:
        why = f"nothing was restored: reading the snapshots took more than {PLAN_S:.0f} s"
        raise StoreError(why) from None
    digest = hashlib.blake2b(repr((span, found.entries)).encode(), digest_size=16).hexdigest()
    return UndoResult(span, found, taken[span.first], taken[max(taken)], digest)


def _sparing_repositories(found: UndoPlan) -> UndoPlan:
    """Return a plan that removes no git repository, as one without a work tree, or a `.git` that was renamed."""
    removed = {one.name for one in found.entries if one.wanted is None}
    paths = set(map(unquoted, removed.union(*map(folders_above, removed))))
    heads = {path.removesuffix(b"/HEAD") for path in paths if path.endswith(b"/HEAD")}
    stay = {quoted(one) for one in heads if one + b"/objects" in paths}
    kept: dict[str, Reverted] = {}
    for one in found.entries:
        where = next((folder for folder in folders_above(one.name) if folder in stay), "")
        if where and one.wanted is None:
            kept[where] = Reverted(where, _FOLDER, None, "repository")
        else:
            kept[one.name] = one
    return replace(found, entries=tuple(kept[name] for name in sorted(kept)))


def gone(found: UndoResult, workspace: str) -> tuple[LeftOut, ...]:
    """Return what is not there any more and in no snapshot: by the goal, or ignored and by anyone; it blocks."""
    if found.first is None:
        return ()
    known = {one.path: one for one in found.first.left_out}
    ignored = (
        LeftOut(path=name, why="ignored")
        for name in (found.first.ignored if found.span.scope == "goal" else ())
        if not os.path.lexists(Path(workspace) / os.fsdecode(unquoted(name)))
    )
    unknown = (known.get(one.name, LeftOut(path=one.name, why="")) for one in found.plan.gone)
    return *unknown, *ignored


def restoration(found: UndoPlan) -> tuple[Reverted, ...]:
    """Return what is restored, in an order in which places are free.

    First removals, then the folders that may be empty then, the deepest first, then what comes back.
    """
    removed = [one for one in found.restore if one.wanted is None]
    emptied = {folder for one in removed for folder in folders_above(one.name)} - found.kept
    folders = [Reverted(name, _FOLDER, None) for name in sorted(emptied, key=len, reverse=True)]
    return *removed, *folders, *(one for one in found.restore if one.wanted is not None)


def packed(work: Iterable[Reverted]) -> bytes:
    """Return a restoration as it is recorded."""
    # an earlier version had a tree in the first place, and more after the entries
    return json.dumps(["", [[one.name, one.present, one.wanted] for one in work]]).encode()


def unpacked(body: bytes | None) -> tuple[Reverted, ...]:
    """Return the restoration that is on record; raises StoreError where that is missing or damaged."""
    try:
        _, entries, *_ = json.loads(body or b"")
        found = (
            Reverted(n, was and Entry(*was), then and Entry(*then)) for n, was, then in entries
        )
        # an earlier version brought empty folders back
        return tuple(one for one in found if not (one.wanted and stat.S_ISDIR(one.wanted.mode)))
    except (ValueError, TypeError) as error:
        why = "the record of what the undo restores is missing or damaged"
        raise StoreError(f"{why}: {error}") from None
