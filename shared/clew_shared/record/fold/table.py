"""The table of the fold: which function takes in which event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold import actions, attempts, goal, loops, snapshots, tree, turns
from clew_shared.record.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def fold(rows: Iterable[tuple[int, ev.Event]], state: State | None = None) -> State:
    """Return the state that recorded events lead to, oldest first; `state` is changed in place."""
    state = state or State()
    for seq, event in rows:
        apply(state, event, seq)
    return state


def apply(state: State, event: ev.Event, seq: int) -> State:
    """Take event number `seq` into the state, in place, and return the state."""
    TABLE[type(event)](state, event, seq)
    state.seq = seq
    state.updated_at = max(state.updated_at, event.at)
    return state


def _changes_nothing(_state: State, _event: ev.Event, _seq: int) -> None:
    """Take in an event that is recorded for readers only."""


TABLE: dict[type[ev.Event], Callable[[State, Any, int], None]] = {
    ev.GoalAccepted: goal.accepted,
    ev.GoalStarted: goal.started,
    ev.GoalWaiting: goal.waiting,
    ev.GoalBlocked: goal.blocked,
    ev.GoalRequeued: goal.requeued,
    ev.GoalEnded: goal.ended,
    ev.GoalEdited: goal.edited,
    ev.GoalRemoved: goal.removed,
    ev.WorkspaceKnown: goal.workspace_known,
    ev.WorkerStarted: goal.worker_started,
    ev.WorkerReady: _changes_nothing,
    ev.WorkerExited: goal.worker_exited,
    ev.Planned: tree.planned,
    ev.TreeEdited: tree.edited,
    ev.SubtaskStarted: tree.subtask_started,
    ev.SubtaskFailed: tree.subtask_failed,
    ev.SubtaskEnded: tree.subtask_ended,
    ev.TaskCompleted: _changes_nothing,
    ev.Escalated: tree.escalated,
    ev.AttemptEnded: attempts.ended,
    ev.AttemptStarted: attempts.started,
    ev.ActionAllowed: actions.allowed,
    ev.ActionBlocked: actions.blocked,
    ev.ActionFinished: actions.finished,
    ev.ActionInterrupted: actions.interrupted,
    ev.WorldSeen: actions.world_seen,
    ev.LoopDetected: loops.loop_detected,
    ev.Intervened: loops.intervened,
    ev.Thought: loops.thought,
    ev.Reflected: turns.reflected,
    ev.ProbesSeen: goal.probes_seen,
    ev.CheckProposed: goal.check_proposed,
    ev.CheckStarted: goal.check_started,
    ev.CheckFinished: goal.check_finished,
    ev.CheckedBefore: goal.checked_before,
    ev.FinishQuestioned: goal.finish_questioned,
    ev.FinishRefused: attempts.finish_refused,
    ev.FeedbackGiven: goal.feedback_given,
    ev.Unblocked: goal.unblocked,
    ev.Reported: goal.reported,
    ev.StrategiesShown: goal.strategies_shown,
    ev.Reviewed: goal.reviewed,
    snap.SnapshotTaken: snapshots.taken,
    snap.SnapshotsMissing: snapshots.missing,
    snap.UndoStarted: snapshots.undo_started,
    snap.UndoFinished: snapshots.undo_finished,
}
"""Total: a test compares it with the list of events."""
