"""What the herald remembers of a goal between two events: a small fold, without its tree and its outputs. Pure."""

from __future__ import annotations

from pydantic import BaseModel

from clew_shared.record import events as ev
from clew_shared.record.events import Event
from clew_shared.record.model import GoalStatus
from clew_shared.views.needs import is_needed

TEXT_CHARS = 2_000


class GoalNote(BaseModel):
    """A goal's status since event `seq`, at `at` (seconds since 1970), and what a message about it says.

    `first_seq` and `since` are those of the event that began an unbroken wait. `crashed`: its last worker died, and no
    other has started. `only_resume`: its folder is in question, so that words answer nothing. `told` is the
    `first_seq` of the last state that a message was written about.
    """

    name: str = ""
    description: str = ""
    status: GoalStatus = GoalStatus.QUEUED
    seq: int = 0
    at: float = 0.0
    first_seq: int = 0
    since: float = 0.0
    paused: bool = False
    until: float | None = None
    reason: str = ""
    question: str = ""
    agent: str = ""
    verified: bool = False
    passed_before: tuple[str, ...] = ()
    crashed: bool = False
    only_resume: bool = False
    told: int = 0

    @property
    def needs_person(self) -> bool:
        """Whether the goal does not continue before a person acts."""
        return is_needed(self.status, paused=self.paused, until=self.until)

    def is_as(self, before: GoalNote) -> bool:
        """Return whether the goal is still in the state that it was in before, for the same reason."""
        return (self.status, self.paused, self.question, self.reason) == (
            before.status,
            before.paused,
            before.question,
            before.reason,
        )

    def advance(self, event: Event, seq: int) -> None:
        """Take the goal's next event into the note."""
        match event:
            case ev.GoalAccepted():
                self.name, self.description = event.spec.name or "", event.spec.description
                self._enter(GoalStatus.QUEUED, event, seq)
            case ev.GoalEdited():
                self.name, self.description = event.spec.name or "", event.spec.description
            case ev.GoalStarted():
                self._enter(GoalStatus.IN_PROGRESS, event, seq)
            case ev.GoalWaiting():
                self._wait(event, seq)
            case ev.GoalBlocked():
                self._enter(GoalStatus.BLOCKED, event, seq, event.reason)
                self.question = event.question[:TEXT_CHARS]
                self.only_resume = event.gone or event.stranger is not None
            case ev.GoalRequeued():
                self._enter(GoalStatus.QUEUED, event, seq)
            case ev.GoalEnded():
                self._enter(GoalStatus(event.status), event, seq, event.reason or event.summary)
                self.verified, self.passed_before = event.verified, event.passed_before
            case ev.WorkerStarted():
                self.agent, self.crashed = event.agent or self.agent, False
            case ev.WorkerExited():
                self.crashed = event.crash
            case _:
                pass

    def _enter(self, status: GoalStatus, event: Event, seq: int, reason: str = "") -> None:
        self.status, self.seq, self.at = status, seq, event.at
        self.first_seq, self.since = seq, event.at
        self.reason, self.question = reason[:TEXT_CHARS], ""
        self.paused, self.until, self.verified = False, None, False

    def _wait(self, event: ev.GoalWaiting, seq: int) -> None:
        first = self.first_seq, self.since
        goes_on = self.status is GoalStatus.WAITING and self.paused == event.paused
        self._enter(GoalStatus.WAITING, event, seq, event.reason)
        self.paused, self.until = event.paused, event.until
        if goes_on:
            self.first_seq, self.since = first
