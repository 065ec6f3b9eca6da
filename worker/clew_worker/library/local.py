"""A goal without a daemon: the same ledger, under `.agent_context/` of a folder, and the same judge.

Each call is one turn at the ledger, durable before it returns: manual changes come first, then the call itself; the
published files follow. It runs no action.
"""

import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import psutil

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import ActionReport, Verdict, WrongState
from clew_shared.core.core import Core
from clew_shared.core.journal import Limits, RecordedEvent
from clew_shared.gate.rules import AgentCalls
from clew_shared.ledger.errors import LedgerError, NewEvent
from clew_shared.prompt.compact import RECENT_ACTIONS
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, encode
from clew_shared.record.events import Event
from clew_shared.record.fold import fold
from clew_shared.record.model import GoalStatus
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.views.contextdir import FOLDER, ContextDir
from clew_shared.views.publish import HistoryFold, View, history_view, state_view
from clew_worker.executor.world.world import WorldWatch
from clew_worker.library import local_tree
from clew_worker.library.open_goal import Answer, WorkState, all_done, answer_of
from clew_worker.library.turns import TurnLedger

LEDGER, ID_CHARS_MAX = "ledger.db", 40
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


class LocalGoal:
    """One goal at a time, recorded and judged in this process; after a LedgerError a call had no effect."""

    failing: Mapping[str, str] = MappingProxyType({})  # it has no checks
    recent_actions = RECENT_ACTIONS

    def __init__(self, folder: Path, text: str, loops: LoopSettings) -> None:
        self._goal_id = goal_id(text)
        self._loops = loops
        self._watch = WorldWatch(str(folder), loops.ignore)
        self._lock = threading.RLock()
        self._ledger = _open(folder)
        self._files = ContextDir(str(folder.resolve()))
        self._history: HistoryFold | None = None  # None: rebuild the files
        self._torn = True  # the state in memory differs from the ledger
        self._core = self._new_core()
        self.work = WorkState(self._core.state)
        try:
            self._begin(folder, text)
        except BaseException:
            self._ledger.close()
            raise

    @property
    def state(self) -> State:
        return self._core.state

    @property
    def loops_found(self) -> list[View]:
        return self._history.loops if self._history else []

    def record(self, tool: str, args: dict[str, Any], report: ActionReport) -> Answer:
        with self._turn() as at:
            local_tree.make_ready(self._core, at)
            return _answer(self._core.record(tool, args, self._measured(report), at))

    def propose(self, tool: str, args: dict[str, Any]) -> Answer:
        """Judge an action; before a refusal, check whether the folder has changed."""
        with self._turn() as at:
            local_tree.make_ready(self._core, at)
            verdict = self._core.propose_unseen(tool, args, at)
            if verdict is None:
                self._core.see_world(self._digest(), at)
                verdict = self._core.propose(tool, args, at)
            return _answer(verdict)

    def outcome(self, seq: int, report: ActionReport) -> Answer:
        with self._turn() as at:
            if seq not in self.state.in_flight:
                row = next(iter(self._ledger.read(self._goal_id, after=seq - 1, limit=1)), None)
                if row is None or row.seq != seq or row.kind != "action_allowed":
                    raise WrongState(f"no action {seq} of this goal was allowed")
                return Answer(allowed=True, seq=seq)
            return answer_of(self._core.outcome(seq, self._measured(report), at), seq)

    def see_probes(self, probes: dict[str, bool]) -> None:
        with self._turn() as at:
            self._core.emit(ev.ProbesSeen(at=at, probes=probes, world=self._digest()))

    def complete(self, reason: str, *, success: bool) -> str | None:
        failure, summary = ("", reason) if success else (reason, "")
        with self._turn() as at:
            if not self.state.plan.replan_required:
                self._core.complete_subtask(at, success=success, failure=failure, summary=summary)
            return self.state.plan.replan_required or None

    def advance(self) -> bool:
        with self._turn() as at:
            level = self.state.plan.replan_required
            if level == "person" or (level and self.state.next_pending() is None):
                return False
            if level:
                local_tree.record_tree(self._core, at, replan=True)
            return bool(self._core.advance(at))

    def finish(self, summary: str, *, success: bool, tests_changed: str = "") -> bool:  # noqa: ARG002 - no checks
        """End the goal; False if a subtask is still open. A goal that has ended stays as it is."""
        if success and not all_done(self.state.goal):
            return False
        with self._turn() as at:
            if self.state.goal.status == GoalStatus.IN_PROGRESS:
                status: Literal["completed", "failed"] = "completed" if success else "failed"
                self._core.emit(ev.GoalEnded(at=at, status=status, summary=summary))
            return True

    def save(self) -> None:
        with self._turn():
            pass

    def settle(self) -> None:
        with self._lock:
            if self.work.edit():
                self.save()

    def close(self) -> None:
        """Close the goal: actions in flight are interrupted, which does not count as a crash."""
        with self._lock, closing(self._ledger):
            try:
                self.work.edit()
            except ValueError:
                self._torn = True  # refused before; the recorded state is valid
            with self._turn() as at:
                if not self._has_other_owner():
                    self._core.interrupt("closed", at, counts=False)
                    epoch = self.state.epoch
                    self._core.emit(ev.WorkerExited(at=at, epoch=epoch, reason="closed", code=0))

    @contextmanager
    def _turn(self) -> Iterator[float]:
        """Take a turn, which begins at the time that this yields; after an error nothing of it is recorded."""
        with self._lock:
            edit = None if self._torn else self.work.edit()
            try:
                with self._ledger.turn() as moved:
                    if moved or self._torn:
                        self._catch_up()
                    at = time.time()
                    if edit:
                        local_tree.record_edit(self._core, edit, at)
                    yield at
                    done = self._core.take()
                    goal, events = self._goal_id, [(d.event, d.output) for d in done]
                    rows = [NewEvent(goal, e.kind, encode(e), output) for e, output in events]
                    self._ledger.append(rows)
            except BaseException:
                self._torn = True
                raise
            self._publish(done)
            self.work.note(self.state)

    def _catch_up(self) -> None:
        """Fold the events that other processes have added to the ledger."""
        if self._torn:
            self._core = self._new_core()
        before = self.state.seq
        rows = self._ledger.read(self._goal_id, after=before)
        fold(((row.seq, decode(row.body)) for row in rows), self.state)
        if self._torn or self.state.seq != before:
            self._history = None
        self._torn = False

    def _publish(self, done: Sequence[RecordedEvent]) -> None:
        """Write the goal's files, after its ledger; one that cannot be written is rebuilt with the next call."""
        history, self._history = self._history, None
        with suppress(OSError, LedgerError):  # what happened is recorded
            if history is None or not self._has_added(done, history):
                history = HistoryFold()
                events = ((e.seq, decode(e.body)) for e in self._ledger.read(self._goal_id))
                lines = self._lines(history, events)
                self._files.rebuild(state_view(self.state), lines, history.loops)
            self._history = history

    def _has_added(self, done: Sequence[RecordedEvent], history: HistoryFold) -> bool:
        lines = list(self._lines(history, ((one.seq, one.event) for one in done)))
        looped = any(isinstance(one.event, ev.LoopDetected) for one in done)
        loops = history.loops if looped else None
        return self._files.update(state_view(self.state), lines, loops)

    def _lines(self, history: HistoryFold, events: Iterable[tuple[int, Event]]) -> Iterator[View]:
        for seq, event in events:
            if ended := history.take(seq, event):
                output = self._ledger.output(ended[1]) or b""
                yield history_view(ended[0], output.decode("utf-8", "replace"))

    def _new_core(self) -> Core:
        # Only a person can extend a budget, through a daemon. Interventions are shown but fail no subtask, since
        # the library's agent gets the verdict as a value.
        return Core(
            State(goal_id=self._goal_id),
            self._loops,
            lambda: self._ledger.next_seq + self._core.pending,
            limits=Limits(actions=sys.maxsize),
            ignored_limit=sys.maxsize,
            calls=CALLS,
        )

    def _begin(self, folder: Path, text: str) -> None:
        """Start or continue the goal; what is in flight without a process that lives counts as a crash."""
        with self._turn() as at:
            core, state = self._core, self.state
            if not state.accepted_seq:
                spec = Spec(description=text, workspace=str(folder))
                core.emit(ev.GoalAccepted(at=at, goal_id=state.goal_id, spec=spec))
                core.emit(ev.GoalStarted(at=at))
                state.goal.tasks.clear()  # the agent brings the tree
                local_tree.record_tree(core, at)
            pid, created = os.getpid(), psutil.Process().create_time()
            if self._has_other_owner():  # it has the actions in flight, and stays their owner
                pid, created = state.pid or pid, state.pid_created
            else:
                core.interrupt("the process ended", at, counts=True)
            epoch = state.epoch + 1
            own = ev.WorkerStarted(at=at, epoch=epoch, agent="library", pid=pid, created=created)
            core.emit(own)
            core.see_world(self._digest(), at)

    def _has_other_owner(self) -> bool:
        """Return whether another process that lives has the goal's actions in flight."""
        pid, created = self.state.pid, self.state.pid_created
        if not pid or pid == os.getpid():
            return False
        with suppress(psutil.Error):
            return abs(psutil.Process(pid).create_time() - created) < 1
        return False

    def _measured(self, report: ActionReport) -> ActionReport:
        """Compare the disk where the agent does not report whether it changed anything."""
        return report if report.changed is not None else replace(report, world=self._digest())

    def _digest(self) -> str:
        return self._watch.digest().name


def _answer(verdict: Verdict) -> Answer:
    message = ANOTHER_WAY if verdict.reason == "replan_required" else ""
    return answer_of(verdict, message=message)


def goal_id(text: str) -> str:
    """Return a name for a goal's text: its first words and 8 hex digits of its SHA-256."""
    words = "-".join(re.findall(r"[a-z0-9]+", text.lower())[:6])[:ID_CHARS_MAX].rstrip("-")
    return f"{words or 'goal'}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _open(folder: Path) -> TurnLedger:
    """Open or create the ledger in the folder's `.agent_context/`; LedgerError gives the reason if that fails."""
    place = folder / FOLDER
    if place.is_symlink():
        raise NotADirectoryError(f"{place} is a link; the record must be kept in a real folder")
    try:
        place.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        what = f"its folder cannot be created: {error.strerror}"
        hint = "let the agent write there, or name another folder: ContextManager('path')"
        raise LedgerError(place, what, hint) from error
    return TurnLedger.open(place / LEDGER)
