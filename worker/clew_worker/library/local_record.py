"""The record of a goal without a daemon: each call is one turn at the ledger, durable before it returns.

In a turn the manual changes come first, then the call itself; the published files follow. It judges nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import WrongState
from clew_shared.core.core import Core
from clew_shared.core.journal import RecordedEvent
from clew_shared.gate.verdict import AgentCalls
from clew_shared.ledger import LedgerError, NewEvent, TurnLedger
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, encode
from clew_shared.record.fold import fold
from clew_shared.record.state import State
from clew_shared.views.contextdir import FOLDER, ContextDir
from clew_shared.views.publish import HistoryFold, history_view, state_view
from clew_worker.library.local_tree import record_edit
from clew_worker.library.work_state import WorkState

# The published files of a goal without a daemon, which people and programs read in `.agent_context/`.
#
# Their content is already recorded, so a file that cannot be written loses nothing. Nothing here is read back.

STATE_EVERY_S = 0.25
STATE_LARGE_ACTIONS = 200
"""From this number of different actions in a scope, `state.json` is written at most every 250 ms."""


class LocalPublished:
    """Writes the files of the open goal after its ledger."""

    def __init__(self, folder: Path, records: TurnLedger) -> None:
        self._files = ContextDir(str(folder.resolve()))
        self._records = records
        self._history: HistoryFold | None = None  # None: rebuild the files
        self._state_written = 0.0

    @property
    def loops(self) -> list[dict[str, Any]]:
        """The entries of loops.json."""
        return self._history.loops if self._history else []

    def forget(self) -> None:
        """Rebuild the files the next time: another process has written to the ledger."""
        self._history = None

    def write(self, state: State, done: Sequence[RecordedEvent]) -> None:
        """Write the new events; after a failure the next call rebuilds the files."""
        with suppress(OSError):
            if self._history is None or not self._write_new(state, done, self._history):
                self._rebuild(state)
            return
        self._history = None

    def _write_new(self, state: State, done: Sequence[RecordedEvent], history: HistoryFold) -> bool:
        view = None if self._state_can_wait(state, done) else state_view(state)
        actions = [(history.take(r.seq, r.event), r) for r in done]
        lines = [history_view(a[0], _text(r.output)) for a, r in actions if a]
        looped = any(isinstance(r.event, ev.LoopDetected) for r in done)
        return self._files.update(view, lines, history.loops if looped else None)

    def _state_can_wait(self, state: State, done: Sequence[RecordedEvent]) -> bool:
        """Return whether `state.json` may be written later: it is large, and only an action was recorded."""
        if len(state.loop_counts) < STATE_LARGE_ACTIONS:
            return False
        plain = done and all(r.event.kind in ("action_allowed", "action_finished") for r in done)
        if plain and time.monotonic() - self._state_written < STATE_EVERY_S:
            return True
        self._state_written = time.monotonic()
        return False

    def _rebuild(self, state: State) -> None:
        history = HistoryFold()
        rows = self._records.read(state.goal_id)
        found = (history.take(row.seq, decode(row.body)) for row in rows)
        lines = [history_view(e[0], _text(self._records.output(e[1]))) for e in found if e]
        self._history = history
        self._files.rebuild(state_view(state), lines, history.loops)


def _text(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", "replace")


CALLS = AgentCalls(
    done="call mark_subtask_complete()",
    failed="mark_subtask_complete(success=False, reason=...)",
    finish="call mark_subtask_complete() and stop",
)
"""The names of the library's calls; without a daemon no call finishes a goal."""

LEDGER = "ledger.db"


class LocalRecord:
    """A goal's ledger, its state in memory (`core`), what the agent sees of it (`work`), and its published files."""

    def __init__(self, folder: Path, goal_id: str, loops: LoopSettings) -> None:
        self._goal_id = goal_id
        self._loops = loops
        self._lock = threading.RLock()
        self._ledger = _open(folder)
        self.published = LocalPublished(folder, self._ledger)
        self._next_seq = 0
        self._torn = True  # the state in memory differs from the ledger
        self.core = self._new_core()
        self.work = WorkState(self.core.state)

    @contextmanager
    def turn(self) -> Iterator[float]:
        """Take a turn, which begins at the time that this yields; after an error nothing of it is recorded."""
        with self._lock:
            edit = None if self._torn else self.work.edit()
            try:
                with self._ledger.turn() as moved:
                    if moved or self._torn:
                        self._catch_up()
                    at = time.time()
                    self._next_seq = self._ledger.next_seq
                    if edit:
                        record_edit(self.core, edit, at)
                    yield at
                    done = self.core.take()
                    self._ledger.append([self._entry(one) for one in done])
            except BaseException:
                self._torn = True
                raise
            self.published.write(self.core.state, done)
            self.work.note(self.core.state)

    def settle(self) -> None:
        """Record manual changes, if there are any."""
        with self._lock:
            if self.work.edit():
                with self.turn():
                    pass

    @contextmanager
    def last_turn(self) -> Iterator[float]:
        """Take a turn as `turn` does, and close the ledger whatever comes of it."""
        with self._lock:
            try:
                self.work.edit()
            except ValueError:
                self._torn = True  # refused before; the recorded state is valid
            try:
                with self.turn() as at:
                    yield at
            finally:
                self.close()

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def require_allowed(self, seq: int) -> None:
        """Raise WrongState where `seq` is no action of this goal that was allowed."""
        row = next(iter(self._ledger.read(self._goal_id, after=seq - 1, limit=1)), None)
        if row is None or row.seq != seq or row.kind != "action_allowed":
            raise WrongState(f"no action {seq} of this goal was allowed")

    def _catch_up(self) -> None:
        """Fold the events that other processes have added to the ledger."""
        if self._torn:
            self.core = self._new_core()
        state = self.core.state
        before = state.seq
        rows = self._ledger.read(self._goal_id, after=before)
        fold(((row.seq, decode(row.body)) for row in rows), state)
        if self._torn or state.seq != before:
            self.published.forget()
        self._torn = False

    def _new_core(self) -> Core:
        # Only a person can extend a budget, through a daemon. Interventions are shown but fail no subtask, since
        # the library's agent gets the verdict as a value.
        return Core(
            State(goal_id=self._goal_id),
            self._loops,
            self._number,
            max_actions=sys.maxsize,
            ignored_limit=sys.maxsize,
            calls=CALLS,
        )

    def _number(self) -> int:
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        return seq

    def _entry(self, done: RecordedEvent) -> NewEvent:
        return NewEvent(self._goal_id, done.event.kind, encode(done.event), done.output)


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
