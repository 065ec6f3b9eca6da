"""How an undo is answered on the control socket: JSON of bounded size."""

from collections.abc import Iterable
from typing import TypedDict, cast

from clew_daemon.record.goal_status import path_view
from clew_shared.snapshots.names import fitting

NAMES_SHOWN = 5_000
BYTES_SHOWN = 1_000_000  # of each list of an answer; and NAMES_SHOWN at most


class NameView(TypedDict, total=False):
    """A name of the workspace, what is done to it, and why it is left.

    `path` is always there, `quoted` where that is another one.
    """

    path: str
    quoted: str
    action: str
    reason: str
    why: str
    bytes: int


class MovedView(TypedDict):
    """Where HEAD of the user's repository was and is, each with `branch` and `commit`."""

    before: dict[str, str]
    now: dict[str, str]
    commits: list[str]


class GitView(TypedDict):
    """What an undo of files leaves to a person to do in git; where HEAD has `moved`, nothing is restored.

    `git_gone`: the repository is not there any more; `staged`: what is staged has changed.
    """

    moved: MovedView | None
    git_gone: bool
    staged: bool


class UndoView(GitView):
    """The answer to `undo`; lists are cut, and their totals count all."""

    id: str
    workspace: str
    scope: str
    subtask: str | None
    plan: str
    done: bool
    resumed: bool
    restored: int
    removed: int  # of those
    gone: list[NameView]
    gone_total: int
    entries: list[NameView]
    entries_total: int
    left: list[NameView]
    left_total: int
    changed: list[NameView]
    failed: list[NameView]
    left_out: int
    left_out_names: list[NameView]
    ended: bool


NOTHING_IN_GIT = GitView(moved=None, git_gone=False, staged=False)


def name_view(name: str, **more: object) -> NameView:
    """Return a quoted name as JSON, with what there is to say of it."""
    return cast("NameView", {**path_view(name), **more})


def cut(names: Iterable[NameView]) -> list[NameView]:
    """Return the first names, as many as fit."""
    return fitting(
        names, lambda name: sum(map(len, map(str, name.values()))), NAMES_SHOWN, BYTES_SHOWN
    )
