"""What a report of an action means in the present state, before it is recorded. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_shared.gate import KnownOutcome
from clew_shared.record import events as ev
from clew_shared.record.consequences import (
    asks_again,
    comparison_world,
    information_key,
    makes_progress,
    repeats_receipt,
    world_after,
    world_moved,
)
from clew_shared.record.evidence import Evidence
from clew_shared.record.facts import sketch_of
from clew_shared.record.gauge import gauge_of
from clew_shared.record.model import Action, Result
from clew_shared.record.progress import (
    error_class,
    is_wait,
    outcome,
    soft,
)
from clew_shared.record.receipts import receipt_of
from clew_shared.text.shorten import both_ends
from clew_shared.tools import IDLE_TOOLS, WRITE_ONLY_TOOLS

if TYPE_CHECKING:
    from clew_shared.core.answers import ActionReport
    from clew_shared.record.state import State

HEAD_CHARS = 400
"""Of an output, in its event and its tally."""


def finished_event(
    state: State, seq: int, tool: str, args: dict[str, Any], report: ActionReport, at: float
) -> ev.ActionFinished:
    """Return the event that records the outcome of action number `seq`."""
    moved = world_moved(state, report.world)
    return ev.ActionFinished(
        at=at,
        of=seq,
        result=report.result,
        head=both_ends(report.output, HEAD_CHARS),
        outcome=outcome(tool, report.result, report.output),
        error_class=error_class(report.result, report.output, args),
        duration_s=round(report.duration_s, 6),
        exit_code=report.exit_code,
        changed=moved if report.changed is None else report.changed,
        world=report.world,
        plain=report.output is None and report.changed is None and not moved,
        soft=soft(tool, args, report.result, report.output, waited=state.scope.waited),
        idle=tool in IDLE_TOOLS,
        touched=report.touched,
        evidence=evidence_of(tool, args, report, changed=bool(report.changed or moved)),
    )


def evidence_of(
    tool: str, args: dict[str, Any], report: ActionReport, *, changed: bool
) -> Evidence:
    """Return what an output shows beside its outcome; nothing for a tool that only writes or reports no output."""
    if tool in WRITE_ONLY_TOOLS or report.output is None or is_wait(tool, args):
        return Evidence()
    failed = report.result in (Result.FAILURE, Result.ERROR)
    receipt, ids = receipt_of(report.output, args)
    gauge, readings = gauge_of(report.output, failed=failed)
    facts = "" if changed else sketch_of(report.output, args)
    return Evidence(facts=facts, receipt=receipt, ids=ids, gauge=gauge, readings=readings)


def known_outcome(
    state: State, tool: str, args: dict[str, Any], signature: str, report: ActionReport
) -> KnownOutcome:
    """Return what the gate needs of an action that is judged after the fact (`record`)."""
    event = finished_event(state, 0, tool, args, report, 0.0)
    world, before = world_after(state, signature, event), comparison_world(state, report.world)
    action, scope = Action(tool, args), state.scope
    information = information_key(state, action, signature, world, event)
    polls = event.soft or scope.waited
    again = not polls and bool(asks_again(scope, action, event, before))
    receipt = not scope.waited and repeats_receipt(scope, signature, event, before)
    progress = makes_progress(scope, before, world, information) and not (receipt or again)
    writes = tool in WRITE_ONLY_TOOLS or signature in scope.writers or world != before
    idle = writes and not (progress or receipt)
    return KnownOutcome(event.outcome, world, progress, event.soft, idle=idle, receipt=receipt)
