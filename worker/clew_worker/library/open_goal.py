"""The goal that `ContextManager` has open, a `LocalGoal` or a `RemoteGoal`: what the agent sees, and may change."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from clew_shared.core.answers import Feedback, Verdict
from clew_shared.record.model import Goal, GoalStatus, StepStatus, Subtask, Task
from clew_shared.record.state import State
from clew_shared.wire.answers import Judged, Noted

goals: TypeAdapter[Goal] = TypeAdapter(Goal)
_UNSEEN = {"tasks": {"__all__": {"subtasks": {"__all__": {"actions": {"__all__": {"args"}}}}}}}


class Shown(NamedTuple):
    """All that an agent may change of a state, as it is at one time."""

    place: tuple[int, int]
    counts: dict[str, int]
    blocked: tuple[str, ...]
    probes: dict[str, bool]
    tree: bytes


class Signatures(list[str]):
    """Signatures of actions: a list that also knows a set's `add` and `discard`, as seed 000 has it."""

    def add(self, signature: str) -> None:
        if signature not in self:
            self.append(signature)

    def discard(self, signature: str) -> None:
        if signature in self:
            self.remove(signature)


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on an action: true where it is allowed; fields by name or as `answer["reason"]`."""

    allowed: bool
    seq: int = 0
    reason: str = ""
    message: str = ""
    intervention: dict[str, str] | None = None
    escalated_to: str | None = None

    def __bool__(self) -> bool:
        return self.allowed

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None


class Edit(NamedTuple):
    """The manual changes since the last call: `new` are open subtasks that were added, `gone` left out undone."""

    before: Shown
    now: Shown
    new: tuple[Subtask, ...]
    gone: tuple[Subtask, ...]


class WorkState:
    """The state of a goal for its agent: the recorded state, of which the fields named here may be changed."""

    goal: Goal
    current_task_idx: int
    current_subtask_idx: int  # in its task
    last_probe_state: dict[str, bool]  # facts about the workspace, by name
    loop_counts: dict[str, int]  # attempts by signature, in the current subtask
    blocked_actions: Signatures
    recorded: State

    def __init__(self, state: State) -> None:
        self.note(state)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "recorded":
            raise AttributeError(name)
        return getattr(self.recorded, name)

    def __setattr__(self, name: str, value: Any) -> None:
        of_recorded = name in ("goal", "current_task_idx", "current_subtask_idx")
        shown = Signatures(value) if name == "blocked_actions" else value
        object.__setattr__(self.recorded if of_recorded else self, name, shown)

    @property
    def replan_required(self) -> str | None:
        """Who must find another way: None, "task", "goal" or "person"."""
        return self.recorded.plan.replan_required or None

    def note(self, state: State) -> None:
        """Show this state, and treat it as the recorded one."""
        self.recorded = state
        self.blocked_actions = Signatures(state.blocked_actions)
        self.loop_counts = dict(state.loop_counts)
        self.last_probe_state = dict(state.last_probe_state)
        self._known = state.goal.subtasks  # held, so that their ids are not reused
        self._noted = self._now()

    def _now(self) -> Shown:
        place = (self.current_task_idx, self.current_subtask_idx)
        counts, probes = dict(self.loop_counts), dict(self.last_probe_state)
        tree = goals.dump_json(self.goal, exclude=_UNSEEN, warnings=False)
        return Shown(place, counts, tuple(self.blocked_actions), probes, tree)

    def edit(self) -> Edit | None:
        """Return the manual changes; TypeError for a part that is no task, ValueError for an invalid status."""
        _check(self.goal)
        now, before = self._now(), self._noted
        if now == before:
            return None
        present = self.goal.subtasks
        known, left = {id(one) for one in self._known}, {id(one) for one in present}
        new = tuple(s for s in present if id(s) not in known and s.open)
        gone = (s for s in self._known if id(s) not in left and not StepStatus(s.status).done)
        return Edit(before, now, new, tuple(gone))


def _check(goal: Goal) -> None:
    for task in goal.tasks:
        if not isinstance(task, Task):
            example = "append Task('Write it', [Subtask('Write add()')])"
            raise TypeError(f"goal.tasks holds {task!r:.80}, which is not a Task: {example}")
        for subtask in task.subtasks:
            if not isinstance(subtask, Subtask):
                wrong = f"the task {task.description!r} holds {subtask!r:.80}"
                raise TypeError(f"{wrong}, which is not a Subtask: append Subtask('Write add()')")
    parts: list[Goal | Task | Subtask] = [goal, *goal.tasks, *goal.subtasks]
    for part in parts:
        allowed = sorted(map(str, GoalStatus if part is goal else StepStatus))
        if part.status not in allowed:
            wrong = f"{part.description!r}: status {part.status!r}"
            raise ValueError(f"{wrong} is not one of {', '.join(allowed)}")


def all_done(goal: Goal) -> bool:
    """Return whether there are subtasks, and all of them are done."""
    return bool(goal.subtasks) and all(StepStatus(one.status).done for one in goal.subtasks)


def answer_of(told: Verdict | Feedback | Noted, seq: int = 0, message: str = "") -> Answer:
    """Return what core or daemon say as the agent gets it; `message` takes the place of their own."""
    found, reason, allowed = told.intervention, "", True
    if isinstance(told, Verdict | Judged):
        seq, reason, message = told.seq, told.reason, message or told.message
        allowed = told.verdict == "allowed" if isinstance(told, Judged) else told.allowed
    advice = {"kind": str(found.kind), "message": found.message} if found else None
    return Answer(allowed, seq, reason, message, advice, told.escalated_to)
