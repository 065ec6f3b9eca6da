"""`edit`: what a goal asks for becomes what a goal file says now, while none of its actions runs (docs/cli.md)."""

from __future__ import annotations

import asyncio
import time

from clew_daemon.control.goal_changes import request_basis
from clew_daemon.control.lookup import GoalAnswer, GoalLookup, answer, objection, shown_status
from clew_daemon.control.requests import EditRequest
from clew_daemon.control.server import ControlError, refuse_abandoned
from clew_daemon.inbox.acceptance import bound_spec, misplaced, understood
from clew_daemon.inbox.goalfile.keys import GoalFile, GoalFileError, GoalFileFault
from clew_daemon.inbox.goalfile.parse import tasks_of
from clew_daemon.parts import DaemonParts
from clew_daemon.record.dependencies import called
from clew_daemon.record.goal_limits import has_runbook
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.record.spec import Spec
from clew_shared.text.redact import redact
from clew_shared.text.shorten import without_middle

TOLD_CHARS = 10_000
TEXT = "text"
NAMES = {
    "description": TEXT,
    "notes": TEXT,
    "done_when": TEXT,
    "budget_tokens": "budget",
    "budget_wall_s": "budget",
    "timeout_s": "timeout",
}
"""What people call a field of a spec, where that is not its name."""

UNSEEN = {"unknown_keys", "file_name"}


class GoalEdits:
    """Changes what goals ask for, each recorded before it has any effect."""

    def __init__(self, daemon: DaemonParts, supervisor: Supervisor, lookup: GoalLookup) -> None:
        self._d = daemon
        self._goals = daemon.goals
        self._supervisor = supervisor
        self._lookup = lookup

    async def edit(self, request: EditRequest) -> GoalAnswer:
        """Change a goal; ControlError with every error of the file, or where the goal is at work or completed."""
        core = await self._lookup.whole(request.goal)
        _refuse(core)
        if request.text is None:
            return answer(core.state, "it may be edited")
        raw = request.text.encode()
        found = await self._read(core, raw)
        goal, before = core.state.goal_id, request_basis(core)
        await self._supervisor.halt(goal, "edit")  # one that waits may be trying again
        with self._supervisor.hold(goal):
            core = await self._goals.whole(goal)
            _refuse(core)
            if request_basis(core) != before:
                raise ControlError(f"{goal} is {shown_status(core.state)} now; try again")
            return answer(core.state, await self._change(core, raw, found))

    async def _change(self, core: Core, raw: bytes, found: GoalFile) -> str:
        """Return what was changed, and what lets the goal continue where it does not by itself."""
        event, state = await self._event(core, found), core.state
        if not event.changed:
            return "nothing was changed"
        told = "" if has_runbook(state, self._d.settings) else _told(event)
        refuse_abandoned()
        with self._goals.entering(core):
            core.emit(event, raw)
            if told:
                core.emit(ev.FeedbackGiven(at=event.at, text=redact(told)))
        self._goals.judge_by(core, self._d.settings_of(state.goal_id))
        await self._goals.commit(core)
        waits = state.goal.status == GoalStatus.QUEUED or state.waits_for_time
        then = "" if waits else f"; continue it with `clew continue {called(state)}`"
        return f"changed: {', '.join(event.changed)}{then}"

    async def _read(self, core: Core, raw: bytes) -> GoalFile:
        agents, state = self._d.settings.agents.names, core.state
        try:
            found = await asyncio.to_thread(understood, self._d, raw, "the goal", agents)
        except GoalFileError as error:
            raise ControlError(str(error)) from None
        if found.folder and str(found.folder) != state.spec.workspace:
            text = f"`workspace` cannot be changed: the goal works in {state.spec.workspace}"
            _reject([GoalFileFault(found.lines.get("workspace"), text)])
        return found

    async def _event(self, core: Core, found: GoalFile) -> ev.GoalEdited:
        """Return the change; ControlError where the goal cannot be so beside the others."""
        state = core.state
        spec = bound_spec(self._d, found, state.spec.workspace, state.spec.file_name)
        asked = ev.GoalAccepted(at=state.accepted_at, goal_id=state.goal_id, spec=spec)
        if faults := misplaced(self._d, found, asked):
            _reject(faults)
        seq = state.edited_seq or state.accepted_seq
        old = await asyncio.to_thread(self._goals.ledger.output, seq)
        tasks = found.tasks
        is_other = tasks != tasks_of(old or b"")
        fields = (key for key in Spec.model_fields if key not in UNSEEN)
        differing = (key for key in fields if getattr(state.spec, key) != getattr(spec, key))
        changed = [NAMES.get(key, key) for key in differing] + ["tasks"] * is_other
        return ev.GoalEdited(
            at=time.time(),
            spec=spec,
            tasks=tasks if is_other else None,
            changed=tuple(dict.fromkeys(changed)),
        )


def _refuse(core: Core) -> None:
    if why := objection("edit", core.state, runbook=False):
        raise ControlError(f"{core.state.goal_id} is {why}")


def _reject(faults: list[GoalFileFault]) -> None:
    raise ControlError(str(GoalFileError("the goal", faults)))


def _told(event: ev.GoalEdited) -> str:
    """Return what the agent is told, as feedback; "" where only limits changed."""
    if not {TEXT, "checks", "tasks"} & set(event.changed):
        return ""
    spec = event.spec
    checks = [f"- {name}: {cmd}" for name, cmd in spec.checks.items()]
    parts = (spec.description, spec.notes, spec.done_when, "\n".join(["Checks:", *checks]))
    now = "\n\n".join(filter(None, parts))
    text = f"The goal was changed ({', '.join(event.changed)}). It now reads:\n{now}"
    return without_middle(text, TOLD_CHARS)
