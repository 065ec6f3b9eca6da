"""Commands on the tree of work: start, plan, complete and fail subtasks, and escalate what is blocked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clew_shared.core.answers import WrongState
from clew_shared.core.journal import GoalJournal, has_retries, may_start_over
from clew_shared.core.questions import REFUSED_MAX, Question, asks_about, budget, stuck
from clew_shared.proof.label import WORDS
from clew_shared.record import events as ev
from clew_shared.record.events import Escalated, Planned
from clew_shared.record.model import GoalStatus, Level, StepStatus
from clew_shared.record.spec import SUGGESTED_MAX, PlannedSubtask, PlannedTask
from clew_shared.record.state import State
from clew_shared.text.shorten import one_line
from clew_shared.text.words import times

Covers = Sequence[int] | Literal["all"]
Tasks = tuple[PlannedTask, ...]
Checks = Sequence[tuple[str, str]]  # names and commands


def replan_event(
    state: State, tasks: Tasks, level: Literal["task", "goal"], covers: Covers, at: float
) -> Planned:
    """Return the event of a replan: a subtask with the same description continues, nothing is guessed."""
    pending = state.replaceable(level)
    numbers: dict[str, list[int]] = {}  # of pending subtasks by description, the last one first
    for number, subtask in reversed([*enumerate(pending, start=1)]):
        numbers.setdefault(_key(subtask.description), []).append(number)

    def continuing(planned: PlannedSubtask) -> PlannedSubtask:
        same = numbers.get(_key(planned.description))  # each is used once
        return planned.model_copy(update={"continues": same.pop()}) if same else planned

    found = (tuple(map(continuing, task.subtasks)) for task in tasks)
    new = [t.model_copy(update={"subtasks": s}) for t, s in zip(tasks, found, strict=True)]
    covered = range(1, len(pending) + 1) if covers == "all" else sorted({*covers})
    return Planned(at=at, tasks=tuple(new), replan=level, covers=tuple(covered))


def _key(description: str) -> str:
    return one_line(description).casefold()


def escalation(state: State, reason: str, replan_limit: int) -> Escalated:
    """Return the escalation of a blocked subtask: one level up for every level whose replans are used up."""
    task, subtask = state.task, state.subtask
    inherits = bool(subtask and subtask.inherits)
    task_failed = bool(inherits and task and task.replanned)
    goal_failed = inherits and state.goal.replanned  # counted once
    task_count = (task.failed_replans if task else 0) + task_failed
    goal_count = state.goal.failed_replans + goal_failed
    to: Level = "goal" if task_count >= replan_limit else "task"
    if goal_count >= replan_limit:
        to = "person"
    return Escalated(
        to=to, reason=reason, replan_failed_task=task_failed, replan_failed_goal=goal_failed
    )


MESSAGE_CHARS = 2_000
ATTEMPT_OVER = "this attempt is over; the next one follows in a new worker"
FINISHES_MAX = 3  # this many refused finishes in an unchanged world are a failure of the subtask
UNSEEN_FINISHES_MAX = 10  # the same for an agent whose changes to the workspace cannot be seen
SAME_CHECKS_MAX = 2  # this many finishes refused by the same checks in one world end an attempt

Replan = Literal["task", "goal"] | None
FailureCause = Literal["agent", "ignored_interventions"]


@dataclass(slots=True)
class TreeCommands(GoalJournal):
    """The part of the core that changes the tree."""

    def start(self, at: float) -> None:
        """Start the first pending subtask if none is in progress; done before the agent says hello."""
        if not self._is_in_progress() and not self.state.plan.replan_required:
            self._start_next(at)

    def advance(self, at: float) -> bool:
        """Start the next pending subtask unless the current one is in progress; False: none is left."""
        self.need_no_replan()
        return self._is_in_progress() or self._start_next(at)

    def begin(self, task_idx: int, subtask_idx: int, at: float) -> None:
        scope, idle = self._scope(task_idx, subtask_idx), not self.state.loops.attention.acted
        started = ev.SubtaskStarted(
            at=at, task_idx=task_idx, subtask_idx=subtask_idx, scope=scope, idle=idle
        )
        self.emit(started)

    def plan(
        self, tasks: Tasks, replan: Replan, at: float, checks: Checks = (), *, covers: Covers = ()
    ) -> None:
        """Accept a plan: the first one, or the replan that was asked for; raises WrongState.

        `checks` are suggestions; what a replan neither `covers` by number nor continues is still to do.
        """
        if fault := self._plan_fault(tasks, replan, covers):
            raise WrongState(fault)
        first = ev.Planned(at=at, tasks=tasks)
        self.emit(replan_event(self.state, tasks, replan, covers, at) if replan else first)
        known, own = self.state.proofs.suggested, self.state.spec.checks
        for name, cmd in checks:
            room = name in known or len(known) < SUGGESTED_MAX
            if room and name not in own and cmd not in {*own.values(), *known.values()}:
                self.emit(ev.CheckProposed(at=at, name=name, cmd=cmd))
        self._start_next(at)

    def complete_subtask(
        self, at: float, *, success: bool, failure: str, summary: str = ""
    ) -> Level | None:
        """End the current subtask, or count a failed attempt at it; returns the level escalated to."""
        self.need_no_replan()
        if not self._is_in_progress():
            return None
        if not success:
            return self._fail(failure[:MESSAGE_CHARS] or "the agent gave no reason", at, "agent")
        self.emit(ev.SubtaskEnded(at=at, status="completed", summary=summary[:MESSAGE_CHARS]))
        if self.state.task and self.state.task.status == StepStatus.COMPLETED:
            self.emit(ev.TaskCompleted(at=at, task_idx=self.state.current_task_idx))
        return None

    def fail(self, failure: str, at: float) -> Level | None:
        """Count a failed attempt at the current subtask, seen from outside; returns the level escalated to."""
        return None if self.state.plan.replan_required else self._fail(failure, at, "agent")

    def need_no_replan(self) -> None:
        """Raise WrongState while a replan, or a person's answer, is required, or the attempt is over."""
        if self.state.attempt.over:
            raise WrongState(ATTEMPT_OVER)
        if (required := self.state.plan.replan_required) == "person":
            raise WrongState(self._waits_for_person())
        if required:
            raise WrongState(f"the subtask is blocked: `plan` with `replan: {required!r}` first")

    def hold_to_limits(self, at: float, *, acting: bool = False) -> str:
        """Hand a goal at work to a person where a limit is reached; returns which, "" for none."""
        spent = self.budget_spent(at, acting=acting) if self.state.workable else ""
        if spent:
            self.ask(budget(self.state, spent), at)
        return spent

    def ask(self, asked: Question, at: float) -> None:
        text, step = asked.text, asked.step
        self.block(ev.GoalBlocked(at=at, reason=asked.reason, question=text, step=step))

    def block(self, blocked: ev.GoalBlocked) -> None:
        """Escalate the goal to a person, unless it waits for one already or has ended."""
        if self.state.goal.status != GoalStatus.BLOCKED and not self.state.ended:
            self.emit(blocked)

    def _is_in_progress(self) -> bool:
        subtask = self.state.subtask
        return subtask is not None and subtask.status == StepStatus.IN_PROGRESS

    def _start_next(self, at: float) -> bool:
        found = self.state.next_pending()
        if found is not None:
            self.begin(*found, at)
        return found is not None

    def _scope(self, task_idx: int, subtask_idx: int) -> Literal["new", "keep", "inherit"]:
        state, width = self.state, self.loops.scope
        if not self.loops.progress_aware or width == "goal":
            return "keep"
        if width == "task" and task_idx == state.current_task_idx:
            return "keep"
        inherits = state.goal.tasks[task_idx].subtasks[subtask_idx].inherits
        return "inherit" if inherits and state.loops.inherited else "new"

    def _plan_fault(self, tasks: Tasks, replan: Replan, covers: Covers) -> str:
        state = self.state
        required = state.plan.replan_required
        if state.attempt.over:
            return ATTEMPT_OVER
        if required == "person":
            return self._waits_for_person()
        if replan != (required or None):
            asked = f"`replan: {required!r}` is required" if required else "no replan is required"
            return f"`replan` is {replan!r}, but {asked}"
        if replan is None and (state.plan.planned or state.plan.proposed):
            what = "has a plan" if state.plan.planned else "has begun without a plan"
            only = "`plan` with `replan: null` is only possible before anything else"
            return f"the goal {what}; {only}"
        if replan == "task" and len(tasks) != 1:
            return f"a replan of the task takes exactly one task, not {len(tasks)}"
        pending = len(state.replaceable(replan)) if replan else 0
        wrong = [] if covers == "all" else [n for n in covers if not 0 < n <= pending]
        could = f"but {pending} subtasks are pending that this plan could replace"
        return f"`covers` has the number {wrong[0]}, {could}" if wrong else ""

    def _waits_for_person(self) -> str:
        return f"the goal waits for a person: {self.state.reason}"

    def refuse_finish(
        self, failing: tuple[str, ...], at: float, *, own_tools: bool
    ) -> Level | None:
        """Count a `finish` that came too early; the same checks twice in one world end the attempt."""
        resumes = self._resumes()
        self.emit(ev.FinishRefused(at=at, failing=failing, own_tools=own_tools, resumes=resumes))
        refused = self.state.loops.refused
        has_attempts = self.limits.attempts > 1 and self._is_in_progress()
        if has_attempts and refused.same_checks >= SAME_CHECKS_MAX:
            names = ", ".join(failing)
            return self.fail(f"it said twice that it was done, but these checks fail: {names}", at)
        if refused.count < (UNSEEN_FINISHES_MAX if refused.unseen else FINISHES_MAX):
            return None
        said = f"it said {times(refused.count)} that it was done"
        return self.fail(f"{said}, too early and with nothing changed", at)

    def refuse_proof(self, at: float, reason: str) -> Level | None:
        """Count a `finish` that the label of its proof refuses; returns the level escalated to.

        The same label twice in one world ends the attempt; a person is asked for a reason given, or after the last one.
        """
        made = self.state.proofs.made
        assert made is not None  # noqa: S101 - it was just recorded
        again, resumes = made.refused + 1 >= REFUSED_MAX, self._resumes()
        ends = again and may_start_over(self.state, self.limits, resumes=resumes)
        asks = bool(reason) or (again and not ends)
        refused = ev.ProofRefused(
            at=at, label=made.label, files=made.files, why=made.why,
            reason=reason, asked=asks, resumes=resumes,
        )  # fmt: skip
        self.emit(refused)
        if asks:
            self.ask(asks_about(self.state, reason), at)
            return "person"
        if ends:
            self.start_over(f"it said twice that it was done, but {WORDS[made.label]}", at)
        return None

    def _resumes(self) -> bool:
        """Return whether an agent with attempts has ended all subtasks: then the last goes on."""
        has_attempts = self.limits.attempts > 1 and not self.runbook
        return has_attempts and not (self.state.ended or self.state.open_subtasks())

    def _fail(self, failure: str, at: float, cause: FailureCause) -> Level | None:
        """End the attempt, or count a failure of the subtask where it was the last; a runbook's step may run again."""
        again = self.runbook and has_retries(self.state)
        if not again and self.start_over(failure, at):
            return None
        self.emit(ev.SubtaskFailed(at=at, failure=failure, cause=cause))
        subtask = self.state.subtask
        if self.runbook or subtask is None or subtask.attempts < self.loops.failure_limit:
            return None
        count = subtask.attempts
        reason = f"failed: {failure}" if count == 1 else f"failed {times(count)}, last: {failure}"
        return self._escalate(reason, count, at)

    def _escalate(self, reason: str, count: int, at: float) -> Level:
        event = escalation(self.state, reason, self.loops.replan_limit)
        self.emit(event.model_copy(update={"at": at}))
        self._note_failures(count, reason, event.to, at)
        if event.to == "person":
            self.ask(stuck(self.state), at)
        return event.to

    def _note_failures(self, count: int, reason: str, to: Level, at: float) -> None:
        self.emit(
            ev.LoopDetected(
                at=at, loop="failures", attempt_count=count, evidence=reason, escalated_to=to
            )
        )
