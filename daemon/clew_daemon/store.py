"""States from the ledger: the latest snapshot, and the events after it.

The daemon loads every goal so at its start; the command line does it where no daemon runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from clew_shared import events as ev
from clew_shared.fold import apply
from clew_shared.ledger import LedgerCorrupt
from clew_shared.publish import HistoryFold, history_view
from clew_shared.state import STATE_VERSION, State, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clew_shared.ledger import Row

SNAPSHOT_EVERY = 1_000
"""Events of a goal between two snapshots: what a start replays at the most."""


FOLLOWING_MAX = 500
"""So many events of a goal after an action are searched for its outcome."""


DAMAGED = "[what was put out here is damaged in the ledger, and is not shown; see `clew verify`]"


class Readable(Protocol):
    """What a ledger and a reader have in common."""

    def goals(self) -> list[str]: ...
    def read(self, goal: str, after: int = 0, limit: int | None = None) -> Iterator[Row]: ...
    def latest_snapshot(self, goal: str, version: int) -> tuple[int, bytes] | None: ...
    def output(self, seq: int) -> bytes | None: ...


def load_state(ledger: Readable, goal: str) -> State:
    """Give a goal's state as of its last recorded event."""
    found = ledger.latest_snapshot(goal, STATE_VERSION)
    state, after = (unpack(found[1]), found[0]) if found else (State(goal_id=goal), 0)
    for row in ledger.read(goal, after):
        apply(state, ev.decode(row.body), row.seq)
    return state


def load_states(
    ledger: Readable, kept: Callable[[State], State] = lambda state: state
) -> dict[str, State]:
    """Give what is `kept` of the states of all goals, in the order of their acceptance."""
    states = [kept(load_state(ledger, goal)) for goal in ledger.goals() if goal]
    return {s.goal_id: s for s in sorted(states, key=lambda s: s.accepted_seq)}


def history(ledger: Readable, goal: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give a goal's lines of history.jsonl and its entries of loops.json, oldest first."""
    lines, fold, _ = replay_history(ledger, goal)
    return lines, fold.loops


def replay_history(ledger: Readable, goal: str) -> tuple[list[dict[str, Any]], HistoryFold, int]:
    """Give the lines, the fold that made them, and the number of the last event in it."""
    fold, lines, seq = HistoryFold(), [], 0
    for row in ledger.read(goal):
        seq = row.seq
        if row.kind in _OF_HISTORY and (ended := fold.take(row.seq, ev.decode(row.body))):
            action, of = ended
            lines.append(history_view(action, output_text(ledger, of)))
    return lines, fold, seq


def output_of(ledger: Readable, goal: str, action: int) -> str | None:
    """Give the output of an action by the action's number, None where there is none."""
    for row in ledger.read(goal, action, FOLLOWING_MAX):
        if row.kind == "action_finished":
            event = ev.decode(row.body)
            if isinstance(event, ev.ActionFinished) and event.of == action:
                return output_text(ledger, row.seq)
    return None


def output_text(ledger: Readable, seq: int) -> str:
    """Give the output that was kept with an event; where it is damaged, a word that says so."""
    try:
        return text(ledger.output(seq))
    except LedgerCorrupt:
        return DAMAGED


def text(output: bytes | None) -> str:
    """Give a recorded output as text."""
    return (output or b"").decode("utf-8", "replace")


_OF_HISTORY = frozenset(
    {
        "subtask_started",
        "tree_edited",
        "loop_detected",
        "action_allowed",
        "action_blocked",
        "action_finished",
        "action_interrupted",
    }
)
