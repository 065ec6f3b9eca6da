"""Sends what waits in the spool of messages: a thread for each channel, so that a slow one holds up no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime

import apsw
import structlog

from clew_daemon.herald.notices import Notice
from clew_daemon.herald.quiet import quiet_until
from clew_daemon.herald.sending import Delivery
from clew_daemon.herald.spools import Message, MessageSpool

log = structlog.get_logger()

IDLE_S = 3600.0
RETRY_S = 30.0
UNRECORDED_S = 60.0
"""How long a message without a record is waited for; a channel that is slower may lose it."""


class Messenger:
    """Sends messages; `senders` are by channel, `outdated` says whether a message still matters after quiet hours."""

    def __init__(
        self,
        spool: MessageSpool,
        senders: Mapping[str, Callable[[Notice, bool], Delivery]],
        labels: Mapping[str, str],
        quiet: str,
        outdated: Callable[[Notice], bool],
    ) -> None:
        self._spool = spool
        self._senders = senders
        self._labels = labels
        self._quiet = quiet
        self._outdated = outdated
        self._wakes = {channel: threading.Event() for channel in senders}

    def begin(self) -> None:
        """Start sending."""
        for channel in self._senders:
            _thread(self._run, channel)

    def wake(self) -> None:
        """Look into the spool: there may be something new."""
        for event in self._wakes.values():
            event.set()

    def send_unrecorded(self, notice: Notice) -> None:
        """Send a message that cannot be put into the spool, once to each channel, whatever comes of it."""

        def send_to(channel: str) -> None:
            done = self._senders[channel](notice, False)
            log.info("message.unrecorded", channel=self._labels[channel], reason=done.error)

        ends_at = time.monotonic() + UNRECORDED_S
        for thread in [_thread(send_to, channel) for channel in self._senders]:
            thread.join(max(0.0, ends_at - time.monotonic()))

    def _run(self, channel: str) -> None:
        while True:
            try:
                wait_s = self.send_due(channel)
            except apsw.Error as error:  # the disk is full: what is sent must be on record before
                log.error("message.held", reason=str(error))  # noqa: TRY400 - a reason
                wait_s = RETRY_S
            self._wakes[channel].wait(wait_s)
            self._wakes[channel].clear()

    def send_due(self, channel: str) -> float:
        """Send a channel's first message, if it is due; return for how many seconds there is nothing to do."""
        now = time.time()
        for message in self._spool.due(now):
            if message.channel == channel:
                self._deliver(message, now)
        due = self._spool.next_due(channel)
        return IDLE_S if due is None else min(max(due - time.time(), 0.0), IDLE_S)

    def _deliver(self, message: Message, now: float) -> None:
        until = quiet_until(datetime.now().astimezone(), self._quiet)
        if until is not None:
            self._spool.hold(message, until.timestamp())
            return
        if self._quiet and self._outdated(message.notice):
            self._spool.dropped(message)
            return
        about = {"channel": self._labels[message.channel], "kind": message.notice.kind}
        if message.notice.goal:
            about["goal"] = message.notice.goal
        self._spool.sending(message)
        done = self._senders[message.channel](message.notice, message.maybe_sent)
        if not done.error:
            self._spool.sent(message)
            log.info("message.sent", **about)
            return
        self._spool.failed(message, now, done.error, maybe_sent=done.maybe_sent)
        write = log.debug if message.tries else log.warning
        write("message.failed", reason=done.error, **about)


def _thread(target: Callable[[str], None], channel: str) -> threading.Thread:
    thread = threading.Thread(target=target, args=(channel,), name="messages", daemon=True)
    thread.start()
    return thread
