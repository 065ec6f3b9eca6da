"""What a person asks of goals: pause, continue, cancel, feedback, and that a blocked action is allowed again.

`resume` and `retry` are `continue` for some of the goals only (docs/cli.md). Each request is recorded before it has any
effect. While the ledger takes nothing, because its disk is full or does not answer, a request is refused, or answered
that it is done as soon as there is space; only `pause` and `cancel` end a worker all the same.
"""

import asyncio
import time

from clew_daemon.control.lookup import (
    RUNBOOK,
    RUNBOOK_DONE,
    GoalAnswer,
    GoalLookup,
    answer,
    objection,
    shown_status,
)
from clew_daemon.control.server import ControlError, refuse_abandoned
from clew_daemon.inbox.goalfile.keys import GoalFile, GoalFileError, GoalFileFault
from clew_daemon.inbox.goalfile.parse import tasks_of
from clew_daemon.inbox.inbox import bound_spec, misplaced, understood
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import workspace_guard
from clew_daemon.record.dependencies import called, holder
from clew_daemon.record.goal_limits import has_runbook
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.core.core import Core
from clew_shared.core.journal import to_ask_about
from clew_shared.ledger.errors import LedgerError, LedgerState
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus, Result
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.text.redact import redact
from clew_shared.text.shorten import without_middle
from clew_shared.views.publish import running_action

GOALS_MAX = 1_000  # How many goals one request may name
RECORD_S = 2.0  # How long a request waits for its record before the worker is ended without it
FEEDBACK_CHARS_MAX = 20_000
SHOWN_MAX, TOLD_CHARS = 10, 10_000
TEXT = "text"
NAMES = {  # what people call a field of a spec, where that is not its name
    "description": TEXT,
    "notes": TEXT,
    "done_when": TEXT,
    "budget_tokens": "budget",
    "budget_wall_s": "budget",
    "timeout_s": "timeout",
}
UNSEEN = {"unknown_keys", "file_name"}
# The goals that `continue --all` means: not those that a person has cancelled.
CONTINUED = (GoalStatus.WAITING, GoalStatus.BLOCKED, GoalStatus.FAILED)


def trouble(ledger: Ledger) -> str:
    return "the disk does not answer" if ledger.has_room else "the disk is full"


def request_basis(core: Core) -> tuple[str, bool, int]:
    """Return what a request to go on refers to: the goal's status, and the event that stopped the goal."""
    return str(core.state.goal.status), core.state.paused, core.state.rested_seq


