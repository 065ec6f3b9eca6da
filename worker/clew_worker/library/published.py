"""The published files of a goal without a daemon, which people and programs read in `.agent_context/`.

Their content is already recorded, so a file that cannot be written loses nothing. Nothing here is read back.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.views.contextdir import ContextDir
from clew_shared.views.publish import HistoryFold, history_view, state_view

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clew_shared.core.journal import RecordedEvent
    from clew_shared.ledger import TurnLedger
    from clew_shared.record.state import State

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
