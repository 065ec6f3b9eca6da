"""What the ledger says of workers that died: where each was, and where the next one resumed.

The demo claims that a killed worker is back at the very same subtask; here the record is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.state import State

if TYPE_CHECKING:
    from clew_shared.ledger import Reader

Place = tuple[int, int]


@dataclass(frozen=True)
class Resumption:
    """One crash: the epoch that died, its subtask, that of the next epoch, and their blocks."""

    epoch: int
    died_at: Place
    resumed_at: Place
    blocks_before: tuple[str, ...]
    blocks_after: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether the next worker stood where the dead one had, with every block still there."""
        kept = set(self.blocks_before) <= set(self.blocks_after)
        return self.died_at == self.resumed_at and kept

    def __str__(self) -> str:
        count = len(self.blocks_after)
        kept = f", {count} blocked {'action' if count == 1 else 'actions'} still blocked" * bool(
            count
        )
        died, resumed = (f"{t + 1}.{s + 1}" for t, s in (self.died_at, self.resumed_at))
        return (
            f"epoch {self.epoch} died in {died}, epoch {self.epoch + 1} resumed at {resumed}{kept}"
        )


def resumptions(reader: Reader, goal: str) -> list[Resumption]:
    """List a goal's crashes that were followed by another worker, oldest first."""
    found: list[Resumption] = []
    state = State(goal_id=goal)
    died: tuple[int, Place, tuple[str, ...]] | None = None
    for row in reader.read(goal):
        event = ev.decode(row.body)
        if isinstance(event, ev.WorkerExited) and event.crash:
            died = (event.epoch, _place(state), tuple(state.blocked_actions))
        apply(state, event, row.seq)
        if isinstance(event, ev.WorkerReady) and died is not None:
            epoch, place, blocks = died
            blocks_now = tuple(state.blocked_actions)
            found.append(Resumption(epoch, place, _place(state), blocks, blocks_now))
            died = None
    return found


def _place(state: State) -> Place:
    return state.current_task_idx, state.current_subtask_idx
