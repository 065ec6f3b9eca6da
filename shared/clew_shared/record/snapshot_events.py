"""The events of snapshots and undo (docs/snapshots.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, field_validator

from clew_shared.record.events import GoalEvent
from clew_shared.record.identity import Identity  # noqa: TC001 - pydantic reads it
from clew_shared.record.touched import Touched
from clew_shared.text.plain import branch_name, commit_name

LEFT_OUT_MAX = 100
"""How many names an event lists that are not in a snapshot."""

IGNORED_MAX = 200
"""How many ignored names the first snapshot lists."""

STAGED_MAX = 20
"""How many names an event lists that are staged in git."""

INNER_MAX = 100
"""In how many repositories below the workspace a snapshot looks where they stand."""

SnapshotMoment = Literal["goal", "worker", "subtask", "end", "large", "undo", "undone"]


class LeftOut(BaseModel, frozen=True, extra="ignore"):
    """A name that is not in a snapshot, and why: `large`, `unreadable`, `changing`, or what kind of file it is.

    `bytes` is the size of a large one, 0 where it is not known.
    """

    path: str
    why: str
    bytes: int = 0


class ChangeCount(BaseModel, frozen=True, extra="ignore"):
    """How many files differ from the goal's first snapshot, and by how many lines of text."""

    files: int = 0
    added: int = 0
    removed: int = 0


class GitPlace(BaseModel, frozen=True, extra="ignore"):
    """Where the user's repository in the workspace stands: the branch and commit of HEAD, a digest of the index.

    `stash` is the commit of the newest stash, None where it is not known; `staged` are some of the `staged_total`
    quoted names whose index entry is not as in HEAD, -1 where that is not known. The repository may state any text as
    these: what could be no branch or no commit is "".
    """

    branch: str = ""
    commit: str = ""
    index: str = ""
    stash: str | None = None
    staged: tuple[str, ...] = ()
    staged_total: int = -1

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
    """A snapshot of the workspace is in the goal's store.

    `moment`: the goal began, a worker started, a subtask began or ended, the worker ended, an action changed too many
    files to list, before an undo, after it. `touched`: what was changed since the last action, by a check or by
    someone else. `cut_off` are the actions that the end of the worker has just cut off: what they did is in it.
    `inner` has the commits of the repositories below the workspace by quoted path, None where it was not looked.
    `ignored` are quoted names that git ignores, of the first snapshot only; folders have a slash, and stand for all in
    them.
    """

    kind: Literal["snapshot_taken"] = "snapshot_taken"
    tree: str
    files: int = 0
    bytes: int = 0
    left_out: tuple[LeftOut, ...] = ()
    left_out_total: int = 0
    moment: SnapshotMoment = "subtask"
    changed: ChangeCount = ChangeCount()
    touched: Touched = Touched()
    git: GitPlace | None = None
    inner: dict[str, str] | None = None
    ignored: tuple[str, ...] = ()
    cut_off: tuple[int, ...] = ()


class SnapshotsMissing(GoalEvent, frozen=True):
    """No snapshot can be taken for this reason; recorded once for each reason.

    `removed`: the goal's store is gone with all earlier snapshots, for this reason; the next snapshot is a first one.
    """

    kind: Literal["snapshots_missing"] = "snapshots_missing"
    reason: str
    removed: bool = False


class UndoStarted(GoalEvent, frozen=True):
    """An undo is about to restore entries; what it restores is stored with this event.

    `scope` is what it reverts: `goal`, `subtask`, `undo`, the undo before it, or `attempt`: clew itself puts the
    workspace back to where the subtask began. `first` and `last` are the numbers of the snapshots whose difference is
    reverted. `workspace` is the folder in which it does so.
    """

    kind: Literal["undo_started"] = "undo_started"
    scope: Literal["goal", "subtask", "undo", "attempt"]
    task_idx: int = 0
    subtask_idx: int = 0
    first: int
    last: int | None = None
    entries: int = 0
    theirs: bool = False
    workspace: Identity | None = None


class UndoFinished(GoalEvent, frozen=True):
    """The undo that event `of` began is complete.

    `own` are the names that it restored, with their objects; the entries of `left` had changed meanwhile, or could not
    be restored. `folders` of the `restored` ones are folders.
    """

    kind: Literal["undo_finished"] = "undo_finished"
    of: int
    restored: int = 0
    folders: int = 0
    own: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    left_total: int = 0
    resumed: bool = False
