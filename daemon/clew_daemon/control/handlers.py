"""The methods of the control socket: one function each; those about goals and strategies are in files of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from clew_daemon.control.goal_requests import GoalRequests
from clew_daemon.control.playbook_requests import PlaybookRequests
from clew_daemon.control.server import ControlError
from clew_daemon.host.last_known import LastKnown
from clew_daemon.inbox.leftovers import InboxLeft, Left
from clew_daemon.processes.cells import executor_env
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.record.doing import now_view
from clew_daemon.record.store import listed
from clew_daemon.supervision import schedule
from clew_shared.views.publish import goal_detail, status_view

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clew_daemon.control.server import Handler
    from clew_daemon.parts import DaemonParts
    from clew_daemon.supervision.supervisor import Supervisor
    from clew_shared.config.settings import SettingChange
    from clew_shared.record.state import State


class ControlHandlers:
    """Answers requests about the daemon as a whole; `view` describes it, `reload` reloads its config."""

    def __init__(
        self,
        daemon: DaemonParts,
        supervisor: Supervisor,
        view: Callable[[], Awaitable[dict[str, Any]]],
        reload: Callable[[], Awaitable[list[SettingChange]]],
    ) -> None:
        self._daemon = daemon
        self._supervisor = supervisor
        self._view = view
        self._apply_config = reload
        self._goals = GoalRequests(daemon, supervisor)
        self._inbox_left = LastKnown(InboxLeft(daemon.places.inbox).look, Left())

    def by_method(self) -> dict[str, Handler]:
        """Return the handler of each method."""
        return {
            "ping": self._ping,
            "status": self._status,
            "reload": self._reload,
            "settings": self._settings,
            "executor_env": self._executor_env,
            "feedback": self._goals.feedback,
            "unblock": self._goals.unblock,
            "pause": self._goals.pause,
            "resume": self._goals.resume,
            "cancel": self._goals.cancel,
            "retry": self._goals.retry,
            **PlaybookRequests(self._daemon).handlers(),
        }

    async def _ping(self, _: dict[str, Any]) -> dict[str, Any]:
        return await self._view()

    async def _settings(self, _: dict[str, Any]) -> dict[str, Any]:
        return self._daemon.settings.model_dump(mode="json")

    async def _executor_env(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return the environment of executors: for `clew doctor`, which may have been started with another one."""
        daemon = self._daemon
        return {**executor_env(daemon.settings, daemon.keys.env, daemon.git)}

    async def _reload(self, _: dict[str, Any]) -> dict[str, Any]:
        changes = await self._apply_config()
        return {
            "changes": [
                {"key": c.key, "old": c.old, "new": c.new, "live": c.live, "applies": c.applies}
                for c in changes
            ]
        }

    async def _status(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("goal"):
            return await self._status_of_goal(params)
        before, limit = params.get("before"), params.get("limit")
        if limit is not None and (type(limit) is not int or limit < 0):
            raise ControlError(
                f"`limit` is {limit!r}; it must be a number of goals, or null for all"
            )
        last = None if before is None else self._goals.find({"goal": before}).state.accepted_seq
        states, now = self._daemon.goals.states(), time.time()
        running = self._supervisor.running
        shown, more = listed(states.values(), limit, last)
        known = KnownGoals(states, self._daemon.goals.gone)
        goals = [
            {
                **status_view(state, now, schedule.waits_for(state, known, running, now)),
                "now": self._current_work(state),
            }
            for state in shown
        ]
        left = await self._inbox_left.now()
        return {"daemon": await self._view(), "goals": goals, "more": more, **left.view()}

    async def _status_of_goal(self, params: dict[str, Any]) -> dict[str, Any]:
        state = (await self._goals.whole(params)).state
        running, now = self._supervisor.running, time.time()
        known = KnownGoals(self._daemon.goals.states(), self._daemon.goals.gone)
        waits = schedule.waits_for(state, known, running, now, hint=True)
        goal = {**goal_detail(state, now, waits), "now": self._current_work(state)}
        return {"daemon": await self._view(), "goal": goal}

    def _current_work(self, state: State) -> dict[str, Any] | None:
        session = self._supervisor.session(state.goal_id)
        return now_view(state, session.work if session else None)
