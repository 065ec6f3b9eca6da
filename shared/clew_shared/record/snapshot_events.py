"""The events of snapshots and undo (docs/snapshots.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, field_validator

from clew_shared.record.identity import Identity
from clew_shared.record.life_events import GoalEvent
from clew_shared.record.touched import Touched
from clew_shared.text.plain import branch_name, commit_name

LEFT_OUT_MAX = 100
"""How many names an event lists that are not in a snapshot."""

SnapshotMoment = Literal["goal", "worker", "subtask", "end", "large", "undo", "undone"]
"""The goal began, a worker started, a subtask began or ended, the worker ended, an action changed too many files to
list, before an undo, after it."""


class LeftOut(BaseModel, frozen=True, extra="ignore"):
    """A name that is not in a snapshot, and why: `large`, `unreadable`, `changing`, or what kind of file it is."""

    path: str
    why: str
    bytes: int = 0  # of a large one, 0 where it is not known


class ChangeCount(BaseModel, frozen=True, extra="ignore"):
    """How many files differ from the goal's first snapshot, and by how many lines of text."""

    files: int = 0
    added: int = 0
    removed: int = 0


class GitPlace(BaseModel, frozen=True, extra="ignore"):
    """Where the user's repository in the workspace stands.

    The repository may state any text as these: what could be no branch or no commit is "".
    """

    branch: str = ""
    commit: str = ""  # of HEAD
    index: str = ""  # its digest
    stash: str | None = None  # the commit of the newest stash, None where it is not known
    staged: tuple[str, ...] = ()  # some quoted names whose index entry is not as in HEAD
    staged_total: int = -1  # of these, -1 where that is not known

    def has_moved_to(self, now: GitPlace) -> bool:
        """Return whether HEAD is elsewhere now; the index is its user's to arrange."""
        return (self.branch, self.commit) != (now.branch, now.commit)

    @field_validator("branch")
    @classmethod
    def _only_a_branch(cls, text: str) -> str:
        return branch_name(text)

    @field_validator("commit")
    @classmethod
    def _only_a_commit(cls, text: str) -> str:
        return commit_name(text)


class SnapshotTaken(GoalEvent, frozen=True):
    """A snapshot of the workspace is in the goal's store."""

    tree: str
    files: int = 0
    bytes: int = 0
    left_out: tuple[LeftOut, ...] = ()
    left_out_total: int = 0
    moment: SnapshotMoment = "subtask"
    changed: ChangeCount = ChangeCount()
    touched: Touched = Touched()  # since the last action, by a check or by someone else
    git: GitPlace | None = None
    inner: dict[str, str] | None = None  # the commit of each repository below, by its quoted folder
    ignored: tuple[str, ...] = ()  # some quoted names that git ignores; of the first snapshot only
    cut_off: tuple[
        int, ...
    ] = ()  # actions that the end of the worker cut off: it has what they did


class SnapshotsMissing(GoalEvent, frozen=True):
    """No snapshot can be taken for this reason; recorded once for each reason."""

    reason: str
    removed: bool = False  # the store is gone with all earlier snapshots: the next is a first one


class UndoStarted(GoalEvent, frozen=True):
    """An undo is about to restore entries; what it restores is stored with this event."""

    # what it reverts; `undo`: the undo before it, `attempt`: clew itself puts the workspace back
    scope: Literal["goal", "subtask", "undo", "attempt"]
    task_idx: int = 0
    subtask_idx: int = 0
    first: int  # the snapshots whose difference is reverted, by number
    last: int | None = None
    entries: int = 0
    theirs: bool = False
    workspace: Identity | None = None


class UndoFinished(GoalEvent, frozen=True):
    """The undo that event `of` began is complete."""

    of: int
    restored: int = 0
    folders: int = 0  # of the restored ones
    own: tuple[tuple[str, str], ...] = ()  # the names that it restored, with their objects
    left: tuple[str, ...] = ()  # what had changed meanwhile, or could not be restored
    left_total: int = 0
    resumed: bool = False
