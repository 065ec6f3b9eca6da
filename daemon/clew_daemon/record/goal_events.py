"""Commands to the goals' cores, bracketed so that the events they emit are recorded.

An event is folded at once, so that the next judgement sees it, and announced only when it is durable: before
answering, await `commit`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from clew_daemon.record.recorder import Recorder
from clew_daemon.record.snapshots import SnapshotWriter
from clew_shared.core.answers import WrongState
from clew_shared.ledger import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clew_daemon.record.recorder import Listener
    from clew_shared.core.core import Core
    from clew_shared.ledger import Ledger
    from clew_shared.record import events as ev


class GoalEvents:
    """Records what cores emit; those of `outlined` goals can emit nothing, because only the outline is in memory.

    Neither can those of `broken` goals, whose last event could not be taken into the state: it must be loaded again.
    `replayed` has the number of events that were replayed after each goal's snapshot.
    """

    def __init__(self, ledger: Ledger, outlined: set[str], replayed: dict[str, int]) -> None:
        self.ledger = ledger
        self.outlined = outlined
        self.broken: set[str] = set()
        self._own: Sequence[ev.Event] = ()
        self.recorder = Recorder(ledger)
        self.snapshots = SnapshotWriter(ledger, replayed)

    @property
    def listeners(self) -> list[Listener]:
        """What is called with events once they are durable, in order."""
        return self.recorder.listeners

    def next_seq(self, pending: int) -> int:
        """Return the number that the ledger will give to the event after `pending` ones that are to be recorded."""
        return self.ledger.assigned + len(self._own) + pending + 1

    @contextmanager
    def entering(self, core: Core, own: Sequence[ev.Event] = ()) -> Iterator[None]:
        """Bracket commands to a core, so that their events are recorded, after `own` ones of the daemon.

        No `await` may be inside. An unexpected error stops this goal alone, until its state is loaded again.
        """
        goal = core.state.goal_id
        if goal in self.broken:
            raise RuntimeError(f"the state of {goal} is to be loaded again, after an error")
        self._own = own
        try:
            try:
                yield
            finally:
                self._flush(core, own)
        except (WrongState, LedgerError):
            raise
        except Exception:
            self.broken.add(goal)
            raise
        finally:
            self._own = ()

    async def commit(self, core: Core) -> None:
        """Wait until all that the goal has emitted is durable."""
        await self.recorder.commit(core.state.goal_id)

    async def emit(
        self,
        core: Core,
        event: ev.Event,
        output: bytes | None = None,
        own: Sequence[ev.Event] = (),
    ) -> None:
        """Record an event, with `own` ones of the daemon in the same transaction, and wait until it is durable."""
        with self.entering(core, own):
            core.emit(event, output)
        await self.commit(core)

    async def emit_own(self, events: list[ev.Event]) -> None:
        """Record events of the daemon, which belong to no goal, and wait until they are durable."""
        await self.recorder.record_own(events)

    def _flush(self, core: Core, own: Sequence[ev.Event]) -> None:
        events = core.take()
        if not events:
            return
        goal = core.state.goal_id
        if goal in self.outlined:
            raise AssertionError(f"{goal} was evicted, and its outline cannot be continued")
        self.recorder.record(goal, events, own)
        self.snapshots.count(core.state, len(events))
