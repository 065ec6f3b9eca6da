"""What answers each request of the control socket: those about the daemon, the playbook, undo, and the stream."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from clew_daemon.control.goal_changes import GoalChanges, trouble
from clew_daemon.control.lookup import GoalAnswer, GoalLookup, answer, handler
from clew_daemon.control.server import Answer, ControlError, Handler, Stream
from clew_daemon.host.tasks import LastKnown
from clew_daemon.inbox.files import left
from clew_daemon.learning.deltas import IMPORTED_AT_ONCE_MAX
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.cell_rules import executor_env
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.record.doing import now_view
from clew_daemon.record.goal_events import GoalEvents
from clew_daemon.record.goal_limits import limits_of
from clew_daemon.record.goal_status import goal_detail, status_view
from clew_daemon.record.goal_view import GoalDetail, GoalView, Left, standing
from clew_daemon.record.store import listed
from clew_daemon.session.finishing import completed
from clew_daemon.supervision import schedule
from clew_daemon.supervision.supervisor import Supervisor
from clew_daemon.undo import undo
from clew_daemon.undo.planning import UndoRefused
from clew_daemon.undo.undo import VisitFailed, undo_view
from clew_shared.config.settings import SettingChange
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger.errors import BOUNDS_S, LedgerState
from clew_shared.ledger.reader import Cursor, EventRow
from clew_shared.playbook.playbook import Bullet
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State
from clew_shared.snapshots.store import StoreError
from clew_shared.text.redact import redact
from clew_shared.views.publish import running_action

JsonObject = Mapping[str, Any]
_View = TypeVar("_View", GoalView, GoalDetail)

BATCH_ROWS = 500
BATCH_BYTES = 256 << 10  # of the events in one line, and in memory for one client, but for the last

COLLECT_S = 0.05  # How long events are collected, so that steps in quick succession cost one read

SILENCE_S = 10.0  # After this time without events an empty batch shows that the daemon runs
ENDED_SHOWN = 50  # How many goals that ended are in the state that a client begins with; `status` has the others
END_S = 60.0  # How long an undo waits for the end of a worker whose goal is no longer at work


@dataclass(eq=False)
class ControlHandlers:
    """Answers requests; `_view` describes the daemon, `_reload` reloads its config."""

    _d: DaemonParts
    _supervisor: Supervisor
    _view: Callable[[], Awaitable[JsonObject]]
    _reload: Callable[[], Awaitable[list[SettingChange]]]

    def __post_init__(self) -> None:
        self._goals, self._lookup = self._d.goals, GoalLookup(self._d.goals)
        nothing = Left(inbox=[], inbox_total=0)
        self._inbox_left = LastKnown(lambda: left(self._d.places.inbox), nothing)

    def by_method(self) -> dict[str, Handler]:
        """Return the handler of each method."""
        goals, record = GoalChanges(self._d, self._supervisor, self._lookup), self._goals.ledger
        change = goals.change
        looking: dict[str, Callable[..., Awaitable[Answer]]] = {
            "ping": self._view,
            "health": self._health,
            "settings": self._settings,
            "executor_env": self._executor_env,
            "reload": self._reloaded,
            "status": self._status,
            "follow": self._follow,
            "undo": self._undo_goal,
            "pause": partial(change, "pause"),
            "cancel": partial(change, "cancel"),
        }
        recorded: dict[str, Callable[..., Awaitable[Answer]]] = {
            **{verb: partial(change, verb) for verb in ("continue", "resume", "retry", "rm")},
            "feedback": goals.feedback,
            "unblock": goals.unblock,
            "edit": goals.edit,
            "accept": self._accept,
            "playbook_remove": self._remove_strategy,
            "playbook_prune": self._prune,
            "playbook_import": self._import,
        }
        return {name: handler(name, answer) for name, answer in looking.items()} | {
            name: handler(name, answer, record) for name, answer in recorded.items()
        }

    async def _health(self) -> JsonObject:
        """Answer with the state of the ledger, and a histogram of how long commits took."""
        ledger = self._goals.ledger
        counts, sum_s = list(ledger.commits), ledger.commits_s
        commits = {"bounds_s": BOUNDS_S, "counts": counts, "sum_s": sum_s}
        return {"ledger": ledger.state.value, "commits": commits}

    async def _settings(self) -> JsonObject:
        """Answer with those in force, without defaults: what applies to a model depends on what is set."""
        return self._d.settings.model_dump(mode="json", exclude_unset=True)

    async def _executor_env(self) -> JsonObject:
        """Answer `clew doctor`, which may have been started with another one."""
        return {**executor_env(self._d.settings, self._d.keys.env, self._d.git)}

    async def _reloaded(self) -> JsonObject:
        return {"changes": [asdict(one) for one in await self._reload()]}

    async def _status(self, goal: str | None = None, limit: int | None = None) -> JsonObject:
        """Answer with one goal's tree, or all goals that go on and the last `limit` that ended."""
        if limit is not None and limit < 0:
            raise ControlError("`limit` is a number of goals, or null for all")
        core = await self._lookup.whole(goal) if goal else None
        states, now = self._goals.states(), time.time()
        known = KnownGoals(states, self._goals.gone)
        if core:
            attempts = limits_of(core.state, self._d.settings).attempts
            detail = self._goal_view(goal_detail, core.state, known, now)
            return {"daemon": await self._view(), "goal": {**detail, "attempt_limit": attempts}}
        shown, left_out = listed(states.values(), limit)
        goals = [self._goal_view(status_view, state, known, now) for state in shown]
        more = {**left_out, **await self._inbox_left.now()}
        return {"daemon": await self._view(), "goals": goals, **more}

    async def _follow(self, goal: str | None = None, after: str | None = None) -> Stream:
        """Follow one goal, or all, after the cursor `after`, or from now on, with the state first (docs/stream.md)."""
        ledger = self._goals.ledger
        goal = self._lookup.find(goal).state.goal_id if goal else ""
        try:
            asked = None if after is None else Cursor.parse(after)
        except ValueError:
            problem = f"`after` is {str(after)[:100]!r}"
            raise ControlError(f"{problem}; it must be the cursor of an earlier answer") from None
        begin = await asyncio.to_thread(
            lambda: asked if asked and asked.is_of(ledger) else Cursor.at_end(ledger)
        )
        answer = {"after": str(begin), "reset": asked not in (None, begin), "goals": []}
        if begin != asked:
            found = await self._status(limit=None if goal else ENDED_SHOWN)
            answer["goals"] = [view for view in found["goals"] if goal in ("", view["id"])]
        return Stream(answer, _lines(self._goals, begin, goal))

    def _goal_view(
        self, form: Callable[..., _View], state: State, known: KnownGoals, now: float
    ) -> _View:
        """Return the view of a goal that `form` makes, as it is while this daemon runs."""
        running, goals = self._supervisor.running, self._goals
        waits, stuck = schedule.waits_for(state, known, running, now)
        if state.paused and (action := running_action(state, now)):
            waits = f"pausing after {action}"
        session = self._supervisor.session(state.goal_id)
        view = form(state, now, waits, stuck=stuck)
        view["now"] = now_view(state, session.work if session else None)
        if goals.ledger.state is LedgerState.FULL and goals.is_committing(state.goal_id):
            # what it shows would be lost with the daemon
            reason = f"not yet on record: {trouble(goals.ledger)}"
            view["reason"] = f"{view['reason']}; {reason}" if view["reason"] else reason
        return view

    async def _accept(self, goal: str, why: str = "") -> GoalAnswer:
        """End a goal whose finish a label refuses, if its workspace is as a person was shown it; `why` is on record."""
        core = await self._lookup.whole(goal)
        made, goal = core.state.proofs.made, core.state.goal_id
        if core.state.goal.status != GoalStatus.BLOCKED or made is None or not made.asked:
            shown = standing(status_view(core.state))
            raise ControlError(f"{goal} is {shown}: no proof of it is asked about")
        await self._supervisor.halt(goal, "accept")
        with self._supervisor.hold(goal):
            try:
                async with undo.visit(self._d, core) as there:
                    tree = (await there.snapshot("end")).tree
            except VisitFailed as error:
                raise ControlError(f"{goal}: {error}") from None
            if tree != made.tree:
                how = f"`clew feedback {goal} …` lets it go on"
                changed = "the workspace has changed since it was shown"
                why = changed if made.tree else "no snapshot shows what would be accepted"
                raise ControlError(f"{goal}: {why}; {how}")
            at, state, why = time.time(), core.state, redact(why)
            accepted = ev.ProofAccepted(at=at, world=made.world, tree=made.tree, why=why)
            ended = completed(state, at, state.summary, made.label)
            await self._goals.emit(core, accepted, ended)
        return answer(core.state, f"accepted; the goal is {standing(status_view(core.state))}")

    async def _undo_goal(
        self,
        goal: str,
        subtask: tuple[int, int] | None = None,
        perform: bool = False,
        expected: str | None = None,
    ) -> JsonObject:
        """Show what undoing a goal, or one `subtask` (its task's and its own index), would do; or `perform` it.

        One at a time for each goal, and only while it has no worker. `expected` is the `plan` of an earlier answer: if
        there is another one by now, nothing is restored.
        """
        core, supervisor = await self._lookup.whole(goal), self._supervisor
        state, goal = core.state, core.state.goal_id
        if subtask is not None:
            (task, index), tasks = subtask, state.goal.tasks
            if not (0 <= task < len(tasks) and 0 <= index < len(tasks[task].subtasks)):
                raise ControlError(f"{goal} has no subtask {index} in a task {task}, from 0")
        if not state.workable:  # its last worker may still be ending
            await supervisor.finished(goal, END_S)
            core = await self._lookup.whole(goal)
        if goal in supervisor.running:
            how = f"stop it first, with `clew pause {goal}` or `clew cancel {goal}`"
            raise ControlError(f"{goal} is at work: {how}")
        if supervisor.uses(goal):
            raise ControlError(f"another undo of {goal} is in progress: try again when it is done")
        if other := supervisor.at_work_in(core.state.spec.workspace):
            where = f"{goal}: {other} is at work in the same folder, or in one below or above it"
            how = f"wait until it has ended, or stop it first, with `clew pause {other}`"
            raise ControlError(f"{where}: {how}")
        with supervisor.hold(goal):  # nothing was awaited since it was not busy
            try:
                result = await undo.undo(self._d, core, subtask, perform=perform, expected=expected)
            except (UndoRefused, VisitFailed, StoreError) as error:
                half = f"\nThe workspace is half undone: `clew undo {goal}` completes it."
                undoing = core.state.snapshots.undoing
                raise ControlError(f"{goal}: {error}{half if undoing else ''}") from None
        return dict(await asyncio.to_thread(undo_view, core.state, result))

    async def _remove_strategy(self, id: str) -> JsonObject:  # noqa: A002 - its name on the socket
        """Move a strategy to the archive."""
        try:
            await self._d.playbook.change(lambda draft: draft.remove(id, "by a person"))
        except ValueError as error:
            raise ControlError(f"{error}; see `clew playbook list`") from None
        return {"id": id}

    async def _prune(self) -> JsonObject:
        """Archive the strategies that score below the threshold of the config."""
        below = self._d.settings.playbook.prune_below
        removed = await self._d.playbook.change(lambda draft: draft.prune(below))
        return {"removed": removed, "below": below}

    async def _import(self, bullets: tuple[Mapping[str, object], ...]) -> JsonObject:
        """Import strategies, each a JSON object as in an export."""
        if len(bullets) > IMPORTED_AT_ONCE_MAX:
            raise ControlError(f"at most {IMPORTED_AT_ONCE_MAX} strategies can be sent at once")
        try:
            new = [Bullet.from_dict(entry) for entry in bullets]
            return dict(await self._d.playbook.change(lambda draft: draft.import_bullets(new)))
        except ValueError as error:
            raise ControlError(f"nothing was imported: {error}") from None


