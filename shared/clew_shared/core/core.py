"""The deciding core of one goal, without I/O: commands and the time go in, events and answers come out.

The daemon's session and the library both drive it. A command judges, takes its events into the state at once and
queues them; the driver records what `take` returns *before* it answers the agent. Seen from outside, a crash in
between leaves a prefix of the ledger, and every prefix is a state to continue from.

Its layers, each in a file of its own and each using those below it:

    Core              the world as it is seen, and the end of the goal
    ActionCommands    proposals, verdicts, outcomes, budgets
    ThinkingCommands  thoughts, turns, interventions
    TreeCommands      plans, subtasks, escalation
    AttemptCommands   fresh starts at a subtask
    GoalJournal       the state, and the queue of events
"""

from __future__ import annotations

from dataclasses import dataclass

from clew_shared.core.actions import ActionCommands
from clew_shared.record import events as ev
from clew_shared.record.model import Result
from clew_shared.record.worlds import CLAIMED, UNKNOWN
from clew_shared.text.shorten import beginning

REASON_CHARS = 400


@dataclass(slots=True)
class Core(ActionCommands):
    """Judges and records one goal; not safe for use from several threads."""

    @property
    def goes_by_a_claim(self) -> bool:
        """Return whether an agent claimed the present world, and nothing has measured it since."""
        return self.state.world.startswith(CLAIMED)

    def see_world(self, world: str, at: float, *, unseen_work: bool = False) -> bool:
        """Record a fresh digest of the workspace; returns whether it is another world than was believed.

        UNKNOWN changes nothing of what is believed, unless an action with an unknown effect came before it, or
        `unseen_work`: the agent may have changed files without a report.
        """
        before = self.state.world
        uncertain = unseen_work or self._is_unsettled()
        news = uncertain if world == UNKNOWN else world not in (before, self.state.measured)
        if world and news:
            self.emit(ev.WorldSeen(at=at, world=world))
        return self.state.world != before

    def _is_unsettled(self) -> bool:
        """Return whether nothing is known of the world yet, or the last action was interrupted."""
        last = self.state.subtask.actions[-1:] if self.state.subtask else []
        return not self.state.world or any(a.result == Result.INTERRUPTED for a in last)

    def drop_claim(self, world: str, at: float) -> None:
        """Replace a claimed world by a fresh digest of the workspace."""
        if world and self.goes_by_a_claim:
            self.emit(ev.WorldSeen(at=at, world=world, instead=True))

    def retry_succeeds(self, at: float) -> None:
        """Continue a goal that was retried while it waits: its worker has got what it waited for."""
        if self.state.waits_for_time:
            self.emit(ev.GoalStarted(at=at))

    def finish_failed(self, summary: str, at: float) -> None:
        """End the goal as failed: the agent reports that it cannot be done."""
        reason = beginning(summary.strip(), REASON_CHARS) or "failed"
        self.emit(ev.GoalEnded(at=at, status="failed", reason=reason, summary=summary))
