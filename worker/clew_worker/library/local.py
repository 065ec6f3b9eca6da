"""A goal without a daemon: the same ledger, under `.agent_context/` of a folder, and the same judge.

Every call is one turn at the ledger: manual changes, then the call itself, durable together before the call
returns; the published files follow. It runs no action.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from clew_shared.core.answers import ActionReport, LookFirst, Verdict, WrongState
from clew_shared.core.core import Core
from clew_shared.gate import AgentCalls
from clew_shared.ledger import NewEvent
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, encode
from clew_shared.record.fold import fold
from clew_shared.record.model import Goal, GoalStatus, StepStatus
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State
from clew_worker.executor.world.world import WorldWatch
from clew_worker.library.published import LocalPublished
from clew_worker.library.record import lives_elsewhere, open_ledger, started_at
from clew_worker.library.work_state import Answer, Edit, WorkState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from clew_shared.config.settings import LoopSettings

ID_CHARS_MAX = 40

ANOTHER_WAY = (
    "The subtask is blocked: this approach does not work. Add other subtasks to its task, "
    "or continue with the next one (advance_to_next_subtask)."
)

CALLS = AgentCalls(
    done="call mark_subtask_complete()",
    failed="mark_subtask_complete(success=False, reason=...)",
    finish="call mark_subtask_complete() and stop",
)
"""The names of the library's calls; without a daemon no call finishes a goal."""

_goals: TypeAdapter[Goal] = TypeAdapter(Goal)


def goal_id(text: str) -> str:
    """Return a name for a goal's text: its first words and 8 hex digits of its SHA-256."""
    words = "-".join(re.findall(r"[a-z0-9]+", text.lower())[:6])[:ID_CHARS_MAX].rstrip("-")
    return f"{words or 'goal'}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


