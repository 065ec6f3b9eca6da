"""Recorded events as log lines: stable names, one line each (docs/operations.md, Logs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from clew_shared.record import events as ev
from clew_shared.record.daemon_events import (
    BulletAdded,
    BulletRemoved,
    BulletRestored,
    BulletTagged,
    BulletUpdated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew_shared.core.journal import RecordedEvent

log = structlog.get_logger()

Line = tuple[str, dict[str, Any]]


def line(event: ev.Event) -> Line | None:
    """Return the name and the fields of an event's log line, None if it has none."""
    describe = _LINES.get(type(event))
    return describe(event) if describe else None


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
    ev.GoalStarted: lambda _: ("goal.started", {}),
    ev.GoalWaiting: lambda e: ("goal.waiting", {"reason": e.reason, "until": e.until}),
    ev.GoalBlocked: lambda e: ("goal.blocked", {"reason": e.reason, "question": e.question}),
    ev.GoalRequeued: lambda e: ("goal.requeued", {"by": e.by}),
    ev.GoalEnded: lambda e: (
        f"goal.{e.status}",
        ({"reason": e.reason} if e.reason else {})
        | ({"verified": e.verified} if e.status == "completed" else {}),
    ),
    ev.WorkspaceKnown: lambda e: (
        ("workspace.accepted", {"inode": e.identity.ino}) if e.by == "person" else None
    ),
    ev.WorkerStarted: lambda e: (
        "worker.started",
        {"epoch": e.epoch, "pid": e.pid, "agent": e.agent},
    ),
    ev.WorkerReady: lambda e: ("worker.ready", {"epoch": e.epoch, "agent": e.agent}),
    ev.WorkerExited: lambda e: (
        "worker.exited",
        {"epoch": e.epoch, "reason": e.reason, "code": e.code, "crash": e.crash},
    ),
    ev.SubtaskStarted: lambda e: (
        "subtask.started",
        {"task_idx": e.task_idx, "subtask_idx": e.subtask_idx},
    ),
    ev.SubtaskFailed: lambda e: ("subtask.failed", {"failure": e.failure, "cause": e.cause}),
    ev.SubtaskEnded: lambda e: (
        f"subtask.{e.status}",
        {"summary": e.summary} if e.summary else {},
    ),
    ev.TaskCompleted: lambda e: ("task.completed", {"task_idx": e.task_idx}),
    ev.Escalated: lambda e: (
        "subtask.blocked" if e.to == "task" else "task.blocked",
        {"escalated_to": e.to, "reason": e.reason},
    ),
    ev.ActionAllowed: lambda e: (
        "action.allowed",
        {"epoch": e.epoch, "tool": e.tool, "signature": e.signature},
    ),
    ev.ActionBlocked: lambda e: (
        "action.blocked",
        {"epoch": e.epoch, "tool": e.tool, "signature": e.signature, "reason": e.reason},
    ),
    ev.ActionFinished: lambda e: (
        "action.finished",
        {
            "action": e.of,
            "result": e.result,
            "duration_s": round(e.duration_s, 3),
            "changed": e.changed,
        },
    ),
    ev.ActionInterrupted: lambda e: ("action.interrupted", {"action": e.of, "reason": e.reason}),
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
        {"kind": e.intervention, "message": e.message, "again": e.again},
    ),
    ev.CheckProposed: lambda e: ("check.proposed", {"name": e.name, "cmd": e.cmd}),
    ev.CheckFinished: lambda e: (
        "check.passed" if e.passed else "check.failed",
        {"name": e.name}
        | ({"suggested": True} if e.suggested else {})
        | ({} if e.passed else {"output": e.output[:400]}),
    ),
    ev.FinishQuestioned: lambda e: (
        "finish.questioned",
        {"action": e.of, "message": e.message},
    ),
    ev.FeedbackGiven: lambda e: ("feedback.given", {"text": e.text}),
    ev.Unblocked: lambda e: ("action.unblocked", {"signature": e.signature}),
    ev.Planned: lambda e: ("goal.planned", {"tasks": len(e.tasks), "replan": e.replan}),
    BulletAdded: lambda e: (
        "strategy.learned",
        {"id": e.id, "content": e.content, **_from(e)},
    ),
    BulletTagged: lambda e: (
        "strategy.tagged",
        {"id": e.id, "tag": e.tag, "reason": e.reason, **_from(e)},
    ),
    BulletUpdated: lambda e: ("strategy.updated", {"id": e.id, **_from(e)}),
    BulletRemoved: lambda e: ("strategy.removed", {"id": e.id, "reason": e.reason, **_from(e)}),
    BulletRestored: lambda e: ("strategy.restored", {"id": e.id}),
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
            probe = getattr(record.event, "probe", False)  # `goal.waiting` reports each retry
            write = log.debug if probe else log.info
            write(event, **({"goal": goal} if goal else {}), seq=record.seq, **fields)
