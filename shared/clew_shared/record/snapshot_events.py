"""The events of snapshots and undo (docs/snapshots.md), and of proofs (docs/proof.md)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel

from clew_shared.record.identity import Identity
from clew_shared.record.life_events import GoalEvent
from clew_shared.record.state import ProofState, SnapshotState, State, taken
from clew_shared.record.touched import Touched
from clew_shared.text.plain import branch_name, commit_name

LEFT_OUT_MAX = 100  # names that an event lists, of those that are not in a snapshot

TakenKind = Literal["file", "tool", "home", "git", "process"]
SnapshotMoment = Literal["goal", "worker", "subtask", "end", "large", "undo", "undone"]
"""The goal began, a worker started, a subtask began or ended, the worker ended, an action changed too many files to
list, before an undo, after it."""


class LeftOut(BaseModel, frozen=True, extra="ignore"):
    """A name that is not in a snapshot, and why: `large`, `unreadable`, `changing`, or what kind of file it is."""

    path: str
    why: str
    bytes: int = 0  # of a large one, 0 where it is not known


class GitPlace(BaseModel, frozen=True, extra="ignore"):
    """Where the user's repository in the workspace stands; what could be no branch or no commit is ""."""

    branch: Annotated[str, AfterValidator(branch_name)] = ""
    commit: Annotated[str, AfterValidator(commit_name)] = ""  # of HEAD
    index: str = ""  # its digest


class SnapshotTaken(GoalEvent, frozen=True):
    """A snapshot of the workspace is in the goal's store."""

    tree: str
    files: int = 0
    bytes: int = 0
    left_out: tuple[LeftOut, ...] = ()
    left_out_total: int = 0
    moment: SnapshotMoment = "subtask"
    touched: Touched = Touched()  # since the last action, by a check or by someone else
    git: GitPlace | None = None
    ignored: tuple[str, ...] = ()  # some quoted names that git ignores; of the first snapshot only
    # actions that the end of the worker cut off: it has what they did
    cut_off: tuple[int, ...] = ()

    def into(self, state: State) -> None:
        known = state.snapshots
        if not known.first:
            known.first, known.first_at = self.tree, self.at
        known.last, known.last_seq, known.missing = self.tree, state.seq, ""
        known.taken += 1
        known.left_out = self.left_out_total


class SnapshotsMissing(GoalEvent, frozen=True):
    """No snapshot can be taken for this reason; recorded once for each reason."""

    reason: str
    removed: bool = False  # the store is gone with all earlier snapshots: the next is a first one

    def into(self, state: State) -> None:
        if self.removed:
            state.snapshots = SnapshotState(undone=state.snapshots.undone)
        state.snapshots.missing = self.reason


class UndoStarted(GoalEvent, frozen=True):
    """An undo is about to restore entries; what it restores is stored with this event."""

    # what it reverts; `undo`: the undo before it, `attempt`: clew itself puts the workspace back
    scope: Literal["goal", "subtask", "undo", "attempt"]
    task_idx: int = 0
    subtask_idx: int = 0
    first: int  # the snapshots whose difference is reverted, by number
    last: int | None = None
    entries: int = 0
    workspace: Identity | None = None

    def into(self, state: State) -> None:
        known = state.snapshots
        known.undoing, known.scope = state.seq, self.scope
        known.before = self.first if self.scope == "undo" else known.last_seq


class UndoFinished(GoalEvent, frozen=True):
    """The undo that event `of` began is complete."""

    of: int
    restored: int = 0
    left: tuple[str, ...] = ()  # what had changed meanwhile, or could not be restored
    left_total: int = 0
    resumed: bool = False

    def into(self, state: State) -> None:
        known = state.snapshots
        known.undoing = 0
        if self.restored and known.scope != "attempt":  # no person has asked for an attempt's
            holds = {known.before: known.scope} if known.scope != "undo" else {}
            others = (one for one in known.undone.items() if one[0] != known.before)
            known.undone = dict(others) | holds
            if state.ended:
                state.reported_seq = 0  # its report says something else now


class CheckRun(BaseModel, frozen=True, extra="ignore"):
    """How a check ended, and how many tests it said that it ran; null where that is not known."""

    exit_code: int | None = None
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    seconds: float = 0.0


class ProofCheck(BaseModel, frozen=True, extra="ignore"):
    """A check before the work, at the finish, and in the view; null where it was not run."""

    name: str
    before: CheckRun | None = None
    finish: CheckRun | None = None
    view: CheckRun | None = None


class TakenAway(BaseModel, frozen=True, extra="ignore"):
    """What judges and was changed, and so was taken away in the view."""

    path: str
    kind: TakenKind


class ProofMade(GoalEvent, frozen=True):
    """A label for the workspace as it is (`world`, with its snapshot `tree`), durable before the agent hears of it.

    `without_work`: whether the checks pass with its changes of tests and no others, null where that was not tried.
    """

    world: str
    label: str
    tree: str = ""
    files: tuple[str, ...] = ()
    why: str = ""
    taken_away: tuple[TakenAway, ...] = ()
    checks: tuple[ProofCheck, ...] = ()
    diff: str = ""
    output: str = ""  # the end of that of the check that fails in the view
    reason: str = ""
    without_work: Literal["pass", "fail"] | None = None
    accepted: Literal["goal"] | None = None
    seconds: float = 0.0

    def into(self, state: State) -> None:
        before = state.proofs.made
        same = before and (before.world, before.label) == (self.world, self.label)
        refused = before.refused if before and same else 0
        state.proofs.made = taken(ProofState, self, seq=state.seq, refused=refused, reason="")


class ProofRefused(GoalEvent, frozen=True):
    """A finish was refused by this label."""

    label: str
    files: tuple[str, ...] = ()
    why: str = ""
    reason: str = ""  # the agent's, for its changes of tests
    asked: bool = False  # a person is asked
    resumes: bool = False  # the last subtask goes on

    def into(self, state: State) -> None:
        if made := state.proofs.made:
            made.refused += 1
            made.asked, made.reason = self.asked, self.reason
        if self.resumes:
            state.resume_last()


class ProofAccepted(GoalEvent, frozen=True):
    """A person accepts the workspace as it was shown: from now on what judges is as it is in `tree`."""

    world: str
    tree: str
    by: Literal["person"] = "person"
    why: str = ""

    def into(self, state: State) -> None:
        state.proofs.base = self.tree
        if made := state.proofs.made:
            made.accepted, made.asked = self.by, False
