"""Which feedback from people the agent has had before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_daemon.session.desk import GoalDesk


class FeedbackSeen:
    """Counts feedback by the number of its event.

    An agent whose prompts clew builds considers what was in its last prompt; any other, what it was sent before it
    called `finish`.
    """

    def __init__(self, desk: GoalDesk) -> None:
        self._desk = desk
        self._shown = self._sent = self._considered = 0

    def shown(self, seq: int) -> None:
        """Note that the answer to `hello` had the feedback up to this event."""
        self._shown = seq

    def sent(self, seq: int) -> None:
        """Note that the feedback of this event was sent as a notification."""
        self._sent = max(self._sent, seq)

    def prompted(self) -> None:
        """Note that a prompt was built from the last answer to `hello`."""
        if self._desk.traits.own_prompt:
            self._considered = max(self._considered, self._shown)

    def finishing(self) -> None:
        """Note that the agent has considered what it wants to before it finishes."""
        if not self._desk.traits.own_prompt:
            self._considered = max(self._considered, self._shown, self._sent)

    def news(self) -> bool:
        """Return whether there is feedback that the agent cannot have considered.

        True once for the same feedback, so that no agent is refused for ever.
        """
        seq = self._desk.core.state.feedback_seq
        if seq <= self._considered or self._desk.traits.is_runbook:
            return False
        self._considered = seq
        return True