class LocalGoal:
    """One goal at a time, recorded and judged in this process.

    Raises LedgerError (damaged, newer, full, failing) where nothing can be recorded; the call then had
    no effect, and the ledger is unchanged.
    """

    failing: Mapping[str, str] = MappingProxyType({})
    """Always empty: without a daemon no checks are run."""

    def __init__(self, folder: Path, text: str, loops: LoopSettings) -> None:
        self._folder = folder
        self._text = text
        self._loops = loops
        self._goal_id = goal_id(text)
        self._lock = threading.RLock()
        self._watch = WorldWatch(str(folder), loops.ignore)
        self._records = open_ledger(folder)
        self._published = LocalPublished(folder, self._records)
        self._next_seq = 0
        self._torn = True  # the state in memory differs from the ledger
        self._core = self._core_of(State(goal_id=self._goal_id))
        self.work = WorkState(self._core.state)
        try:
            self._begin()
        except BaseException:
            self._records.close()
            raise

    @property
    def state(self) -> State:
        """The goal's state as it is recorded."""
        return self._core.state

    @property
    def loops_found(self) -> list[dict[str, Any]]:
        """The entries of loops.json."""
        return self._published.loops

    # -- calls -------------------------------------------------------------------------------------

    def record(self, tool: str, args: dict[str, Any], report: ActionReport) -> Answer:
        """Judge and store an action that was already done."""
        with self._turn() as at:
            self._make_ready(at)
            return _answer(self._core.record(tool, args, self._measured(report), at))

    def propose(self, tool: str, args: dict[str, Any]) -> Answer:
        """Judge an action; before a refusal, check whether the folder has changed."""
        with self._turn() as at:
            self._make_ready(at)
            verdict = self._core.propose(tool, args, at, fresh=False)
            if isinstance(verdict, LookFirst):
                self._core.see_world(self._digest(), at)
                verdict = self._core.propose(tool, args, at)
            return _answer(verdict)

    def outcome(self, seq: int, report: ActionReport) -> Answer:
        """Store the outcome of an allowed action; a second outcome has no effect."""
        with self._turn() as at:
            if seq not in self.state.in_flight:
                self._need_allowed(seq)
                return Answer(allowed=True, seq=seq)
            feedback = self._core.outcome(seq, self._measured(report), at)
            intervention = asdict(feedback.intervention) if feedback.intervention else None
            return Answer(True, seq, intervention=intervention, escalated_to=feedback.escalated_to)

    def see_probes(self, probes: dict[str, bool]) -> None:
        """Store facts about the workspace."""
        with self._turn() as at:
            self._core.emit(ev.ProbesSeen(at=at, probes=probes))

    def complete(self, reason: str, *, success: bool) -> str | None:
        """End the current subtask, or count a failed attempt; returns the level that must find another way."""
        with self._turn() as at:
            if not self.state.replan_required:
                self._core.complete_subtask(
                    at,
                    success=success,
                    failure="" if success else reason,
                    summary=reason if success else "",
                )
            return self.state.replan_required or None

    def advance(self) -> bool:
        """Advance to the next pending subtask, past a blocked one; False if none is left.

        An agent that continues gives up the blocked subtask, since no one else replans. The goal is completed when
        all is done.
        """
        with self._turn() as at:
            state = self.state
            if state.replan_required:
                if state.replan_required == "person" or state.next_pending() is None:
                    return False
                self._emit_tree(at, replan=True)
            more = self._core.advance(at)
        if not more and self._all_done():
            self.finish("", success=True)
        return more

    def _all_done(self) -> bool:
        steps = [s for t in self.state.goal.tasks for s in t.subtasks]
        return bool(steps) and all(StepStatus(s.status).done for s in steps)

    def finish(self, summary: str, *, success: bool) -> bool:
        """End the goal; False if a subtask is still open. A goal that has ended stays as it is."""
        if success and not self._all_done():
            return False
        with self._turn() as at:
            if self.state.goal.status == GoalStatus.IN_PROGRESS:
                status: Any = "completed" if success else "failed"
                self._core.emit(ev.GoalEnded(at=at, status=status, summary=summary))
            return True

    def save(self) -> None:
        """Record manual changes, and publish."""
        with self._turn():
            pass

    def settle(self) -> None:
        """Record manual changes, if there are any."""
        with self._lock:
            if self.work.edit():
                self.save()

    def close(self) -> None:
        """Close the goal: actions in flight are interrupted, which does not count as a crash."""
        with self._lock:
            try:
                self.work.edit()
            except ValueError:
                self._torn = True  # refused before; the recorded state is valid
            try:
                with self._turn() as at:
                    if lives_elsewhere(self.state):
                        return
                    self._core.interrupt("closed", at, counts=False)
                    exited = ev.WorkerExited(at=at, epoch=self.state.epoch, reason="closed", code=0)
                    self._core.emit(exited)
            finally:
                self._records.close()

    # -- a turn ------------------------------------------------------------------------------------

    @contextmanager
    def _turn(self) -> Iterator[float]:
        with self._lock:
            edit = None if self._torn else self.work.edit()
            try:
                with self._records.turn() as moved:
                    if moved or self._torn:
                        self._catch_up()
                    at = time.time()
                    self._next_seq = self._records.next_seq
                    if edit:
                        self._take(edit, at)
                    yield at
                    done = self._core.take()
                    self._records.append([_entry(self._goal_id, r) for r in done])
            except BaseException:
                self._torn = True
                raise
            self._published.write(self.state, done)
            self.work.note(self.state)

    def _begin(self) -> None:
        """Start or continue the goal: actions that were in flight at its last end count as a crash."""
        with self._turn() as at:
            core, state = self._core, self.state
            if not state.accepted_seq:
                spec = Spec(description=self._text, workspace=str(self._folder))
                core.emit(ev.GoalAccepted(at=at, goal_id=self._goal_id, spec=spec))
                core.emit(ev.GoalStarted(at=at))
                state.goal.tasks.clear()  # the agent brings the tree
                self._emit_tree(at)
            pid, since = os.getpid(), started_at()
            if lives_elsewhere(state):  # that process has the actions in flight
                pid, since = state.pid or pid, state.pid_created
            else:
                core.interrupt("the process ended", at, counts=True)
            core.emit(
                ev.WorkerStarted(
                    at=at, epoch=state.epoch + 1, agent="library", pid=pid, created=since
                )
            )
            core.see_world(self._digest(), at)

    def _catch_up(self) -> None:
        """Fold the events that other processes have added to the ledger."""
        if self._torn:
            self._core = self._core_of(State(goal_id=self._goal_id))
        before = self.state.seq
        rows = self._records.read(self._goal_id, after=before)
        fold(((row.seq, decode(row.body)) for row in rows), self.state)
        if self._torn or self.state.seq != before:
            self._published.forget()
        self._torn = False

    def _core_of(self, state: State) -> Core:
        # Only a person can extend a budget, through a daemon. Interventions are shown but fail no subtask, since
        # the library's agent gets the verdict as a value.
        unbounded = sys.maxsize
        return Core(
            state,
            self._loops,
            self._number,
            max_actions=unbounded,
            ignored_limit=unbounded,
            calls=CALLS,
        )

    def _number(self) -> int:
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        return seq

    def _measured(self, report: ActionReport) -> ActionReport:
        """Compare the disk where the agent does not report whether it changed anything."""
        if report.changed is not None:
            return report
        return ActionReport(report.result, report.output, None, self._digest())

    def _digest(self) -> str:
        return self._watch.digest().name

    def _need_allowed(self, seq: int) -> None:
        row = next(iter(self._records.read(self._goal_id, after=seq - 1, limit=1)), None)
        if row is None or row.seq != seq or row.kind != "action_allowed":
            raise WrongState(f"no action {seq} of this goal was allowed")

    # -- the tree ----------------------------------------------------------------------------------

    def _make_ready(self, at: float) -> None:
        """Provide something to act on: a goal that is not over, and a subtask with its description."""
        core, state = self._core, self.state
        if GoalStatus(state.goal.status).ended:
            self._reopen(at)
        if not state.goal.tasks:
            step = PlannedSubtask(description=self._text)
            task = PlannedTask(description=self._text, subtasks=(step,))
            core.emit(ev.Planned(at=at, tasks=(task,)))
            core.begin(0, 0, at)
        if state.replan_required in ("task", "goal") and self._is_without_plan():
            # Without a plan there is no replan: the blocks hold, other actions continue.
            if state.subtask:
                state.subtask.status, state.subtask.attempts = StepStatus.IN_PROGRESS, 0
            self._emit_tree(at, replan=True)

    def _is_without_plan(self) -> bool:
        tasks = self.state.goal.tasks
        steps = [s for t in tasks for s in t.subtasks]
        return not steps or (len(steps) == 1 and steps[0].description == self._text)

    def _take(self, edit: Edit, at: float) -> None:
        """Record manual changes and their consequences."""
        state = self.state
        replan = bool(state.replan_required) and self._offers_another_way(edit)
        if replan:
            self._mark_replan(edit)
        self._emit_tree(at, replan=replan)
        resting = state.goal.status == GoalStatus.BLOCKED or GoalStatus(state.goal.status).ended
        if resting and (replan or edit.new):
            self._reopen(at)
        if not state.replan_required:
            self._find_place(edit, at)
        if replan:
            self._core.start(at)
        if (
            edit.counts is not None or edit.blocked is not None
        ):  # of the subtask that is worked on now
            self._emit_tree(at, counts=edit.counts, blocked=edit.blocked)
        for signature in edit.lifted:
            self._core.emit(ev.Unblocked(at=at, signature=signature))

    def _emit_tree(
        self,
        at: float,
        *,
        replan: bool = False,
        counts: dict[str, int] | None = None,
        blocked: tuple[str, ...] | None = None,
    ) -> None:
        state, goal = self.state, self.state.goal
        event = ev.TreeEdited(
            at=at,
            goal=_goals.dump_python(goal, mode="json"),
            task_idx=state.current_task_idx,
            subtask_idx=state.current_subtask_idx,
            probes=state.last_probe_state,
            loop_counts=counts,
            blocked_actions=blocked,
            replan=replan,
        )
        self._core.emit(event)
        state.goal = goal  # equal to the folded one, and the agent's references stay valid

    def _offers_another_way(self, edit: Edit) -> bool:
        current = self.state.subtask
        steps = [s for t in self.state.goal.tasks for s in t.subtasks]
        return (
            bool(edit.new)
            or bool(current and StepStatus(current.status).open)
            or any(s.status == StepStatus.IN_PROGRESS for s in steps)
        )

    def _mark_replan(self, edit: Edit) -> None:
        """Mark the replacements of a blocked subtask as heirs of its counts and blocks."""
        state = self.state
        new = {id(s) for s in edit.new}
        for task in state.goal.tasks:
            for subtask in task.subtasks:
                if id(subtask) in new:
                    subtask.inherits = task.replanned = True
        state.goal.replanned = state.goal.replanned or state.replan_required == "goal"

    def _find_place(self, edit: Edit, at: float) -> None:
        """Start the subtask that the indices select, else the one that is marked as in progress."""
        state = self.state
        status = state.subtask.status if state.subtask else ""
        here = (state.current_task_idx, state.current_subtask_idx)
        if status == StepStatus.PENDING or (edit.moved and status == StepStatus.IN_PROGRESS):
            self._core.begin(*here, at)
        elif status != StepStatus.IN_PROGRESS:
            for t, task in enumerate(state.goal.tasks):
                for s, subtask in enumerate(task.subtasks):
                    if subtask.status == StepStatus.IN_PROGRESS:
                        self._core.begin(t, s, at)
                        return

    def _reopen(self, at: float) -> None:
        self._core.emit(ev.GoalRequeued(at=at, by="library", after=self.state.rested_seq))
        self._core.emit(ev.GoalStarted(at=at))


def _entry(goal: str, record: Any) -> NewEvent:
    return NewEvent(goal, record.event.kind, encode(record.event), record.output)


def _answer(verdict: Verdict) -> Answer:
    intervention = asdict(verdict.intervention) if verdict.intervention else None
    message = ANOTHER_WAY if verdict.reason == "replan_required" else verdict.message
    return Answer(
        verdict.allowed, verdict.seq, verdict.reason, message, intervention, verdict.escalated_to
    )
