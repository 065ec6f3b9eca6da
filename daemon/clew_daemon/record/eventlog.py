"""Recorded events as log lines: stable names, one line each (docs/operations.md, Logs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from clew_shared.core.journal import RecordedEvent
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.daemon_events import (
    BulletAdded,
    BulletRemoved,
    BulletRestored,
    BulletTagged,
    BulletUpdated,
    ModelUsed,
)

log = structlog.get_logger()

Line = tuple[str, dict[str, Any]]


def line(event: ev.Event) -> Line | None:
    """Return the name and the fields of an event's log line, None if it has none."""
    describe = _LINES.get(type(event))
    return describe(event) if describe else None


def _as(name: str, *same: str, **other: str) -> Callable[[Any], Line]:
    """Describe an event by fields of its own, under the same names or others."""
    fields = {field: field for field in same} | other
    return lambda e: (name, {key: getattr(e, field) for key, field in fields.items()})


def _accepted(e: ev.GoalAccepted) -> Line:
    spec = e.spec
    fields = {
        "description": spec.description,
        "agent": spec.agent,
        "workspace": spec.workspace,
        "file": spec.file_name,
    }
    unknown = {"unknown_keys": list(spec.unknown_keys)} if spec.unknown_keys else {}
    return "goal.accepted", fields | unknown


def _ended(e: ev.GoalEnded) -> Line:
    verified: dict[str, object] = {"verified": e.verified} if e.status == "completed" else {}
    verified |= {"proof": e.proof} if e.proof else {}
    return f"goal.{e.status}", ({"reason": e.reason} if e.reason else {}) | verified


def _checked(e: ev.CheckFinished) -> Line:
    name, fields = "check.passed" if e.passed else "check.failed", {"name": e.name}
    suggested = {"suggested": True} if e.suggested else {}
    return name, fields | suggested | ({} if e.passed else {"output": e.output[:400]})


def _intervened(e: ev.Intervened) -> Line:
    fields = {"kind": e.intervention, "message": e.message, "again": e.again}
    owed = {} if e.debt is None else {"debt": e.debt, "since_gain": e.since_gain}
    return "intervention.sent", fields | owed


def _learned(name: str, *fields: str) -> Callable[[Any], Line]:
    """Describe a change to the playbook, with the goal that it came from."""
    plain = _as(name, "id", *fields)
    return lambda e: (name, plain(e)[1] | ({"goal": e.source_goal} if e.source_goal else {}))


_LINES: dict[type[ev.Event], Callable[[Any], Line | None]] = {
    ev.GoalAccepted: _accepted,
    ev.GoalStarted: _as("goal.started"),
    ev.GoalWaiting: _as("goal.waiting", "reason", "until"),
    ev.GoalBlocked: _as("goal.blocked", "reason", "question"),
    ev.GoalRequeued: _as("goal.requeued", "by"),
    ev.GoalEnded: _ended,
    ev.GoalEdited: _as("goal.edited", "changed"),
    ev.GoalRemoved: _as("goal.removed"),
    ev.WorkspaceKnown: lambda e: (
        ("workspace.accepted", {"inode": e.identity.ino}) if e.by == "person" else None
    ),
    ev.WorkerStarted: _as("worker.started", "epoch", "pid", "agent", "turns_needed"),
    ev.WorkerReady: _as("worker.ready", "epoch", "agent"),
    ev.WorkerExited: _as("worker.exited", "epoch", "reason", "code", "crash"),
    ev.Planned: lambda e: ("goal.planned", {"tasks": len(e.tasks), "replan": e.replan}),
    ev.SubtaskStarted: _as("subtask.started", "task_idx", "subtask_idx"),
    ev.AttemptEnded: _as("attempt.ended", "attempt", "reason"),
    ev.AttemptStarted: _as("attempt.started", "attempt", "reason", "rung", "restored", "kept"),
    ev.SubtaskFailed: _as("subtask.failed", "failure", "cause"),
    ev.SubtaskEnded: lambda e: (f"subtask.{e.status}", {"summary": e.summary} if e.summary else {}),
    ev.TaskCompleted: _as("task.completed", "task_idx"),
    ev.Escalated: lambda e: (
        "subtask.blocked" if e.to == "task" else "task.blocked",
        {"escalated_to": e.to, "reason": e.reason},
    ),
    ev.ActionAllowed: _as("action.allowed", "epoch", "tool", "signature"),
    ev.ActionBlocked: _as("action.blocked", "epoch", "tool", "signature", "reason"),
    ev.ActionFinished: _as("action.finished", "result", "duration_s", "changed", action="of"),
    ev.ActionInterrupted: lambda e: (
        "action.interrupted",
        {"action": e.of, "reason": e.reason} | ({"detail": e.detail} if e.detail else {}),
    ),
    ev.LoopDetected: _as(
        "loop.detected",
        "signature",
        "evidence",
        "escalated_to",
        kind="loop",
        attempts="attempt_count",
    ),
    ev.Intervened: _intervened,
    ev.CheckProposed: _as("check.proposed", "name", "cmd"),
    ev.CheckFinished: _checked,
    ev.CheckedBefore: _as("check.before", "name", "passed", "exit_code", "duration_s"),
    ev.FinishRefused: _as("finish.refused", "failing"),
    snap.ProofMade: _as("proof.made", "label", "files", "why", "seconds"),
    snap.ProofRefused: _as("proof.refused", "label", "files", "why"),
    snap.ProofAccepted: _as("proof.accepted", "by", "why"),
    ev.FinishQuestioned: _as("finish.questioned", "message", action="of"),
    ev.FeedbackGiven: _as("feedback.given", "text"),
    ev.Unblocked: _as("action.unblocked", "signature"),
    snap.SnapshotTaken: _as(
        "snapshot.taken", "tree", "files", "bytes", "moment", left_out="left_out_total"
    ),
    snap.SnapshotsMissing: lambda e: (
        "snapshot.missing",
        {"reason": e.reason} | ({"removed": True} if e.removed else {}),
    ),
    snap.UndoStarted: _as("undo.started", "scope", "entries", "theirs"),
    snap.UndoFinished: _as("undo.finished", "restored", "resumed", undo="of", left="left_total"),
    ModelUsed: _as("model.used", "goal", "model", "needed"),
    BulletAdded: _learned("strategy.learned", "content"),
    BulletTagged: _learned("strategy.tagged", "tag", "reason"),
    BulletUpdated: _learned("strategy.updated"),
    BulletRemoved: _learned("strategy.removed", "reason"),
    BulletRestored: _as("strategy.restored", "id"),
}


def log_events(goal: str, records: list[RecordedEvent]) -> None:
    """Log events that have become durable."""
    for record in records:
        if found := line(record.event):
            event, fields = found
            # `goal.waiting` reports each retry; snapshots are taken several times in each subtask
            is_detail = getattr(record.event, "probe", isinstance(record.event, snap.SnapshotTaken))
            write = log.debug if is_detail else log.info
            write(event, **({"goal": goal} if goal else {}), seq=record.seq, **fields)
