"""A goal under the daemon: every call is a request of the worker protocol, and the daemon judges and records.

It shows the state of the last `hello`, and says hello again when the state is read after a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.record.model import Action, Goal, StepStatus, Subtask, Task
from clew_shared.record.scope import EVERYWHERE, Scope, Tally
from clew_shared.record.signature import signature
from clew_shared.record.spec import Spec
from clew_shared.record.state import ProbeSeen, State
from clew_shared.wire import protocol
from clew_shared.wire.answers import Advanced, Finished, Judged, Noted, Recorded
from clew_shared.wire.hello import Call, FinishedSubtask, HelloAnswer, SentGoal, SentSubtask
from clew_worker.agent.rpc import RpcError
from clew_worker.library.open_goal import OpenGoal, answer_of, intervention_of
from clew_worker.library.sync_client import SyncClient
from clew_worker.library.work_state import Answer, Edit, WorkState

_OVER = (StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.FAILED)


def state_of(hello: HelloAnswer) -> State:
    """Return the state in an answer to `hello`, as far as an agent is shown one."""
    sent = hello.state
    goal = _goal(sent.goal)
    goal.reached = sent.progress
    _add_summaries(goal, sent.finished)
    heads = {entry.seq: entry.output for entry in sent.transcript if isinstance(entry, Call)}
    scope = Scope(
        loop_counts=dict(sent.loop_counts),
        blocks={s: {EVERYWHERE: "blocked"} for s in sent.blocked_actions},
    )
    state = State(
        goal_id=hello.goal_id,
        goal=goal,
        spec=Spec(description=goal.description, notes=hello.notes),
        current_task_idx=sent.current_task_idx,
        current_subtask_idx=sent.current_subtask_idx,
        scope=scope,
        last_probe_state=sent.last_probe_state | {n: p.passed for n, p in sent.probes.items()},
        probes_seen={
            n: seen_probe(p.passed, p.after, current=p.current) for n, p in sent.probes.items()
        },
        last_action=max((a.seq for s in sent.subtasks for a in s.actions), default=0),
        iteration=sent.iteration,
        epoch=sent.epoch,
        restarts=sent.restarts,
        seq=sent.seq,
        feedback=list(hello.feedback),
        set_aside=list(sent.given_up),
        replan_required=sent.replan_required or "",
    )
    for action in state.subtask.actions if state.subtask else ():
        name = signature(action.name, action.args)
        tally = Tally(seq=action.seq, result=action.result, head=heads.get(action.seq, ""))
        scope.tallies.setdefault(name, {})[str(action.seq)] = tally
    return state


def seen_probe(passed: bool, after: int, *, current: bool) -> ProbeSeen:
    """Return a probe of a workspace whose state has no name here: what is current was seen in the same one."""
    return ProbeSeen(passed, "" if current else "before", after)


def changed_since(state: State, seq: int) -> bool:
    """Return whether an action after this one may have changed the workspace, as far as the tree shows it."""
    actions = (a for t in state.goal.tasks for s in t.subtasks for a in s.actions)
    return any(a.seq > seq and a.result != "blocked" and a.changed is not False for a in actions)


def _goal(sent: SentGoal) -> Goal:
    tasks = [Task(t.description, [*map(_subtask, t.subtasks)], t.status) for t in sent.tasks]
    return Goal(sent.description, tasks, sent.status)


def _subtask(sent: SentSubtask) -> Subtask:
    return Subtask(
        sent.description,
        sent.status,
        sent.attempts,
        sent.last_failure or "",
        sent.actions_total,
        actions=[Action(**action.model_dump()) for action in sent.actions],
        steps=[step.model_dump() for step in sent.steps],
    )


def _add_summaries(goal: Goal, finished: Iterable[FinishedSubtask]) -> None:
    """Add the summaries of the finished subtasks, which are sent beside the tree, to the tree."""
    over = (s for t in goal.tasks for s in t.subtasks if s.status in _OVER)
    for subtask, sent in zip(over, finished, strict=False):
        if sent.description == subtask.description:
            subtask.summary = sent.summary


def is_untouched(state: State) -> bool:
    """Return whether there is only the implicit subtask, without any work in it."""
    steps = [s for t in state.goal.tasks for s in t.subtasks]
    implicit = len(steps) == 1 and steps[0].description == state.goal.description
    return implicit and not steps[0].actions_total and not steps[0].attempts


def shape_of(goal: Goal) -> list[tuple[str, list[str]]]:
    """Return the descriptions in a tree, by which a manual change of it is noticed."""
    return [(t.description, [s.description for s in t.subtasks]) for t in goal.tasks]


def graft(old: Goal, new: Goal) -> Goal:
    """Update the agent's own objects in place, so that its references stay valid."""
    if old.description != new.description:
        old.description = new.description
    old.status, old.reached, tasks = new.status, new.reached, new.tasks
    before = dict(enumerate(old.tasks))
    old.tasks[:] = [_graft_task(before.get(i), task) for i, task in enumerate(tasks)]
    return old


def _graft_task(old: Task | None, new: Task) -> Task:
    if old is None or old.description != new.description:
        return new
    old.status = new.status
    before = dict(enumerate(old.subtasks))
    old.subtasks[:] = [_graft_subtask(before.get(i), s) for i, s in enumerate(new.subtasks)]
    return old


def _graft_subtask(old: Subtask | None, new: Subtask) -> Subtask:
    if old is None or old.description != new.description:
        return new
    for name in ("status", "attempts", "last_failure", "actions_total", "summary", "steps"):
        setattr(old, name, getattr(new, name))
    old.actions[:] = new.actions
    return old


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
