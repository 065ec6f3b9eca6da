"""A goal under the daemon: every call is a request of the worker protocol, and the daemon judges and records.

It shows the state of the last `hello`, and says hello again when the state is read after a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.record.model import StepStatus, Subtask, Task
from clew_shared.record.state import State
from clew_shared.wire import protocol
from clew_shared.wire.answers import Advanced, Finished, Judged, Noted, Recorded
from clew_worker.agent.rpc import RpcError
from clew_worker.library.open_goal import OpenGoal, answer_of, intervention_of
from clew_worker.library.remote_state import (
    changed_since,
    graft,
    is_untouched,
    seen_probe,
    shape_of,
    state_of,
)
from clew_worker.library.work_state import Answer, Edit, WorkState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_worker.library.sync_client import SyncClient

AGENT = "clew_worker.ContextManager/1"


class RemoteGoal(OpenGoal):
    """The goal that the daemon has assigned to this process.

    Raises WrongState where the daemon refuses a call as impossible now, and `Disconnected` where it is gone.
    """

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._state = State()
        self._probes: dict[str, tuple[bool, int]] = {}
        """What the agent's own probes have found, each with the last action before it."""
        self._stale = True
        self._work = WorkState(self._state)
        self._shape = shape_of(self._state.goal)

    @property
    def work(self) -> WorkState:
        self._look()
        return self._work

    @property
    def state(self) -> State:
        self._look()
        return self._state

    # -- calls -------------------------------------------------------------------------------------

    def record(self, tool: str, args: dict[str, Any], report: ActionReport) -> Answer:
        answer = Recorded.model_validate(
            self._call("record", tool=tool, args=args, **_outcome(report))
        )
        return answer_of(answer, allowed=answer.allowed)

    def propose(self, tool: str, args: dict[str, Any]) -> Answer:
        answer = Judged.model_validate(self._call("propose", tool=tool, args=args))
        return answer_of(answer, allowed=answer.verdict == "allowed")

    def outcome(self, seq: int, report: ActionReport) -> Answer:
        noted = Noted.model_validate(self._call("outcome", seq=seq, **_outcome(report)))
        told = intervention_of(noted.intervention)
        return Answer(True, seq, intervention=told, escalated_to=noted.escalated_to)

    def see_probes(self, probes: dict[str, bool]) -> None:
        """Store facts about the workspace, for the context only: the daemon has its own checks."""
        after = self.state.last_action
        self._probes |= {name: (passed, after) for name, passed in probes.items()}
        self._show_probes()
        self._work.note(self._state)

    def complete(self, reason: str, *, success: bool) -> str | None:
        text = {"summary": reason} if success else {"failure": reason}
        level = self._call("complete_subtask", success=success, **text).get("escalated_to")
        return str(level) if level else None

    def _advance(self) -> bool:
        self.settle()
        if self._state.replan_required:
            self._replan()
        return Advanced.model_validate(self._call("advance")).subtask is not None

    def finish(self, summary: str, *, success: bool) -> bool:
        """End the goal as done or failed; False if the daemon does not accept that."""
        answer = Finished.model_validate(self._call("finish", success=success, summary=summary))
        self.failing = {check.name: check.output for check in answer.failing_checks}
        return answer.accepted

    def settle(self) -> None:
        """Send a changed tree as a plan, or the replan that the daemon waits for; it accepts no other manual change."""
        self._look()
        edit = self._work.edit()
        if edit is None:
            return
        goal = self._state.goal
        if shape_of(goal) == self._shape:
            self._stale = True  # manual marks have no effect here
        elif self._state.replan_required:
            self._replan(edit)
        else:
            self._plan([_planned(t) for t in goal.tasks], None)

    def close(self) -> None:
        """Do nothing: the connection belongs to the process and ends with it."""

    # -- requests ----------------------------------------------------------------------------------

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self.settle()
        self._stale = True
        return self._ask(method, **params)

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        try:
            return dict(self._client.call(method, **params) or {})
        except RpcError as error:
            if error.code == protocol.WRONG_STATE:
                raise WrongState(error.message) from error
            raise

    def _plan(self, tasks: list[dict[str, Any]], replan: str | None) -> None:
        """Send a plan; a replan has all that is left to do, so what is not in it was removed by the agent."""
        self._stale = True  # refused or not, the daemon's state is shown next
        self._ask(
            "plan", tasks=tasks, replan=replan
        )  # without `covers`, it replaces all that is pending
        self._look()

    def _replan(self, edit: Edit | None = None) -> None:
        """Plan the remaining work of the task or the goal, with the subtasks that were added manually."""
        state, level = self._state, self._state.replan_required
        new = {id(subtask) for subtask in edit.new} if edit else set()
        if level == "task" and state.task:
            self._plan([_replanned_task(state, state.task, new)], "task")
            return
        tasks = state.goal.tasks if level == "goal" else [state.task] if state.task else []
        tasks = [task for task in tasks if any(_to_do(s, new) for s in task.subtasks)]
        _require(tasks, level)
        self._plan([_planned(task, new) for task in tasks], "goal")

    def _look(self) -> None:
        if not self._stale:
            return
        old = self._state.goal
        hello = self._client.greet(AGENT)
        self._state = state_of(hello)
        self.recent_actions = hello.options.context.recent_actions
        self._state.goal = graft(old, self._state.goal)
        self._show_probes()
        if is_untouched(self._state):
            self._state.goal.tasks.clear()  # the agent brings the tree
        self._shape = shape_of(self._state.goal)
        self._work.note(self._state)
        self._stale = False

    def _show_probes(self) -> None:
        state = self._state
        for name, (passed, after) in self._probes.items():
            current = not changed_since(state, after)
            state.last_probe_state[name] = passed
            state.probes_seen[name] = seen_probe(passed, after, current=current)


def _outcome(report: ActionReport) -> dict[str, Any]:
    outcome = {"result": report.result, "output": report.output, "changed": report.changed}
    return {k: v for k, v in outcome.items() if v is not None}


def _replanned_task(state: State, task: Task, new: set[int]) -> dict[str, Any]:
    """Return the plan of a blocked task: what is left in it, and alternatives, which may be in a task of their own."""
    tasks = [t for t in state.goal.tasks if t is task or any(id(s) in new for s in t.subtasks)]
    left = [s.description for t in tasks for s in t.subtasks if _to_do(s, new)]
    _require(left, "task")
    return {"description": task.description, "subtasks": [{"description": d} for d in left]}


def _require(left: Sequence[object], level: str) -> None:
    if not left:
        raise WrongState(
            f"the subtask is blocked and nothing else is left in its {level}: "
            "append an alternative to its task's subtasks first"
        )


def _to_do(subtask: Subtask, new: set[int]) -> bool:
    return id(subtask) in new or subtask.status == StepStatus.PENDING


def _planned(task: Task, new: set[int] | None = None) -> dict[str, Any]:
    steps = [s for s in task.subtasks if new is None or _to_do(s, new)]
    names = [s.description for s in steps] or [task.description]
    return {"description": task.description, "subtasks": [{"description": n} for n in names]}
