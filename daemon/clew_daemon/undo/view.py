"""An undo: what it would do or has done, and how that is answered on the control socket, in JSON of bounded size."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict, cast

from clew_daemon.undo.scope import Span
from clew_shared.record.snapshot_events import GitPlace, LeftOut, SnapshotTaken, UndoFinished
from clew_shared.record.state import State
from clew_shared.snapshots.entries import Reverted
from clew_shared.snapshots.names import fitting
from clew_shared.snapshots.plan import UndoPlan
from clew_shared.text.redact import redact
from clew_shared.views.publish import path_view
from clew_shared.wire.executor import FINAL_FAULTS, NOT_EMPTY

NAMES_SHOWN = 5_000
BYTES_SHOWN = 1_000_000
"""How many names each list of an answer has at most, and how long they may be together."""


class NameView(TypedDict, total=False):
    """A name of the workspace, what is done to it, why it is left, and whether no option overwrites it (`stays`).

    `path` is always there, `quoted` where that is another one.
    """

    path: str
    quoted: str
    action: str
    reason: str
    why: str
    folder: bool
    stays: bool
    bytes: int


class MovedView(TypedDict):
    """Where HEAD of the user's repository was and is, each with `branch` and `commit`."""

    before: dict[str, str]
    now: dict[str, str]
    commits: list[str]


class GitView(TypedDict):
    """What an undo of files leaves to a person to do in git; where HEAD has `moved`, nothing is restored.

    `git_gone`: the repository is not there any more, and may have been renamed (`git_found`); `git_made`: there was
    none. `stashes` are new, and `lost_stash` is the commit of one that is not in the list any more.
    """

    moved: MovedView | None
    git_gone: bool
    git_found: list[NameView]
    git_made: bool
    staged: bool
    stashes: list[str]
    lost_stash: str


class UndoView(GitView):
    """The answer to `undo`; lists are cut, and their totals count all."""

    id: str
    workspace: str
    scope: str
    subtask: str | None
    plan: str
    done: bool
    resumed: bool
    overwritten: bool
    restored: int
    folders: int
    gone: list[NameView]
    gone_total: int
    entries: list[NameView]
    entries_total: int
    entries_files: int
    left: list[NameView]
    left_total: int
    theirs_total: int
    changed: list[NameView]
    failed: list[NameView]
    can_retry: bool
    left_out: int
    left_out_names: list[NameView]
    ended: bool


NOTHING_IN_GIT = GitView(
    moved=None,
    git_gone=False,
    git_found=[],
    git_made=False,
    staged=False,
    stashes=[],
    lost_stash="",
)


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo would do, or has done (`finished`).

    `first` is the snapshot that is gone back to and `present` the last one: without them nothing was planned, because
    an undo that had been cut off was completed instead. `digest` is of what would be restored and left, for comparison
    with an earlier plan. `gone` is in no snapshot. `overwritten`: what was left to others was restored, too. `failed`
    has why names could not be restored, "" where they were changed meanwhile: they are left as they are.
    """

    span: Span
    plan: UndoPlan = field(default_factory=UndoPlan)
    first: SnapshotTaken | None = None
    present: SnapshotTaken | None = None
    digest: str = ""
    git: GitView = field(default_factory=NOTHING_IN_GIT.copy)
    gone: tuple[LeftOut, ...] = ()
    overwritten: bool = False
    finished: UndoFinished | None = None
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def git_before(self) -> GitPlace | None:
        """Where the user's repository stood then."""
        return self.first.git if self.first else None


def undo_view(state: State, result: UndoResult) -> UndoView:
    """Return an undo as JSON."""
    span, plan, left_out = result.span, result.plan, result.present or SnapshotTaken(tree="")
    is_subtask = span.scope == "subtask"
    finished = result.finished or UndoFinished(of=0)
    failed = {name: why for name, why in result.failed.items() if why}
    changed = [name for name, why in result.failed.items() if not why]
    return {
        "id": state.goal_id,
        "workspace": state.spec.workspace,
        "scope": span.scope,
        "subtask": f"{span.place[0] + 1}.{span.place[1] + 1}" if is_subtask else None,
        "plan": result.digest,
        "done": result.finished is not None,
        "resumed": finished.resumed,
        "overwritten": result.overwritten,
        "restored": finished.restored - finished.folders,
        "folders": finished.folders,
        "gone": cut(name_view(one.path, why=one.why, bytes=one.bytes) for one in result.gone),
        "gone_total": len(result.gone),
        "entries": cut(map(_entry, plan.restore)),
        "entries_total": len(plan.restore),
        "entries_files": sum(not one.is_folder for one in plan.restore),
        "left": cut(map(_entry, plan.left)),
        "left_total": len(plan.left),
        "theirs_total": len(plan.overwritten),
        "changed": cut(map(name_view, changed)),
        "failed": cut(_failed(name, why) for name, why in failed.items()),
        "can_retry": any(why not in FINAL_FAULTS for why in failed.values()),
        "left_out": left_out.left_out_total,
        "left_out_names": [name_view(one.path, why=one.why) for one in left_out.left_out[:10]],
        "ended": state.ended,
        **result.git,
    }


def _entry(one: Reverted) -> NameView:
    action = "create" if one.present is None else "restore"
    more: NameView = {"action": action if one.wanted else "remove"}
    if one.reason:
        more["reason"] = one.reason
        more |= {} if one.can_be_overwritten else {"stays": True}
    elif one.is_folder:
        more["folder"] = True
    return name_view(one.name, **more)


def _failed(name: str, why: str) -> NameView:
    stays = {"stays": True} if why == NOT_EMPTY else {}
    return name_view(name, reason=redact(why), **stays)


def name_view(name: str, **more: object) -> NameView:
    """Return a quoted name as JSON, with what there is to say of it."""
    return cast("NameView", {**path_view(name), **more})


def cut(names: Iterable[NameView]) -> list[NameView]:
    """Return the first names, as many as fit."""

    def size(name: NameView) -> int:
        return sum(len(str(value)) for value in name.values())

    return fitting(names, size, NAMES_SHOWN, BYTES_SHOWN)
