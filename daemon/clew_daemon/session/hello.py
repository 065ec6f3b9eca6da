"""The method `hello`: the first one of an epoch is recorded, and each is answered with all that the agent needs."""

from __future__ import annotations

import time
from typing import Any

from clew_daemon.learning.selection import CHARS_MAX
from clew_daemon.record.hello import SubtaskTranscript, hello_answer
from clew_daemon.session.epoch import Epoch
from clew_shared.playbook.bullet import Bullet
from clew_shared.prompt.layout import playbook_chars
from clew_shared.record import events as ev
from clew_shared.text.redact import redact
from clew_shared.wire import protocol
from clew_shared.wire.hello import HelloAnswer


class FeedbackSeen:
    """Counts feedback by the number of its event.

    An agent whose prompts clew builds considers what was in its last prompt; any other, what it was sent before it
    called `finish`.
    """

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._own_prompt = epoch.kind == "llm"
        self._shown = self._considered = 0

    def shown(self, seq: int) -> None:
        """Note that the answer to `hello` had the feedback up to this event."""
        self._shown = max(self._shown, seq)

    def sent(self, seq: int) -> None:
        """Note that the feedback of this event was sent as a notification."""
        if not self._own_prompt:
            self.shown(seq)

    def prompted(self) -> None:
        """Note that a prompt was built from the last answer to `hello`."""
        if self._own_prompt:
            self._considered = self._shown

    def finishing(self) -> None:
        """Note that the agent has considered what it wants to before it finishes."""
        if not self._own_prompt:
            self._considered = self._shown

    def news(self) -> bool:
        """Return whether there is feedback that the agent cannot have considered.

        True once for the same feedback, so that no agent is refused for ever.
        """
        seq = self._epoch.core.state.feedback_seq
        if seq <= self._considered or self._epoch.kind == "runbook":
            return False
        self._considered = self._shown = seq
        return True


class Hello:
    """The hellos of one epoch."""

    def __init__(self, epoch: Epoch, feedback: FeedbackSeen) -> None:
        self._epoch = epoch
        self._feedback = feedback
        self._transcript = SubtaskTranscript()
        self._chosen: list[dict[str, Any]] = []

    async def hello(self, p: protocol.Hello) -> HelloAnswer:
        """Answer a hello; raises ProtocolError for another version of the protocol."""
        if p.protocol != protocol.PROTOCOL_VERSION:
            raise protocol.ProtocolError(
                f"protocol {p.protocol} is not spoken here; {protocol.PROTOCOL_VERSION} is",
                protocol.INVALID_PARAMS,
            )
        await self._epoch.ready.wait()
        if not self._epoch.work.greeted:
            self._record(redact(p.agent))
        answer = self._answer()  # made while that is written
        self._feedback.shown(self._epoch.core.state.feedback_seq)
        await self._epoch.commit()
        return answer

    def _record(self, agent: str) -> None:
        """Record the first hello of the epoch, and the strategies that its agent is shown."""
        self._epoch.work.greeted = True
        at, number = time.time(), self._epoch.number
        shown = self._choose()
        self._chosen = [bullet.to_dict() for bullet in shown]
        with self._epoch.recording() as core:
            probe = core.state.waits_for_time
            core.emit(ev.WorkerReady(at=at, epoch=number, agent=agent, probe=probe))
            ids = tuple(bullet.id for bullet in shown)
            if ids or core.state.strategies:
                core.emit(ev.StrategiesShown(at=at, epoch=number, ids=ids))

    def _choose(self) -> list[Bullet]:
        """Choose strategies once an epoch, so that its agent's prompt stays the same."""
        epoch, settings = self._epoch, self._epoch.settings
        if epoch.kind == "runbook":
            return []
        room = playbook_chars(settings.context.max_tokens) if epoch.kind == "llm" else CHARS_MAX
        return epoch.parts.playbook.chosen(epoch.core.state, settings.playbook, room)

    def _answer(self) -> HelloAnswer:
        epoch, settings = self._epoch, self._epoch.settings
        answer = hello_answer(
            epoch.core.state,
            settings,
            epoch.agent,
            epoch.parts.goals.ledger,
            self._chosen if settings.playbook.enabled else [],
            self._transcript,
            prompt=epoch.parts.models.continued(epoch.agent, epoch.core.state.prompt),
        )
        own: dict[str, Any] = {"epoch": epoch.number, "credential": epoch.credential}
        if epoch.logins:
            own["logins"] = epoch.logins
        return answer.model_copy(update=own)
