"""A goal under the daemon: every call is a word of the worker protocol, and the daemon judges and records.

What it shows is what the daemon last said; it asks again when somebody looks after a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.record.model import Goal, StepStatus, Subtask, Task
from clew_shared.record.signature import signature
from clew_shared.record.spec import Spec
from clew_shared.record.state import EVERYWHERE, Scope, State, Tally
from clew_shared.wire import protocol
from clew_worker.agent.client import RpcError
from clew_worker.library.work_state import Answer, Edit, WorkState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clew_worker.library.sync_client import SyncClient

AGENT = "clew_worker.ContextManager/1"

_OVER = (StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.FAILED)
_goals: TypeAdapter[Goal] = TypeAdapter(Goal)


class RemoteGoal:
    """The goal that the daemon has given to this process.

    Raises WrongState where the daemon says that a call makes no sense now, and `Disconnected` where
    it is gone.
    """

    loops_found: tuple[dict[str, Any], ...] = ()
    """The protocol does not tell them; `.agent_context/loops.json` is for people."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self.failing: dict[str, str] = {}
        self._state = State()
        self._probes: dict[str, bool] = {}
        self._stale = True
        self._work = WorkState(self._state)
        self._shape = _shape(self._state.goal)

    @property
    def work(self) -> WorkState:
        """What the agent sees and may change."""
        self._look()
        return self._work

    @property
    def state(self) -> State:
        """The goal's state as the daemon tells it."""
        self._look()
        return self._state

    # -- calls -------------------------------------------------------------------------------------

    def record(self, tool: str, args: dict[str, Any], report: ActionReport) -> Answer:
        """Say what was already done."""
        said = {"tool": tool, "args": args, **_told(report)}
        return _answer(self._call("record", **said))

    def propose(self, tool: str, args: dict[str, Any]) -> Answer:
        """Ask whether this may be done."""
        return _answer(self._call("propose", tool=tool, args=args))

    def outcome(self, seq: int, report: ActionReport) -> Answer:
        """Say what came of an allowed action."""
        answer = self._call("outcome", seq=seq, **_told(report))
        return _answer({"allowed": True, "seq": seq, **answer})

    def see_probes(self, probes: dict[str, bool]) -> None:
        """Keep what is true of the workspace, for the context: the daemon has its own checks."""
        self._probes.update(probes)
        self.state.last_probe_state.update(probes)
        self._work.note(self._state)

    def complete(self, reason: str, *, success: bool) -> str | None:
        """End the current subtask, or count a failed attempt."""
        said = {"summary": reason} if success else {"failure": reason}
        level = self._call("complete_subtask", success=success, **said).get("escalated_to")
        return str(level) if level else None

    def advance(self) -> bool:
        """Go on to the next pending subtask; past a blocked one by a plan of what is left to do.

        Where nothing is left and all is done, the goal is said to be finished, as without a daemon.
        """
        self.settle()
        if self._state.replan_required:
            self._replan()
        if self._call("advance")["subtask"] is not None:
            return True
        steps = [s for t in self.state.goal.tasks for s in t.subtasks]
        if steps and all(StepStatus(s.status).done for s in steps):
            self.finish("", success=True)
        return False

    def finish(self, summary: str, *, success: bool) -> bool:
        """Say that the goal is done, or cannot be; False if the daemon's checks do not agree."""
        answer = self._call("finish", success=success, summary=summary)
        self.failing = {c["name"]: c["output"] for c in answer.get("failing_checks") or ()}
        return bool(answer["accepted"])

    def save(self) -> None:
        """Send what was changed by hand; the daemon publishes."""
        self.settle()

    def settle(self) -> None:
        """Send a changed tree as the plan that the daemon may wait for; it takes nothing else by hand."""
        self._look()
        edit = self._work.edit()
        if edit is None:
            return
        goal = self._state.goal
        if _shape(goal) == self._shape:
            self._stale = True  # marks by hand count for nothing here
        elif self._state.replan_required:
            self._replan(edit)
        else:
            self._plan([_planned(t) for t in goal.tasks], None)

    def close(self) -> None:
        """Let the goal be; the connection is the process's own and ends with it."""

    # -- talking -----------------------------------------------------------------------------------

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
        self._stale = True  # refused or not, what the daemon says is what is shown next
        self._ask("plan", tasks=tasks, replan=replan)
        self._look()

    def _replan(self, edit: Edit | None = None) -> None:
        """Plan what is left of the task or the goal, with what was put in by hand."""
        state = self._state
        level = state.replan_required
        tasks = state.goal.tasks if level == "goal" else [state.task] if state.task else []
        new = {id(s) for s in edit.new} if edit else set()
        if level == "task" and edit:  # another way may stand in a task of its own
            tasks = [t for t in state.goal.tasks if t is state.task or _has(t, new)]
        left = [
            {"description": s.description}
            for t in tasks
            for s in t.subtasks
            if id(s) in new or s.status == StepStatus.PENDING
        ]
        if not left:
            raise WrongState(
                f"the subtask is blocked and nothing else is left in its {level}: "
                "append an alternative to its task's subtasks first"
            )
        if level == "task" and state.task:
            self._plan([{"description": state.task.description, "subtasks": left}], "task")
        else:
            open_tasks = [t for t in tasks if any(_to_do(s, new) for s in t.subtasks)]
            self._plan([_planned(t, new) for t in open_tasks], "goal")

    def _look(self) -> None:
        if not self._stale:
            return
        answer = self._client.hello(AGENT)
        old = self._state.goal
        self._state = _state(answer)
        self._state.goal = _graft(old, self._state.goal)
        self._state.last_probe_state.update(self._probes)
        if _untouched(self._state):
            self._state.goal.tasks.clear()  # the agent brings the tree
        self._shape = _shape(self._state.goal)
        self._work.note(self._state)
        self._stale = False


