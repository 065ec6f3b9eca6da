"""What the pages of goals show, as frozen records: made from states, events and the time, and nothing else."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_daemon.control.lookup import objection
from clew_daemon.publish.standing import PAUSED, standing
from clew_shared.record.model import GoalStatus
from clew_shared.text.words import action_text, one_line
from clew_shared.views.needs import need

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_shared.record.state import State
    from clew_shared.views.needs import Need

ARGS_CHARS = 200
HEAD_CHARS = 400
CHANGES = ("continue", "pause", "cancel")
_SHOWN_FIRST = ("cmd", "path", "pattern", "query", "summary")


@dataclass(frozen=True, slots=True)
class Activity:
    """What a goal does, or waits for, and since when (seconds since 1970)."""

    text: str
    since: float
    seq: int = 0


@dataclass(frozen=True, slots=True)
class GoalRow:
    """A goal in the list, and at the head of its page."""

    id: str
    description: str
    status: str
    standing: str
    percent: int
    step: str
    activity: Activity | None
    agent: str
    attempt: int
    epoch: int
    restarts: int
    actions: int
    refused: int
    loops: int
    tokens: int
    files: int
    lines_added: int
    lines_removed: int
    updated_at: float
    need: Need | None


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action in a list: its arguments in short, and the head of its output."""

    seq: int
    at: str
    tool: str
    args: str
    result: str
    duration: str
    place: str
    epoch: int
    attempt: int
    changed: bool
    head: str


@dataclass(frozen=True, slots=True)
class Button:
    """A change that a person may ask for, with the command that does the same; `confirm` is to be typed first."""

    what: str
    command: str
    confirm: str = ""


def goal_row(state: State, now: float, *, running: bool) -> GoalRow:
    """Return a goal's row; `running`: there is a daemon, without which no worker is at work."""
    subtask, changed = state.subtask, state.snapshots.changed
    return GoalRow(
        id=state.goal_id,
        description=state.goal.description,
        status=str(state.goal.status),
        standing=PAUSED if state.paused and not state.ended else _standing(state),
        percent=int(state.goal.progress() * 100),
        step=subtask.description if subtask and not state.ended else "",
        activity=activity(state, now, running=running),
        agent=state.agent or state.spec.agent,
        attempt=state.attempt.number,
        epoch=state.epoch,
        restarts=state.restarts,
        actions=state.actions_total,
        refused=state.blocked_total,
        loops=state.loops_total,
        tokens=state.cost.tokens,
        files=changed.files,
        lines_added=changed.added,
        lines_removed=changed.removed,
        updated_at=state.updated_at,
        need=need(state),
    )


def activity(state: State, now: float, *, running: bool) -> Activity | None:
    """Return what a goal does now; None where it has ended, or waits for a person."""
    status = GoalStatus(state.goal.status)
    if status.ended or status is GoalStatus.BLOCKED or state.paused:
        return None
    if not running:
        return Activity("no daemon runs", state.updated_at)
    if state.in_flight:
        last = next(reversed(state.in_flight.values()))
        doing = action_text(last.action.name, last.action.args)
        return Activity(doing, state.updated_at, last.seq)
    if status is GoalStatus.QUEUED:
        return Activity(state.reason or "waits for its turn", state.waiting_since or now)
    if status is GoalStatus.WAITING:
        return Activity(f"waits: {state.reason}", state.waiting_since or now)
    return Activity("thinking" if state.working else "waits for a worker", state.updated_at)


def buttons(state: State) -> list[Button]:
    """Return the changes that apply to a goal now."""
    goal = state.goal_id
    return [
        Button(verb, f"clew {verb} {shlex.quote(goal)}", goal if verb == "cancel" else "")
        for verb in CHANGES
        if not objection(verb, state, runbook=False)
    ]


def action_row(action: Mapping[str, Any]) -> ActionRow:
    """Return the row of an action from its line of history.jsonl."""
    known = action["result"] not in ("blocked", "interrupted") or action["duration_s"]
    return ActionRow(
        seq=action["seq"],
        at=action["timestamp"],
        tool=action["name"],
        args=in_short(action["args"]),
        result=action["result"],
        duration=f"{action['duration_s']:.1f} s" if known else "",
        place=f"{action['task_idx'] + 1}.{action['subtask_idx'] + 1}",
        epoch=action["epoch"],
        attempt=action["attempt"],
        changed=bool(action["changed"]),
        head=action["output"][:HEAD_CHARS],
    )


def in_short(args: Mapping[str, Any]) -> str:
    """Return the argument that says most, or all of them as JSON; shortened."""
    said = next((args[key] for key in _SHOWN_FIRST if isinstance(args.get(key), str)), None)
    text = one_line(json.dumps(dict(args), ensure_ascii=False) if said is None else said)
    return text if len(text) <= ARGS_CHARS else f"{text[:ARGS_CHARS]}…"


def _standing(state: State) -> str:
    return standing(str(state.goal.status), state.verified)
