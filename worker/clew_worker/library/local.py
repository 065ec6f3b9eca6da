"""A goal without a daemon: the same ledger, under `.agent_context/` of a folder, and the same judge.

It runs no action.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import ActionReport, LookFirst, Verdict
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_worker.executor.world.world import WorldWatch
from clew_worker.library import local_tree
from clew_worker.library.identity import goal_id, runs_elsewhere, started_at
from clew_worker.library.local_record import LocalRecord
from clew_worker.library.open_goal import OpenGoal, all_done, answer_of, intervention_of
from clew_worker.library.work_state import Answer, WorkState

ANOTHER_WAY = (
    "The subtask is blocked: this approach does not work. Add other subtasks to its task, "
    "or continue with the next one (advance_to_next_subtask)."
)


class LocalGoal(OpenGoal):
    """One goal at a time, recorded and judged in this process.

    Raises LedgerError (damaged, newer, full, failing) where nothing can be recorded; the call then had
    no effect, and the ledger is unchanged.
    """

    def __init__(self, folder: Path, text: str, loops: LoopSettings) -> None:
        self._text = text
        self._watch = WorldWatch(str(folder), loops.ignore)
        self._record = LocalRecord(folder, goal_id(text), loops)
        try:
            self._begin(folder)
        except BaseException:
            self._record.close()
            raise

    @property
    def work(self) -> WorkState:
        return self._record.work

    @property
    def state(self) -> State:
        return self._core.state

    @property
    def loops_found(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self._record.published.loops

    def record(self, tool: str, args: dict[str, Any], report: ActionReport) -> Answer:
        with self._record.turn() as at:
            local_tree.make_ready(self._core, self._text, at)
            return _answer(self._core.record(tool, args, self._measured(report), at))

    def propose(self, tool: str, args: dict[str, Any]) -> Answer:
        """Judge an action; before a refusal, check whether the folder has changed."""
        with self._record.turn() as at:
            local_tree.make_ready(self._core, self._text, at)
            verdict = self._core.propose(tool, args, at, fresh=False)
            if isinstance(verdict, LookFirst):
                self._core.see_world(self._digest(), at)
                verdict = self._core.propose(tool, args, at)
            return _answer(verdict)

    def outcome(self, seq: int, report: ActionReport) -> Answer:
        with self._record.turn() as at:
            if seq not in self.state.in_flight:
                self._record.require_allowed(seq)
                return Answer(allowed=True, seq=seq)
            feedback = self._core.outcome(seq, self._measured(report), at)
            told = intervention_of(feedback.intervention)
            return Answer(True, seq, intervention=told, escalated_to=feedback.escalated_to)

    def see_probes(self, probes: dict[str, bool]) -> None:
        with self._record.turn() as at:
            self._core.emit(ev.ProbesSeen(at=at, probes=probes, world=self._digest()))

    def complete(self, reason: str, *, success: bool) -> str | None:
        failure, summary = ("", reason) if success else (reason, "")
        with self._record.turn() as at:
            if not self.state.replan_required:
                self._core.complete_subtask(at, success=success, failure=failure, summary=summary)
            return self.state.replan_required or None

    def _advance(self) -> bool:
        with self._record.turn() as at:
            state = self.state
            if state.replan_required:
                if state.replan_required == "person" or state.next_pending() is None:
                    return False
                local_tree.record_tree(self._core, at, replan=True)
            return bool(self._core.advance(at))

    def finish(self, summary: str, *, success: bool) -> bool:
        """End the goal; False if a subtask is still open. A goal that has ended stays as it is."""
        if success and not all_done(self.state.goal):
            return False
        with self._record.turn() as at:
            if self.state.goal.status == GoalStatus.IN_PROGRESS:
                status: Any = "completed" if success else "failed"
                self._core.emit(ev.GoalEnded(at=at, status=status, summary=summary))
            return True

    def save(self) -> None:
        with self._record.turn():
            pass

    def settle(self) -> None:
        self._record.settle()

    def close(self) -> None:
        """Close the goal: actions in flight are interrupted, which does not count as a crash."""
        with self._record.last_turn() as at:
            state = self.state
            if not runs_elsewhere(state.pid, state.pid_created):
                self._core.interrupt("closed", at, counts=False)
                exited = ev.WorkerExited(at=at, epoch=state.epoch, reason="closed", code=0)
                self._core.emit(exited)

    @property
    def _core(self) -> Core:
        return self._record.core

    def _begin(self, folder: Path) -> None:
        """Start or continue the goal: actions that were in flight at its last end count as a crash."""
        with self._record.turn() as at:
            core, state = self._core, self.state
            if not state.accepted_seq:
                spec = Spec(description=self._text, workspace=str(folder))
                core.emit(ev.GoalAccepted(at=at, goal_id=state.goal_id, spec=spec))
                core.emit(ev.GoalStarted(at=at))
                state.goal.tasks.clear()  # the agent brings the tree
                local_tree.record_tree(core, at)
            pid, since = os.getpid(), started_at()
            # another process that is still running has the actions in flight
            if runs_elsewhere(state.pid, state.pid_created):
                pid, since = state.pid or pid, state.pid_created
            else:
                core.interrupt("the process ended", at, counts=True)
            core.emit(
                ev.WorkerStarted(
                    at=at, epoch=state.epoch + 1, agent="library", pid=pid, created=since
                )
            )
            core.see_world(self._digest(), at)

    def _measured(self, report: ActionReport) -> ActionReport:
        """Compare the disk where the agent does not report whether it changed anything."""
        if report.changed is not None:
            return report
        return ActionReport(report.result, report.output, None, self._digest())

    def _digest(self) -> str:
        return self._watch.digest().name


def _answer(verdict: Verdict) -> Answer:
    message = ANOTHER_WAY if verdict.reason == "replan_required" else ""
    return answer_of(verdict, allowed=verdict.allowed, message=message)
