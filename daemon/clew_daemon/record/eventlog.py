"""Recorded events as log lines: stable names, one line each (docs/operations.md, Logs)."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import structlog

from clew_shared.core.journal import RecordedEvent
from clew_shared.record import events as ev

log = structlog.get_logger()

Line = tuple[str, dict[str, Any]]

# The name and the fields of each kind's line. A field may be taken from one of another name (`action=of`), and one
# with a question mark is left out where it is empty.
_LINES = {
    "goal_accepted": "goal.accepted description=spec.description agent=spec.agent workspace=spec.workspace "
    "file=spec.file_name unknown_keys=spec.unknown_keys?",
    "goal_started": "goal.started",
    "goal_waiting": "goal.waiting reason until",
    "goal_blocked": "goal.blocked reason question",
    "goal_requeued": "goal.requeued by",
    "goal_ended": "goal.{status} reason?",
    "goal_edited": "goal.edited changed",
    "goal_removed": "goal.removed",
    "workspace_known": "workspace.accepted inode=identity.ino",
    "worker_started": "worker.started epoch pid agent turns_needed",
    "worker_ready": "worker.ready epoch agent",
    "worker_exited": "worker.exited epoch reason code crash",
    "planned": "goal.planned tasks replan",
    "subtask_started": "subtask.started task_idx subtask_idx",
    "attempt_ended": "attempt.ended attempt reason",
    "attempt_started": "attempt.started attempt reason rung restored kept",
    "subtask_failed": "subtask.failed failure cause",
    "subtask_ended": "subtask.{status} summary?",
    "task_completed": "task.completed task_idx",
    "escalated": "task.blocked escalated_to=to reason",
    "action_allowed": "action.allowed epoch tool signature",
    "action_blocked": "action.blocked epoch tool signature reason",
    "action_finished": "action.finished result duration_s changed action=of",
    "action_interrupted": "action.interrupted action=of reason detail?",
    "loop_detected": "loop.detected signature evidence escalated_to kind=loop attempts=attempt_count",
    "intervened": "intervention.sent kind=intervention message again",
    "check_proposed": "check.proposed name cmd",
    "check_finished": "check.passed name suggested?",
    "checked_before": "check.before name passed exit_code duration_s",
    "finish_refused": "finish.refused failing",
    "proof_made": "proof.made label files why seconds",
    "proof_refused": "proof.refused label files why",
    "proof_accepted": "proof.accepted by why",
    "finish_questioned": "finish.questioned message action=of",
    "feedback_given": "feedback.given text",
    "unblocked": "action.unblocked signature",
    "snapshot_taken": "snapshot.taken tree files bytes moment left_out=left_out_total",
    "snapshots_missing": "snapshot.missing reason removed?",
    "undo_started": "undo.started scope entries",
    "undo_finished": "undo.finished restored resumed undo=of left=left_total",
    "model_used": "model.used goal model needed",
    "bullet_added": "strategy.learned id content goal=source_goal?",
    "bullet_tagged": "strategy.tagged id tag reason goal=source_goal?",
    "bullet_updated": "strategy.updated id goal=source_goal?",
    "bullet_removed": "strategy.removed id reason goal=source_goal?",
    "bullet_restored": "strategy.restored id",
}


@cache
def _described(kind: str) -> tuple[str, list[tuple[str, Callable[[object], Any], bool]]]:
    name, *described = _LINES.get(kind, "").split(" ")
    split = [(one.removesuffix("?").partition("="), one[-1] != "?") for one in described]
    return name, [(key, attrgetter(of or key), always) for (key, _, of), always in split]


def line(event: ev.Event) -> Line | None:
    """Return the name and the fields of an event's log line, None if it has none."""
    name, getters = _described(event.kind)
    found = [(key, get(event), always) for key, get, always in getters]
    fields = {key: value for key, value, always in found if value or always}
    match event:
        case ev.GoalEnded() | ev.SubtaskEnded():
            name = name.format(status=event.status)
            if isinstance(event, ev.GoalEnded):
                fields |= {"verified": event.verified} if event.status == "completed" else {}
                fields |= {"proof": event.proof} if event.proof else {}
        case ev.WorkspaceKnown(by="start" | "made"):
            return None
        case ev.Planned():
            fields["tasks"] = len(event.tasks)
        case ev.Escalated(to="task"):
            name = "subtask.blocked"
        case ev.CheckFinished(passed=False):
            name, fields = "check.failed", fields | {"output": event.output[:400]}
        case ev.Intervened() if event.debt is not None:
            fields |= {"debt": event.debt, "since_gain": event.since_gain}
    return (name, fields) if name else None


def log_events(goal: str, records: list[RecordedEvent]) -> None:
    for record in records:
        if found := line(record.event):
            event, fields = found
            # `goal.waiting` reports each retry; snapshots are taken several times in each subtask
            is_detail = getattr(record.event, "probe", isinstance(record.event, ev.SnapshotTaken))
            write = log.debug if is_detail else log.info
            write(event, **({"goal": goal} if goal else {}), seq=record.seq, **fields)
