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
    ModelKnown,
    ModelUsed,
)

log = structlog.get_logger()

Line = tuple[str, dict[str, Any]]


def line(event: ev.Event) -> Line | None:
    """Return the name and the fields of an event's log line, None if it has none."""
    describe = _LINES.get(type(event))
    return describe(event) if describe else None


def _fields(name: str, *fields: str) -> Callable[[Any], Line]:
    """Describe an event by fields of its own, under their own names."""
    return lambda e: (name, {field: getattr(e, field) for field in fields})


_LINES: dict[type[ev.Event], Callable[[Any], Line | None]] = {
    ev.GoalAccepted: lambda e: (
        "goal.accepted",
        {
            "description": e.spec.description,
            "agent": e.spec.agent,
            "workspace": e.spec.workspace,
            "file": e.spec.file_name,
            **({"unknown_keys": list(e.spec.unknown_keys)} if e.spec.unknown_keys else {}),
        },
    ),
    ev.GoalStarted: _fields("goal.started"),
    ev.GoalWaiting: _fields("goal.waiting", "reason", "until"),
    ev.GoalBlocked: _fields("goal.blocked", "reason", "question"),
    ev.GoalRequeued: _fields("goal.requeued", "by"),
    ev.GoalEnded: lambda e: (
        f"goal.{e.status}",
        ({"reason": e.reason} if e.reason else {})
        | ({"verified": e.verified} if e.status == "completed" else {}),
    ),
    ev.WorkspaceKnown: lambda e: (
        ("workspace.accepted", {"inode": e.identity.ino}) if e.by == "person" else None
    ),
    ev.WorkerStarted: _fields("worker.started", "epoch", "pid", "agent", "turns_needed"),
    ev.WorkerReady: _fields("worker.ready", "epoch", "agent"),
    ev.WorkerExited: _fields("worker.exited", "epoch", "reason", "code", "crash"),
    ev.SubtaskStarted: _fields("subtask.started", "task_idx", "subtask_idx"),
    ev.AttemptEnded: _fields("attempt.ended", "attempt", "reason"),
    ev.AttemptStarted: _fields("attempt.started", "attempt", "reason", "rung", "restored", "kept"),
    ev.SubtaskFailed: _fields("subtask.failed", "failure", "cause"),
    ev.SubtaskEnded: lambda e: (
        f"subtask.{e.status}",
        {"summary": e.summary} if e.summary else {},
    ),
    ev.TaskCompleted: _fields("task.completed", "task_idx"),
    ev.Escalated: lambda e: (
        "subtask.blocked" if e.to == "task" else "task.blocked",
        {"escalated_to": e.to, "reason": e.reason},
    ),
    ev.ActionAllowed: _fields("action.allowed", "epoch", "tool", "signature"),
    ev.ActionBlocked: _fields("action.blocked", "epoch", "tool", "signature", "reason"),
    ev.ActionFinished: lambda e: (
        "action.finished",
        {
            "action": e.of,
            "result": e.result,
            "duration_s": round(e.duration_s, 3),
            "changed": e.changed,
        },
    ),
    ev.ActionInterrupted: lambda e: (
        "action.interrupted",
        {"action": e.of, "reason": e.reason} | ({"detail": e.detail} if e.detail else {}),
    ),
    ev.LoopDetected: lambda e: (
        "loop.detected",
        {
            "kind": e.loop,
            "signature": e.signature,
            "attempts": e.attempt_count,
            "evidence": e.evidence,
            "escalated_to": e.escalated_to,
        },
    ),
    ev.Intervened: lambda e: (
        "intervention.sent",
        {"kind": e.intervention, "message": e.message, "again": e.again}
        | ({} if e.debt is None else {"debt": e.debt, "since_gain": e.since_gain}),
    ),
    ev.GoalEdited: _fields("goal.edited", "changed"),
    ev.GoalRemoved: lambda _: ("goal.removed", {}),
    ev.CheckProposed: _fields("check.proposed", "name", "cmd"),
    ev.CheckFinished: lambda e: (
        "check.passed" if e.passed else "check.failed",
        {"name": e.name}
        | ({"suggested": True} if e.suggested else {})
        | ({} if e.passed else {"output": e.output[:400]}),
    ),
    ev.CheckedBefore: _fields("check.before", "name", "passed", "exit_code", "duration_s"),
    ev.FinishRefused: _fields("finish.refused", "failing"),
    ev.FinishQuestioned: lambda e: ("finish.questioned", {"action": e.of, "message": e.message}),
    snap.SnapshotTaken: lambda e: (
        "snapshot.taken",
        {
            "tree": e.tree,
            "files": e.files,
            "bytes": e.bytes,
            "left_out": e.left_out_total,
            "moment": e.moment,
        },
    ),
    snap.SnapshotsMissing: lambda e: (
        "snapshot.missing",
        {"reason": e.reason} | ({"removed": True} if e.removed else {}),
    ),
    ev.FeedbackGiven: _fields("feedback.given", "text"),
    ev.Unblocked: _fields("action.unblocked", "signature"),
    ev.Planned: lambda e: ("goal.planned", {"tasks": len(e.tasks), "replan": e.replan}),
    snap.UndoStarted: _fields("undo.started", "scope", "entries", "theirs"),
    snap.UndoFinished: lambda e: (
        "undo.finished",
        {"undo": e.of, "restored": e.restored, "left": e.left_total, "resumed": e.resumed},
    ),
    ModelKnown: _fields("model.known", "model", "mode", "rung", "chars_per_token", "goals"),
    ModelUsed: _fields("model.used", "goal", "model", "needed"),
    BulletAdded: lambda e: ("strategy.learned", {"id": e.id, "content": e.content, **_from(e)}),
    BulletTagged: lambda e: (
        "strategy.tagged",
        {"id": e.id, "tag": e.tag, "reason": e.reason, **_from(e)},
    ),
    BulletUpdated: lambda e: ("strategy.updated", {"id": e.id, **_from(e)}),
    BulletRemoved: lambda e: ("strategy.removed", {"id": e.id, "reason": e.reason, **_from(e)}),
    BulletRestored: _fields("strategy.restored", "id"),
}


def _from(event: Any) -> dict[str, str]:
    """Return the goal that a change to the playbook came from, as a field."""
    return {"goal": event.source_goal} if event.source_goal else {}


def log_events(goal: str, records: list[RecordedEvent]) -> None:
    """Log events that have become durable."""
    for record in records:
        found = line(record.event)
        if found:
            event, fields = found
            # `goal.waiting` reports each retry; snapshots are taken several times in each subtask
            is_detail = getattr(record.event, "probe", isinstance(record.event, snap.SnapshotTaken))
            write = log.debug if is_detail else log.info
            write(event, **({"goal": goal} if goal else {}), seq=record.seq, **fields)