async def _lines(goals: GoalEvents, after: Cursor, goal: str) -> AsyncGenerator[bytes]:
    """Yield batches of one goal's events, or of all, until events that were not sent are purged."""
    wake = asyncio.Event()

    def heard(_goal: str, _events: list[RecordedEvent]) -> None:
        wake.set()

    goals.listeners.append(heard)
    try:
        silent_at = time.monotonic() + SILENCE_S
        while True:
            wake.clear()
            rows = await asyncio.to_thread(_next, goals.ledger, after)
            if rows is None:
                return  # the client asks again, and is answered with a reset
            if rows:
                after = Cursor(rows[-1].seq, rows[-1].hash)
            wanted = [row for row in rows if goal in ("", row.goal)]
            if wanted or time.monotonic() >= silent_at:
                silent_at = time.monotonic() + SILENCE_S
                yield _line(after, wanted)
            if rows:
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, silent_at - time.monotonic())):
                    await wake.wait()
                    await asyncio.sleep(COLLECT_S)
    finally:
        goals.listeners.remove(heard)


def _next(ledger: Ledger, after: Cursor) -> list[EventRow] | None:
    """Read the next events; None if some after the cursor were purged."""
    rows = ledger.page(after.seq, BATCH_ROWS, BATCH_BYTES)
    return None if ledger.last_purged() > after.seq else rows


def _line(after: Cursor, rows: list[EventRow]) -> bytes:
    """Return the notification of events up to and including `after`; they are in it as the ledger has them."""
    events = b",".join(
        b'{"seq":%d,"goal":%b,"event":%b}' % (row.seq, json.dumps(row.goal).encode(), row.body)
        for row in rows
    )
    head = b'{"jsonrpc":"2.0","method":"events","params":{"after":"%b","events":['
    return b"%b%b]}}\n" % (head % str(after).encode(), events)
