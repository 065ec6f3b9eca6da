"""What answers each request of the control socket: those about the daemon, the playbook and undo are answered here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from clew_daemon.control import requests as rq
from clew_daemon.control.follow import Following
from clew_daemon.control.goal_changes import GoalChanges, trouble
from clew_daemon.control.lookup import GoalAnswer, GoalLookup, answer, handler
from clew_daemon.control.server import ControlError, Handler
from clew_daemon.host.tasks import LastKnown
from clew_daemon.inbox.leftovers import Left, left
from clew_daemon.learning.deltas import from_entry
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.cells import executor_env
from clew_daemon.publish.standing import standing
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.record.doing import now_view, running_action
from clew_daemon.record.goal_limits import limits_of
from clew_daemon.record.store import listed
from clew_daemon.supervision import schedule
from clew_daemon.supervision.supervisor import Supervisor
from clew_daemon.undo.planning import UndoRefused
from clew_daemon.undo.undo import Undo, VisitFailed
from clew_daemon.undo.view import undo_view
from clew_shared.config.settings import SettingChange
from clew_shared.ledger import LedgerState
from clew_shared.ledger.errors import BOUNDS_S
from clew_shared.record.life_events import GoalEnded
from clew_shared.record.model import GoalStatus
from clew_shared.record.snapshot_events import ProofAccepted
from clew_shared.record.state import State
from clew_shared.snapshots.store import StoreError
from clew_shared.text.redact import redact
from clew_shared.views.publish import goal_detail, status_view

JsonObject = Mapping[str, Any]

END_S = 60.0  # How long an undo waits for the end of a worker whose goal is no longer at work


class ControlHandlers:
    """Answers requests; `view` describes the daemon, `reload` reloads its config."""

    def __init__(
        self,
        daemon: DaemonParts,
        supervisor: Supervisor,
        undo: Undo,
        view: Callable[[], Awaitable[JsonObject]],
        reload: Callable[[], Awaitable[list[SettingChange]]],
    ) -> None:
        self._d = daemon
        self._goals = daemon.goals
        self._supervisor = supervisor
        self._lookup = GoalLookup(daemon.goals)
        self._undo = undo
        self._view = view
        self._apply_config = reload
        nothing = Left(inbox=[], inbox_total=0)
        self._inbox_left = LastKnown(lambda: left(daemon.places.inbox), nothing)

    def by_method(self) -> dict[str, Handler]:
        """Return the handler of each method."""
        goals = GoalChanges(self._d, self._supervisor, self._lookup)
        recorded = partial(handler, record=self._goals.ledger)
        following = Following(self._goals, self._lookup, self._status)
        return {
            **handler(rq.PingRequest, lambda _: self._view()),
            **handler(rq.HealthRequest, self._health),
            **handler(rq.StatusRequest, self._status),
            **handler(rq.FollowRequest, following.follow),
            **handler(rq.ReloadRequest, self._reload),
            **handler(rq.SettingsRequest, self._settings),
            **handler(rq.ExecutorEnvRequest, self._executor_env),
            **recorded(rq.FeedbackRequest, goals.feedback),
            **recorded(rq.UnblockRequest, goals.unblock),
            **handler(rq.PauseRequest, goals.change),
            **recorded(rq.ContinueRequest, goals.change),
            **recorded(rq.ResumeRequest, goals.change),
            **handler(rq.CancelRequest, goals.change),
            **recorded(rq.RetryRequest, goals.change),
            **recorded(rq.RemoveRequest, goals.change),
            **recorded(rq.EditRequest, goals.edit),
            **handler(rq.UndoRequest, self._undo_goal),
            **recorded(rq.AcceptRequest, self._accept),
            **recorded(rq.RemoveStrategyRequest, self._move_strategy),
            **recorded(rq.RestoreStrategyRequest, self._move_strategy),
            **recorded(rq.PruneRequest, self._prune),
            **recorded(rq.ImportRequest, self._import),
        }

    # -- the daemon ----------------------------------------------------------------------------------

    async def _health(self, _: rq.HealthRequest) -> JsonObject:
        ledger = self._goals.ledger
        times = ledger.times
        commits = {"bounds_s": BOUNDS_S, "counts": list(times.counts), "sum_s": times.sum_s}
        return {"ledger": ledger.state.value, "commits": commits}

    async def _settings(self, _: rq.SettingsRequest) -> JsonObject:
        """Return what the config sets, and no defaults: what applies to a model depends on what is set."""
        return self._d.settings.model_dump(mode="json", exclude_unset=True)

    async def _executor_env(self, _: rq.ExecutorEnvRequest) -> JsonObject:
        """Return the environment of executors: for `clew doctor`, which may have been started with another one."""
        return {**executor_env(self._d.settings, self._d.keys.env, self._d.git)}

    async def _reload(self, _: rq.ReloadRequest) -> JsonObject:
        changes = await self._apply_config()
        shown = ("key", "old", "new", "applies")
        return {"changes": [{name: getattr(one, name) for name in shown} for one in changes]}

    # -- goals ---------------------------------------------------------------------------------------

    async def _status(self, request: rq.StatusRequest) -> JsonObject:
        if request.limit is not None and request.limit < 0:
            raise ControlError("`limit` is a number of goals, or null for all")
        core = await self._lookup.whole(request.goal) if request.goal else None
        states, now = self._goals.states(), time.time()
        known = KnownGoals(states, self._goals.gone)
        if core:
            limit = limits_of(core.state, self._d.settings).attempts
            view = {**self._goal_view(core.state, known, now, whole=True), "attempt_limit": limit}
            return {"daemon": await self._view(), "goal": view}
        last = self._lookup.find(request.before).state.accepted_seq if request.before else None
        shown, left_out = listed(states.values(), request.limit, last)
        goals = [self._goal_view(state, known, now, whole=False) for state in shown]
        inbox = await self._inbox_left.now()
        more = {"more": left_out > 0, "left_out": left_out}
        return {"daemon": await self._view(), "goals": goals, **more, **inbox}

    def _goal_view(self, state: State, known: KnownGoals, now: float, *, whole: bool) -> JsonObject:
        """Return a goal in the list of goals, or the `whole` of one."""
        running, goals = self._supervisor.running, self._goals
        waits = schedule.waits_for(state, known, running, now)
        if state.paused and (action := running_action(state, now)):
            waits = f"pausing after {action}"
        stuck, session = schedule.is_stuck(state, known), self._supervisor.session(state.goal_id)
        view = (goal_detail if whole else status_view)(state, now, waits, stuck=stuck)
        view["now"] = now_view(state, session.work if session else None)
        if goals.ledger.state is LedgerState.FULL and goals.is_committing(state.goal_id):
            # what it shows would be lost with the daemon
            reason = f"not yet on record: {trouble(goals.ledger)}"
            view["reason"] = f"{view['reason']}; {reason}" if view["reason"] else reason
        return view

    async def _accept(self, request: rq.AcceptRequest) -> GoalAnswer:
        """End a goal whose finish a label refuses, if its workspace is as a person was shown it."""
        core = await self._lookup.whole(request.goal)
        made, goal = core.state.proofs.made, core.state.goal_id
        if core.state.goal.status != GoalStatus.BLOCKED or made is None or not made.asked:
            shown = standing(status_view(core.state))
            raise ControlError(f"{goal} is {shown}: no proof of it is asked about")
        await self._supervisor.halt(goal, "accept")
        with self._supervisor.hold(goal):
            try:
                tree = await self._undo.tree_now(core)
            except VisitFailed as error:
                raise ControlError(f"{goal}: {error}") from None
            if tree != made.tree:
                raise ControlError(
                    f"{goal}: the workspace has changed since it was shown; `clew feedback {goal} …` lets it go on"
                )
            at, state, why = time.time(), core.state, redact(request.why)
            ended = GoalEnded(
                at=at, status="completed", summary=state.summary, verified=state.checked,
                proof=made.label, passed_before=state.passed_before,
            )  # fmt: skip
            with self._goals.entering(core):
                core.emit(ProofAccepted(at=at, world=made.world, tree=made.tree, why=why))
                core.emit(ended)
            await self._goals.commit(core)
        return answer(core.state, "accepted; the goal is completed")

    async def _undo_goal(self, request: rq.UndoRequest) -> JsonObject:
        """Show or perform an undo, one at a time for each goal, and only while the goal has no worker."""
        core, supervisor = await self._lookup.whole(request.goal), self._supervisor
        state, goal = core.state, core.state.goal_id
        if request.subtask is not None:
            task, index = request.subtask
            tasks = state.goal.tasks
            if not (0 <= task < len(tasks) and 0 <= index < len(tasks[task].subtasks)):
                raise ControlError(f"{goal} has no subtask {index} in a task {task}, from 0")
        if not state.workable:  # its last worker may still be ending
            await supervisor.finished(goal, END_S)
            core = await self._lookup.whole(request.goal)
        if goal in supervisor.running:
            how = f"stop it first, with `clew pause {goal}` or `clew cancel {goal}`"
            raise ControlError(f"{goal} is at work: {how}")
        if supervisor.uses(goal):
            raise ControlError(f"another undo of {goal} is in progress: try again when it is done")
        if other := supervisor.at_work_in(core.state.spec.workspace):
            raise ControlError(
                f"{goal}: {other} is at work in the same folder, or in one below or above it:"
                f" wait until it has ended, or stop it first, with `clew pause {other}`"
            )
        with supervisor.hold(goal):  # nothing was awaited since it was not busy
            try:
                what = {"theirs": request.theirs, "perform": request.perform}
                result = await self._undo.undo(
                    core, request.subtask, **what, expected=request.expected
                )
            except (UndoRefused, VisitFailed, StoreError) as error:
                half = f"\nThe workspace is half undone: `clew undo {goal}` completes it."
                undoing = core.state.snapshots.undoing
                raise ControlError(f"{goal}: {error}{half if undoing else ''}") from None
        return dict(await asyncio.to_thread(undo_view, core.state, result))

    # -- the playbook --------------------------------------------------------------------------------

    async def _move_strategy(
        self, request: rq.RemoveStrategyRequest | rq.RestoreStrategyRequest
    ) -> JsonObject:
        """Archive a strategy, or restore it from the archive."""
        try:
            if isinstance(request, rq.RemoveStrategyRequest):
                await self._d.playbook.change(lambda draft: draft.remove(request.id, "by a person"))
            else:
                await self._d.playbook.change(lambda draft: draft.restore(request.id))
        except ValueError as error:
            raise ControlError(f"{error}; see `clew playbook list --archived`") from None
        return {"id": request.id}

    async def _prune(self, request: rq.PruneRequest) -> JsonObject:
        """Archive the strategies that score below a threshold; return their ids and the threshold."""
        below = request.below
        if below is None:
            below = self._d.settings.playbook.prune_below
        if not -1 <= below <= 1:
            raise ControlError(f"`below` is {below}; a score is between -1 and 1")
        removed = await self._d.playbook.change(lambda draft: draft.prune(below))
        return {"removed": removed, "below": below}

    async def _import(self, request: rq.ImportRequest) -> JsonObject:
        if len(request.bullets) > rq.IMPORTED_AT_ONCE_MAX:
            raise ControlError(f"at most {rq.IMPORTED_AT_ONCE_MAX} strategies can be sent at once")
        try:
            bullets = [from_entry(entry) for entry in request.bullets]
            return dict(await self._d.playbook.change(lambda draft: draft.import_bullets(bullets)))
        except ValueError as error:
            raise ControlError(f"nothing was imported: {error}") from None