class GoalChanges:
    """Changes to goals that a person asks for."""

    def __init__(self, daemon: DaemonParts, supervisor: Supervisor, lookup: GoalLookup) -> None:
        self._d = daemon
        self._goals = daemon.goals
        self._supervisor = supervisor
        self._lookup = lookup

    async def change(
        self,
        verb: str,
        goal: str | None = None,
        goals: tuple[str, ...] | None = None,
        all: bool = False,  # noqa: A002 - its name on the socket
        now: bool | None = None,
    ) -> GoalAnswer | dict[str, list[GoalAnswer | dict[str, str]]]:
        """Change one `goal`, several `goals`, or `all` that it applies to (docs/cli.md); `now` interrupts an action."""
        verb = "pause --now" if verb == "pause" and now else verb
        if all:
            meant = [
                one
                for one, state in self._goals.states().items()
                if (verb != "continue" or state.goal.status in CONTINUED)
                and not self._objection(verb, state)
            ]
        elif goals is None:
            return await self._change_one(verb, goal)
        elif len(goals) > GOALS_MAX:
            raise ControlError(f"at most {GOALS_MAX:,} goals can be named at once")
        else:
            meant = list(goals)
        ids = dict.fromkeys(map(self._id_of, meant))  # no goal is changed twice
        return {"results": await asyncio.gather(*(self._result(verb, one) for one in ids))}

    def _id_of(self, name: str) -> str:
        try:
            return self._lookup.find(name).state.goal_id
        except ControlError:
            return name

    async def _result(self, verb: str, goal: str) -> GoalAnswer | dict[str, str]:
        try:
            return await self._change_one(verb, goal)
        except (ControlError, LedgerError) as error:
            return {"id": goal, "error": str(error)}

    async def _change_one(self, verb: str, goal: str | None) -> GoalAnswer:
        core = await self._lookup.whole(goal)
        if why := self._objection(verb, core.state):
            raise ControlError(f"{core.state.goal_id} is {why}")
        now, state = time.time(), core.state
        match verb:
            case "pause" | "pause --now":
                running = running_action(state, now) if verb == "pause" else ""
                paused = ev.GoalWaiting(at=now, reason="paused", paused=True)
                event = None if state.paused else paused
                said = await self._stop(core, event, "paused", after=running)
            case "cancel":
                ended = ev.GoalEnded(at=now, status="cancelled", reason="cancelled by you")
                said = await self._stop(core, ended, "cancelled")
            case "rm":
                await self._goals.emit(core, ev.GoalRemoved(at=now))
                said = "removed from the lists; its record stays"
            case _:
                said = await self._requeue(core, verb)
        return answer(core.state, said)

    def _objection(self, verb: str, state: State) -> str:
        return objection(verb, state, runbook=has_runbook(state, self._d.settings))

    async def _stop(self, core: Core, event: ev.Event | None, done: str, *, after: str = "") -> str:
        """Record the event, after which every proposal is refused; then end the worker. Return what was done.

        `after`: the action that it may end first. On a full disk the worker is ended at once, recorded or not.
        """
        goal, goals = core.state.goal_id, self._goals
        if event:
            with goals.entering(core):
                core.emit(event)
        is_recorded = await self._is_recorded(core)
        if not (is_recorded and goals.ledger.has_room):
            await self._supervisor.end(goal, done)
            full = "nothing was waited for: the disk is full"
            why = full if is_recorded else f"not yet on record: {trouble(goals.ledger)}"
            return f"{done}; {why}"
        if after:
            self._supervisor.tell_to_stop(goal, done, after_action=True)
            return f"pausing after {after}; --now interrupts it"
        flights = list(core.state.in_flight.values())
        await self._supervisor.halt(goal, done)
        is_cut_off = any(one.action.result == Result.INTERRUPTED for one in flights)
        if not is_cut_off:
            return done
        state = core.state
        asks = done == "paused" and has_runbook(state, self._d.settings) and to_ask_about(state)
        then = f": `clew continue {called(state)}` asks you first if it runs again"
        return f"{done}; the running action was interrupted{then if asks else ''}"

    async def _is_recorded(self, core: Core) -> bool:
        """Return whether all that a goal has emitted is durable, or is soon."""
        commit = asyncio.ensure_future(self._goals.commit(core))
        is_full = self._goals.ledger.state is LedgerState.FULL
        await asyncio.wait([commit], timeout=0 if is_full else RECORD_S)
        if not commit.done():
            commit.cancel()
            return False
        commit.result()
        return True

    async def _requeue(self, core: Core, by: str) -> str:
        """Queue a goal again, reopened if it rests, once its worker has ended; ControlError if another request came."""
        before, state = request_basis(core), core.state
        goal, waits = state.goal_id, state.goal.status == GoalStatus.WAITING
        reopen = not waits or state.plan.replan_required == "person"
        if not (state.paused and state.in_flight):  # else it continues after the running action
            await self._supervisor.halt(goal, by)
        await self._goals.whole(goal)
        stranger, make = None, False
        if by != "retry":  # which is for what has ended, and accepts no other folder
            place = core.state.spec.workspace
            stranger, make = await asyncio.to_thread(workspace_guard.accepted, place, core.state)
        state = core.state
        if request_basis(core) != before:  # another request was recorded while the worker stopped
            raise ControlError(f"{goal} is {shown_status(state)} now; `{by}` changed nothing")
        if state.ended and (other := holder(state.spec.name, self._goals.states(), goal)):
            why = f"{goal} cannot go on: its name {state.spec.name} is in use by {other}, which has not ended"
            raise ControlError(why)
        refuse_abandoned()
        at, after, subtask = time.time(), state.rested_seq if state.ended else 0, state.follow_up
        lifts = reopen or by == "continue"
        requeued = ev.GoalRequeued(
            at=at, by=by, reopen=reopen, lifts=lifts, after=after, subtask=subtask, make=make
        )
        known = [ev.WorkspaceKnown(at=at, identity=stranger, by="person")] if stranger else []
        await self._goals.emit(core, *known, requeued)
        return {"retry": "queued again", "resume": "resumed"}.get(by, "continues")

    async def feedback(self, goal: str, text: str) -> GoalAnswer:
        """Record feedback: the agent is shown it unless it is a runbook, and a blocked goal continues."""
        core = await self._lookup.whole(goal)
        if not text.strip():
            raise ControlError("the feedback is empty")
        if len(text) > FEEDBACK_CHARS_MAX:
            most = f"more than {FEEDBACK_CHARS_MAX:,} characters"
            raise ControlError(f"the feedback has {most}: put it in a file of the workspace")
        text, goal, before = redact(text), core.state.goal_id, core.state.goal.status
        if before == GoalStatus.BLOCKED:
            await self._supervisor.halt(goal, "feedback")
            core = await self._goals.whole(goal)
            if core.state.ended:  # it was cancelled while its worker stopped
                why = f"{goal} is {core.state.goal.status} now; the feedback was not recorded"
                raise ControlError(why)
        refuse_abandoned()
        state = core.state
        goes_on, name = before == GoalStatus.BLOCKED, called(state)
        again = ", and runs the step again" if state.attempts.asked_step else ""
        await self._say(core, ev.FeedbackGiven(at=time.time(), text=text), "feedback")
        if session := self._supervisor.session(goal):
            session.notify("feedback", {"text": text})
        if has_runbook(state, self._d.settings):
            steps = f"{RUNBOOK}: to change them, `clew edit {name}`"
            then = RUNBOOK_DONE if before == GoalStatus.COMPLETED else steps
            goes = f"; the goal continues{again}" if goes_on else ""
            return answer(state, f"recorded{goes}. {then}")
        if goes_on:
            return answer(state, "recorded; the goal continues with it")
        shown = f"`clew continue {name}` continues it" if state.ended else "the agent is shown it"
        return answer(state, f"recorded; {shown}")

    async def _say(self, core: Core, word: ev.Event, by: str) -> None:
        """Record a person's word, and that a blocked goal goes on `by` it."""
        goes_on = by and core.state.goal.status == GoalStatus.BLOCKED
        then = [ev.GoalRequeued(at=word.at, by=by, reopen=True)] if goes_on else []
        await self._goals.emit(core, word, *then)

    async def unblock(self, goal: str, signature: str) -> GoalAnswer:
        """Lift the blocks of a signature, and go on with a goal that was stopped by a refusal."""
        core = await self._lookup.whole(goal)
        blocked = core.state.blocked_actions
        if signature not in blocked:
            there = "; ".join(blocked[:SHOWN_MAX]) or "none"
            raise ControlError(f"{signature!r} is not blocked; blocked actions: {there}")
        goes_on = bool(core.state.plan.replan_required or core.state.attempts.asked_step)
        if goes_on:
            await self._supervisor.halt(core.state.goal_id, "unblock")
            core = await self._goals.whole(core.state.goal_id)
        refuse_abandoned()
        word = ev.Unblocked(at=time.time(), signature=signature)
        await self._say(core, word, "unblock" if goes_on else "")
        state, then = core.state, ""
        if state.goal.status not in (GoalStatus.QUEUED, GoalStatus.IN_PROGRESS):
            way = f"`clew continue {called(state)}` continues it"
            then = f"; the goal is {shown_status(state)}: {way}"
        return answer(state, f"allowed again: {signature}{then}")

    # -- edit: what a goal asks for becomes what a goal file says now, while none of its actions runs -----

    async def edit(self, goal: str, text: str | None = None) -> GoalAnswer:
        """Change what a goal asks for to what a file says; without `text`, say whether that may be. ControlError."""
        core = await self._lookup.whole(goal)
        _refuse(core)
        if text is None:
            return answer(core.state, "it may be edited")
        raw = text.encode()
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
        tasks = None if found.tasks == tasks_of(old or b"") else found.tasks
        fields = (key for key in Spec.model_fields if key not in UNSEEN)
        differing = (key for key in fields if getattr(state.spec, key) != getattr(spec, key))
        changed = [NAMES.get(key, key) for key in differing] + ["tasks"] * (tasks is not None)
        return ev.GoalEdited(
            at=time.time(), spec=spec, tasks=tasks, changed=tuple(dict.fromkeys(changed))
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
