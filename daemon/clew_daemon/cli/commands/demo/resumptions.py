"""Crashes of workers on record: the subtask of the worker that died, and the one where the next worker resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.cli.display.sanitize import counted
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.fold import apply
from clew_shared.record.state import State

if TYPE_CHECKING:
    from clew_shared.ledger import Reader

Place = tuple[int, int]
"""The indices of a task and a subtask."""


@dataclass(frozen=True)
class Resumption:
    """One crash: the epoch that died, its subtask and that of the next epoch, and the blocked actions of both."""

    epoch: int
    died_at: Place
    resumed_at: Place
    blocks_before: tuple[str, ...]
    blocks_after: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the next worker resumed at the same subtask, with every block still in force."""
        is_blocked = set(self.blocks_before) <= set(self.blocks_after)
        return self.died_at == self.resumed_at and is_blocked

    def __str__(self) -> str:
        blocks = counted(len(self.blocks_after), "blocked action")
        blocked = f", {blocks} still blocked" if self.blocks_after else ""
        died, resumed = (f"{t + 1}.{s + 1}" for t, s in (self.died_at, self.resumed_at))
        after = f"epoch {self.epoch + 1} resumed at {resumed}"
        return f"epoch {self.epoch} died in {died}, {after}{blocked}"


def resumptions(reader: Reader, goal: str) -> list[Resumption]:
    """Return a goal's crashes that were followed by another worker, oldest first."""
    found: list[Resumption] = []
    state = State(goal_id=goal)
    died: tuple[int, Place, tuple[str, ...]] | None = None
    for row in reader.read(goal):
        event = decode(row.body)
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