def _told(report: ActionReport) -> dict[str, Any]:
    told = {"result": report.result, "output": report.output, "changed": report.changed}
    return {k: v for k, v in told.items() if v is not None}


def _answer(said: dict[str, Any]) -> Answer:
    return Answer(
        allowed=bool(said.get("allowed", said.get("verdict") == "allowed")),
        seq=int(said.get("seq") or 0),
        reason=str(said.get("reason") or ""),
        message=str(said.get("message") or ""),
        intervention=said.get("intervention"),
        escalated_to=said.get("escalated_to"),
    )


def _state(answer: dict[str, Any]) -> State:
    """Read what `hello` tells into a state, as far as an agent is shown one."""
    view = answer["state"]
    for task in view["goal"]["tasks"]:
        for subtask in task["subtasks"]:
            subtask["last_failure"] = subtask.get("last_failure") or ""
    goal = _goals.validate_python(view["goal"])
    _sum_up(goal, view.get("finished") or ())
    heads = {entry["seq"]: str(entry.get("output") or "") for entry in view.get("transcript") or ()}
    scope = Scope(
        loop_counts=dict(view["loop_counts"]),
        blocks={s: {EVERYWHERE: "blocked"} for s in view["blocked_actions"]},
    )
    state = State(
        goal_id=answer["goal_id"],
        goal=goal,
        spec=Spec(description=goal.description, notes=answer.get("notes") or ""),
        current_task_idx=view["current_task_idx"],
        current_subtask_idx=view["current_subtask_idx"],
        scope=scope,
        last_probe_state=dict(view["last_probe_state"]),
        iteration=view["iteration"],
        epoch=view["epoch"],
        restarts=view["restarts"],
        seq=view["seq"],
        feedback=[str(text) for text in answer.get("feedback") or ()],
        set_aside=[str(text) for text in view.get("given_up") or ()],
        replan_required=view.get("replan_required") or "",
    )
    for action in state.subtask.actions if state.subtask else ():
        name = signature(action.name, action.args)
        tally = Tally(seq=action.seq, result=action.result, head=heads.get(action.seq, ""))
        scope.tallies.setdefault(name, {})[str(action.seq)] = tally
    return state


def _sum_up(goal: Goal, finished: Iterable[Mapping[str, Any]]) -> None:
    """Put what came of the finished subtasks, which is told apart from the tree, back into it."""
    over = (s for t in goal.tasks for s in t.subtasks if s.status in _OVER)
    for subtask, said in zip(over, finished, strict=False):
        if said.get("description") == subtask.description:
            subtask.summary = str(said.get("summary") or "")


def _untouched(state: State) -> bool:
    """Return whether there is but the implicit subtask, and nothing was done in it."""
    steps = [s for t in state.goal.tasks for s in t.subtasks]
    implicit = len(steps) == 1 and steps[0].description == state.goal.description
    return implicit and not steps[0].actions_total and not steps[0].attempts


def _shape(goal: Goal) -> list[tuple[str, list[str]]]:
    return [(t.description, [s.description for s in t.subtasks]) for t in goal.tasks]


def _to_do(subtask: Subtask, new: set[int]) -> bool:
    return id(subtask) in new or subtask.status == StepStatus.PENDING


def _has(task: Task, new: set[int]) -> bool:
    return any(id(s) in new for s in task.subtasks)


def _planned(task: Task, new: set[int] | None = None) -> dict[str, Any]:
    steps = [s for s in task.subtasks if new is None or _to_do(s, new)]
    names = [s.description for s in steps] or [task.description]
    return {"description": task.description, "subtasks": [{"description": n} for n in names]}


def _graft(old: Goal, new: Goal) -> Goal:
    """Bring the agent's own objects up to date, so that what it holds stays true."""
    if old.description != new.description:
        old.description = new.description
    old.status, tasks = new.status, new.tasks
    kept = dict(enumerate(old.tasks))
    old.tasks[:] = [_graft_task(kept.get(i), task) for i, task in enumerate(tasks)]
    return old


def _graft_task(old: Task | None, new: Task) -> Task:
    if old is None or old.description != new.description:
        return new
    old.status = new.status
    kept = dict(enumerate(old.subtasks))
    old.subtasks[:] = [_graft_subtask(kept.get(i), s) for i, s in enumerate(new.subtasks)]
    return old


def _graft_subtask(old: Subtask | None, new: Subtask) -> Subtask:
    if old is None or old.description != new.description:
        return new
    for name in ("status", "attempts", "last_failure", "actions_total", "summary", "steps"):
        setattr(old, name, getattr(new, name))
    old.actions[:] = new.actions
    return old
