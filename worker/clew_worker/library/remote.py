"""A goal under the daemon: calls are requests of the worker protocol; the state is that of the last `hello`."""

import asyncio
import atexit
import os
import socket
import threading
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.prompt.compact import RECENT_ACTIONS
from clew_shared.record.model import Goal, StepStatus, Subtask, Task
from clew_shared.record.scope import EVERYWHERE, Loops, Scope, Tally
from clew_shared.record.spec import Spec
from clew_shared.record.state import Guidance, Plan, ProbeSeen, Proofs, State
from clew_shared.wire import protocol
from clew_shared.wire.answers import Advanced, Finished, Judged, Noted
from clew_shared.wire.hello import Call, HelloAnswer
from clew_worker.agent.client import A, AgentClient, RpcError
from clew_worker.agent.written import PlanTask, Tasks
from clew_worker.library.open_goal import Answer, WorkState, answer_of

T = TypeVar("T")
P = TypeVar("P", Goal, Task, Subtask)
AGENT = "clew_worker.ContextManager/1"

_OVER = (StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.FAILED)
_OF_STATE = ["current_task_idx", "current_subtask_idx", "iteration", "epoch", "restarts", "seq"]


class SyncClient:
    """The connection to the daemon: an `AgentClient` on a loop in a thread, which sends the heartbeats."""

    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="clew-daemon", daemon=True).start()
        self.daemon = AgentClient(sock)
        self.wait(self.daemon.__aenter__())
        atexit.register(self._close)

    def wait(self, doing: Coroutine[Any, Any, T]) -> T:
        """Return what comes of a request to the daemon."""
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    def _close(self) -> None:
        self.wait(self.daemon.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)


@cache
def daemon_of(fd: int) -> SyncClient:
    """Return the one client of a descriptor: two readers would split each other's lines."""
    os.set_inheritable(fd, False)
    return SyncClient(socket.socket(fileno=fd))


class RemoteGoal:
    """The goal that the daemon has assigned; raises WrongState for a call that is impossible now, and Disconnected."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._state = State()
        self._probes: dict[str, tuple[bool, int]] = {}
        """What the agent's own probes have found, each with the last action before it."""
        self._stale = True
        self.failing: dict[str, str] = {}
        """The checks that the last `finish` failed by, with their outputs."""
        self.recent_actions = RECENT_ACTIONS
        self.loops_found: list[dict[str, Any]] = []  # the protocol does not send them
        self._work = WorkState(self._state)
        self._shape = _shape_of(self._state.goal)

    @property
    def work(self) -> WorkState:
        self._look()
        return self._work

    def record(self, tool: str, args: dict[str, Any], report: ActionReport) -> Answer:
        told = {"result": report.result, "output": report.output, "changed": report.changed}
        return answer_of(self._call(Judged, "record", tool=tool, args=args, **told))

    def propose(self, tool: str, args: dict[str, Any]) -> Answer:
        return answer_of(self._call(Judged, "propose", tool=tool, args=args))

    def outcome(self, seq: int, report: ActionReport) -> Answer:
        told = {"result": report.result, "output": report.output, "changed": report.changed}
        return answer_of(self._call(Noted, "outcome", seq=seq, **told), seq)

    def see_probes(self, probes: dict[str, bool]) -> None:
        """Store facts about the workspace, for the context only: the daemon has its own checks."""
        after = self.work.recorded.proofs.last_action
        self._probes |= {name: (passed, after) for name, passed in probes.items()}
        self._show_probes()
        self._work.note(self._state)

    def complete(self, reason: str, *, success: bool) -> str | None:
        name = "summary" if success else "failure"
        told = {"success": success, name: reason}
        return self._call(Noted, "complete_subtask", **told).escalated_to

    def advance(self) -> bool:
        self.settle()
        if self._state.plan.replan_required:
            self._replan()
        return self._call(Advanced, "advance").subtask is not None

    def finish(self, summary: str, *, success: bool, tests_changed: str = "") -> bool:
        """End the goal as done or failed; False if the daemon does not accept that."""
        told = {"success": success, "summary": summary, "tests_changed": tests_changed}
        answer = self._call(Finished, "finish", **told)
        self.failing = {check.name: check.output for check in answer.failing_checks}
        if answer.proof:
            self.failing["proof"] = answer.message
        return answer.accepted

    def settle(self) -> None:
        """Send a changed tree as a plan, or the replan that the daemon waits for; it accepts no other manual change."""
        self._look()
        edit = self._work.edit()
        if edit is None:
            return
        if _shape_of(self._state.goal) == self._shape:
            self._stale = True  # manual marks have no effect here
        elif self._state.plan.replan_required:
            self._replan(edit.new)
        else:
            self._plan([_planned(one, one.subtasks) for one in self._state.goal.tasks], None)

    save = settle

    def close(self) -> None:
        """Do nothing: the connection belongs to the process and ends with it."""

    def _call(self, answer: type[A], method: str, **params: object) -> A:
        self.settle()
        self._stale = True
        return self._ask(answer, method, **params)

    def _ask(self, answer: type[A], method: str, **params: object) -> A:
        try:
            return self._client.wait(self._client.daemon.ask(answer, method, **params))
        except RpcError as error:
            if error.code == protocol.WRONG_STATE:
                raise WrongState(error.message) from error
            raise

    def _plan(self, tasks: Tasks, replan: str | None) -> None:
        """Send a plan; a replan has all that is left to do, so what is not in it was removed by the agent."""
        self._stale = True  # refused or not, the daemon's state is shown next
        # without `covers`, it replaces all that is pending
        self._ask(Noted, "plan", tasks=tasks, replan=replan)
        self._look()

    def _replan(self, new: Collection[Subtask] = ()) -> None:
        """Plan the remaining work of the task or the goal, with the subtasks that were added manually."""
        state, added = self._state, {id(subtask) for subtask in new}
        level = "task" if state.plan.replan_required == "task" else "goal"
        tasks = [t for t in state.goal.tasks if any(one.open for one in t.subtasks)]
        if level == "task":  # alternatives may be in a task of their own
            tasks = [t for t in tasks if t is state.task or any(id(s) in added for s in t.subtasks)]
        if not tasks:
            stuck = f"the subtask is blocked and nothing else is left in its {level}"
            raise WrongState(f"{stuck}: append an alternative to its task's subtasks first")
        plan: Tasks = [_planned(task, [s for s in task.subtasks if s.open]) for task in tasks]
        if level == "task" and state.task:
            subtasks = [subtask for task in plan for subtask in task["subtasks"]]
            plan = [{"description": state.task.description, "subtasks": subtasks}]
        self._plan(plan, level)

    def _look(self) -> None:
        if not self._stale:
            return
        old = self._state.goal
        hello = self._client.wait(self._client.daemon.greet(AGENT))
        self._state = state_of(hello)
        self.recent_actions = hello.options.context.recent_actions
        self._state.goal = _graft(old, self._state.goal)
        self._show_probes()
        goal, steps = self._state.goal, self._state.goal.subtasks
        implicit = [step.description for step in steps] == [goal.description]
        if implicit and not steps[0].actions_total and not steps[0].attempts:
            goal.tasks.clear()  # the agent brings the tree
        self._shape = _shape_of(self._state.goal)
        self._work.note(self._state)
        self._stale = False

    def _show_probes(self) -> None:
        """Show the agent's own probes; one is current while no later action may have changed anything."""
        actions = [a for s in self._state.goal.subtasks for a in s.actions if a.result != "blocked"]
        last = max((a.seq for a in actions if a.changed is not False), default=0)
        for name, (passed, after) in self._probes.items():
            self._state.probes[name] = ProbeSeen(passed, "before" if last > after else "", after)


