"""What answers each request of the control socket; those on goals and strategies are in files of their own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from clew_daemon.control import requests
from clew_daemon.control.follow import Following
from clew_daemon.control.goal_changes import GoalChanges, trouble, with_room
from clew_daemon.control.goal_edits import GoalEdits
from clew_daemon.control.goal_lookup import GoalLookup, fault, handler
from clew_daemon.control.goal_messages import GoalMessages
from clew_daemon.control.playbook_requests import PlaybookRequests
from clew_daemon.control.server import Handler
from clew_daemon.control.undo_requests import UndoRequests
from clew_daemon.host.last_known import LastKnown
from clew_daemon.inbox.leftovers import Left, left
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.cells import executor_env
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.record.doing import now_view, running_action
from clew_daemon.record.goal_limits import attempt_limits
from clew_daemon.record.store import listed
from clew_daemon.supervision import schedule
from clew_daemon.supervision.supervisor import Supervisor
from clew_daemon.undo.undo import Undo
from clew_shared.config.settings import SettingChange
from clew_shared.ledger import LedgerState
from clew_shared.ledger.errors import BOUNDS_S
from clew_shared.record.state import State
from clew_shared.views.publish import goal_detail, status_view


class ControlHandlers:
    """Answers requests about the daemon as a whole; `view` describes it, `reload` reloads its config."""

    def __init__(
        self,
        daemon: DaemonParts,
        supervisor: Supervisor,
        undo: Undo,
        view: Callable[[], Awaitable[dict[str, Any]]],
        reload: Callable[[], Awaitable[list[SettingChange]]],
    ) -> None:
        self._daemon = daemon
        self._supervisor = supervisor
        self._undo = undo
        self._view = view
        self._apply_config = reload
        self._lookup = GoalLookup(daemon.goals)
        self._inbox_left = LastKnown(lambda: left(daemon.places.inbox), Left())

    def by_method(self) -> dict[str, Handler]:
        """Return the handler of each method."""
        messages = GoalMessages(self._daemon, self._supervisor, self._lookup)
        change = GoalChanges(self._daemon, self._supervisor, self._lookup).change
        edits = GoalEdits(self._daemon, self._supervisor, self._lookup)
        undo = UndoRequests(self._undo, self._supervisor, self._lookup)
        playbook = PlaybookRequests(self._daemon)
        recorded = partial(with_room, self._daemon.goals.ledger)
        following = Following(self._daemon.goals, self._lookup, self._status)
        return {
            **handler(requests.PingRequest, self._ping),
            **handler(requests.HealthRequest, self._health),
            **handler(requests.StatusRequest, self._status),
            **handler(requests.FollowRequest, following.follow),
            **handler(requests.ReloadRequest, self._reload),
            **handler(requests.SettingsRequest, self._settings),
            **handler(requests.ExecutorEnvRequest, self._executor_env),
            **handler(requests.FeedbackRequest, recorded(messages.feedback)),
            **handler(requests.UnblockRequest, recorded(messages.unblock)),
            **handler(requests.PauseRequest, change),
            **handler(requests.ContinueRequest, recorded(change)),
            **handler(requests.ResumeRequest, recorded(change)),
            **handler(requests.CancelRequest, change),
            **handler(requests.RetryRequest, recorded(change)),
            **handler(requests.RemoveRequest, recorded(change)),
            **handler(requests.EditRequest, recorded(edits.edit)),
            **handler(requests.UndoRequest, undo.answer),
            **handler(requests.RemoveStrategyRequest, recorded(playbook.remove)),
            **handler(requests.RestoreStrategyRequest, recorded(playbook.restore)),
            **handler(requests.PruneRequest, recorded(playbook.prune)),
            **handler(requests.ImportRequest, recorded(playbook.import_)),
        }

    async def _ping(self, _: requests.PingRequest) -> dict[str, Any]:
        return await self._view()

    async def _health(self, _: requests.HealthRequest) -> dict[str, Any]:
        ledger = self._daemon.goals.ledger
        times = ledger.commit_times
        commits = {"bounds_s": BOUNDS_S, "counts": list(times.counts), "sum_s": times.sum_s}
        return {"ledger": ledger.state.value, "commits": commits}

    async def _settings(self, _: requests.SettingsRequest) -> dict[str, Any]:
        """Return what the config sets, and no defaults: what applies to a model depends on what is set."""
        return self._daemon.settings.model_dump(mode="json", exclude_unset=True)

    async def _executor_env(self, _: requests.ExecutorEnvRequest) -> dict[str, Any]:
        """Return the environment of executors: for `clew doctor`, which may have been started with another one."""
        daemon = self._daemon
        return {**executor_env(daemon.settings, daemon.keys.env, daemon.git)}

    async def _reload(self, _: requests.ReloadRequest) -> dict[str, Any]:
        changes = await self._apply_config()
        return {
            "changes": [
                {"key": c.key, "old": c.old, "new": c.new, "live": c.live, "applies": c.applies}
                for c in changes
            ]
        }

    async def _status(self, request: requests.StatusRequest) -> dict[str, Any]:
        if request.goal:
            return await self._status_of_goal(request.goal)
        if request.limit is not None and request.limit < 0:
            raise fault("limit", request.limit)
        before = request.before
        last = None if before is None else self._lookup.find(before).state.accepted_seq
        states, now = self._daemon.goals.states(), time.time()
        running = self._supervisor.running
        shown, left_out = listed(states.values(), request.limit, last)
        known = KnownGoals(states, self._daemon.goals.gone)
        goals = [
            {
                **status_view(
                    state,
                    now,
                    self._waits_for(state, known, running, now),
                    stuck=schedule.is_stuck(state, known),
                ),
                "now": self._current_work(state),
            }
            for state in shown
        ]
        for view in goals:
            self._mark_unrecorded(view)
        left = await self._inbox_left.now()
        more = {"more": left_out > 0, "left_out": left_out}
        return {"daemon": await self._view(), "goals": goals, **more, **left.view()}

    async def _status_of_goal(self, goal: str) -> dict[str, Any]:
        state = (await self._lookup.whole(goal)).state
        running, now = self._supervisor.running, time.time()
        known = KnownGoals(self._daemon.goals.states(), self._daemon.goals.gone)
        waits = self._waits_for(state, known, running, now, hint=True)
        limit = attempt_limits(state, self._daemon.settings).limit
        stuck = schedule.is_stuck(state, known)
        detail = {**goal_detail(state, now, waits, stuck=stuck), "attempt_limit": limit}
        view = {**detail, "now": self._current_work(state)}
        self._mark_unrecorded(view)
        return {"daemon": await self._view(), "goal": view}

    def _waits_for(
        self, state: State, known: KnownGoals, running: list[str], now: float, *, hint: bool = False
    ) -> str:
        if state.paused and (action := running_action(state, now)):
            return f"pausing after {action}"
        return schedule.waits_for(state, known, running, now, hint=hint)

    def _mark_unrecorded(self, view: dict[str, Any]) -> None:
        """Add to an answer that what it shows has no room on the disk yet, and would be lost with the daemon."""
        goals = self._daemon.goals
        if goals.ledger.state is LedgerState.FULL and goals.recorder.is_committing(view["id"]):
            reason = f"not yet on record: {trouble(goals.ledger)}"
            view["reason"] = f"{view['reason']}; {reason}" if view["reason"] else reason

    def _current_work(self, state: State) -> dict[str, Any] | None:
        session = self._supervisor.session(state.goal_id)
        return now_view(state, session.work if session else None)
