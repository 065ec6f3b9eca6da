"""The state that the library shows an agent, which may change it in place, and the answers that it returns.

It detects manual changes; it neither records nor judges them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from clew_shared.record.model import Goal, GoalStatus, StepStatus, Subtask, Task
from clew_shared.record.state import State

_T = TypeVar("_T")
_STATUSES = frozenset(str(s) for s in StepStatus)
_GOAL_STATUSES = frozenset(str(s) for s in GoalStatus)


class Signatures(list[str]):
    """Signatures of actions: a list that also knows a set's `add` and `discard`."""

    def add(self, signature: str) -> None:
        if signature not in self:
            self.append(signature)

    def discard(self, signature: str) -> None:
        if signature in self:
            self.remove(signature)


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on an action: true where it is allowed; fields by name or as `answer["reason"]`.

    `intervention` is None or `{"kind", "message"}`, `escalated_to` None, "task", "goal" or "person".
    """

    allowed: bool
    seq: int = 0
    reason: str = ""
    message: str = ""
    intervention: dict[str, str] | None = None
    escalated_to: str | None = None

    @property
    def verdict(self) -> str:
        """The verdict in the terms of the protocol."""
        return "allowed" if self.allowed else "blocked"

    def __bool__(self) -> bool:
        return self.allowed

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None


@dataclass(frozen=True, slots=True)
class Edit:
    """The manual changes since the last call.

    `counts` and `blocked` are None if unchanged, `lifted` are the signatures removed from either, `moved` says
    whether another subtask became the current one, `new` are the open subtasks that were added, `gone` those that
    are no longer in the tree and were not done.
    """

    counts: dict[str, int] | None
    blocked: tuple[str, ...] | None
    lifted: tuple[str, ...]
    moved: bool
    new: tuple[Subtask, ...]
    gone: tuple[Subtask, ...] = ()


class _Shown(Generic[_T]):
    """A field of the recorded state that the agent sees under the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, work: WorkState, owner: type) -> _T:
        value: _T = getattr(work._state, self.name)  # noqa: SLF001 - a part of WorkState
        return value


class _Editable(_Shown[_T]):
    """A field that the agent may also set."""

    def __set__(self, work: WorkState, value: _T) -> None:
        setattr(work._state, self.name, value)  # noqa: SLF001 - a part of WorkState


class WorkState:
    """The state of a goal for its agent: a view of the recorded state, with lists and fields that may be changed.

    `goal`, `current_task_idx`, `current_subtask_idx`, `loop_counts`, `blocked_actions` and
    `last_probe_state` may be changed; the next call records the changes.
    """

    goal = _Editable[Goal]()
    """The tree of work."""
    current_task_idx = _Editable[int]()
    current_subtask_idx = _Editable[int]()
    """The index of the current subtask in its task."""
    task = _Shown["Task | None"]()
    subtask = _Shown["Subtask | None"]()
    goal_id = _Shown[str]()
    """The goal's name in the ledger."""
    restarts = _Shown[int]()
    """How often the goal was reopened."""
    epoch = _Shown[int]()
    """The number of this opening, from 1."""
    iteration = _Shown[int]()
    """The number of reported turns."""
    seq = _Shown[int]()
    """The number of the last recorded event."""

    def __init__(self, state: State) -> None:
        self.note(state)

    def note(self, state: State) -> None:
        """Show this state, and treat it as the recorded one."""
        self._state = state
        self.blocked_actions = Signatures(state.blocked_actions)
        self._tree = _tree(state.goal)
        # held, so that their ids are not reused
        self._known = [s for t in state.goal.tasks for s in t.subtasks]
        self._place = (state.current_task_idx, state.current_subtask_idx)
        self._counts = dict(state.loop_counts)
        self._blocked = tuple(self.blocked_actions)
        self._probes = dict(state.last_probe_state)

    def edit(self) -> Edit | None:
        """Return the manual changes; TypeError for a part that is no task, ValueError for an invalid status."""
        check_parts(self.goal)
        place = (self.current_task_idx, self.current_subtask_idx)
        counts, blocked = dict(self.loop_counts), tuple(self.blocked_actions)
        before = (self._counts, self._blocked, self._probes)
        same = (counts, blocked, self.last_probe_state) == before
        if same and place == self._place and _tree(self.goal) == self._tree:
            return None
        check_statuses(self.goal)
        known = {id(s) for s in self._known}
        present = [s for t in self.goal.tasks for s in t.subtasks]
        left = {id(s) for s in present}
        lifted = [s for s in self._blocked if s not in blocked]
        lifted += [s for s in self._counts if not counts.get(s) and s not in blocked]
        return Edit(
            counts=counts if counts != self._counts else None,
            blocked=blocked if blocked != self._blocked else None,
            lifted=tuple(dict.fromkeys(lifted)),
            moved=place != self._place,
            new=tuple(s for s in present if id(s) not in known and StepStatus(s.status).open),
            gone=tuple(
                s for s in self._known if id(s) not in left and not StepStatus(s.status).done
            ),
        )

    @property
    def loop_counts(self) -> dict[str, int]:
        """Attempts by signature, in the current subtask."""
        return self._state.scope.loop_counts

    @loop_counts.setter
    def loop_counts(self, counts: dict[str, int]) -> None:
        self._state.scope.loop_counts = dict(counts)

    @property
    def last_probe_state(self) -> dict[str, bool]:
        """Facts about the workspace, by name."""
        return self._state.last_probe_state

    @last_probe_state.setter
    def last_probe_state(self, probes: dict[str, bool]) -> None:
        self._state.last_probe_state = dict(probes)

    @property
    def replan_required(self) -> str | None:
        """Who must find another way: None, "task", "goal" or "person"."""
        return self._state.replan_required or None


def check_parts(goal: Goal) -> None:
    """Raise TypeError for a part of the tree that is neither Task nor Subtask."""
    for task in goal.tasks:
        if not isinstance(task, Task):
            raise TypeError(
                f"goal.tasks holds {task!r:.80}, which is not a Task: "
                "append Task('Write it', [Subtask('Write add()')])"
            )
        for subtask in task.subtasks:
            if not isinstance(subtask, Subtask):
                raise TypeError(
                    f"the task {task.description!r} holds {subtask!r:.80}, which is not a Subtask: "
                    "append Subtask('Write add()')"
                )


def check_statuses(goal: Goal) -> None:
    """Raise ValueError for an invalid status."""
    if goal.status not in _GOAL_STATUSES:
        raise ValueError(
            f"goal.status {goal.status!r} is not one of {', '.join(sorted(_GOAL_STATUSES))}"
        )
    parts: list[Task | Subtask] = [*goal.tasks, *(s for t in goal.tasks for s in t.subtasks)]
    for part in parts:
        if part.status not in _STATUSES:
            allowed = ", ".join(sorted(_STATUSES))
            raise ValueError(
                f"{part.description!r}: status {part.status!r} is not one of {allowed}"
            )


def _tree(goal: Goal) -> tuple[Any, ...]:
    """Return all parts of a tree that may be changed manually."""
    return (goal.description, str(goal.status), tuple(_task(t) for t in goal.tasks))


def _task(task: Task) -> tuple[Any, ...]:
    return (task.description, str(task.status), tuple(_subtask(s) for s in task.subtasks))


def _subtask(s: Subtask) -> tuple[Any, ...]:
    actions = tuple((a.seq, a.name, a.result) for a in s.actions)
    return (s.description, str(s.status), s.attempts, s.last_failure, s.summary, actions)