def state_of(hello: HelloAnswer) -> State:
    """Return the state in an answer to `hello`, as far as an agent is shown one."""
    sent = hello.state
    calls = [entry for entry in sent.transcript if isinstance(entry, Call)]
    scope = Scope(
        loop_counts=dict(sent.loop_counts),
        blocks={s: {EVERYWHERE: "blocked"} for s in sent.blocked_actions},
        tallies={str(one.seq): {"": Tally(seq=one.seq, head=one.output)} for one in calls},
    )
    state = State(
        **{name: getattr(sent, name) for name in _OF_STATE},
        goal_id=hello.goal_id,
        goal=sent.goal,
        spec=Spec(description=sent.goal.description, notes=hello.notes),
        probes={
            name: ProbeSeen(probe.passed, "" if probe.current else "before", probe.after)
            for name, probe in sent.probes.items()
        },
        loops=Loops(scope),
        plan=Plan(replan_required=sent.replan_required or "", set_aside=list(sent.given_up)),
        guidance=Guidance(list(hello.feedback)),
        proofs=Proofs(
            last_action=max((a.seq for s in sent.goal.subtasks for a in s.actions), default=0),
        ),
    )
    over = (one for one in sent.goal.subtasks if one.status in _OVER)
    for subtask, finished in zip(over, sent.finished, strict=False):  # summaries are sent beside it
        if finished.description == subtask.description:
            subtask.summary = finished.summary
    return state


def _shape_of(goal: Goal) -> list[tuple[str, list[str]]]:
    return [(t.description, [s.description for s in t.subtasks]) for t in goal.tasks]


def _graft(old: P, new: P) -> P:
    """Return the agent's own part of a tree with what is new in it, so that its references stay valid."""
    if old.description != new.description:
        return new
    for one in fields(new):
        kept: Any = getattr(old, one.name)
        value: Any = getattr(new, one.name)
        if one.name in ("tasks", "subtasks"):
            value = [*map(_graft, kept, value), *value[len(kept) :]]
        if isinstance(kept, list):
            kept[:] = value
        else:
            setattr(old, one.name, value)
    return old


def _planned(task: Task, subtasks: Sequence[Subtask]) -> PlanTask:
    names = [one.description for one in subtasks] or [task.description]
    return {"description": task.description, "subtasks": [{"description": n} for n in names]}
