"""Sends what waits in the spool of messages, in a thread: each one before the next, each channel for itself."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING

import apsw
import structlog

from clew_daemon.herald.quiet import quiet_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clew_daemon.herald.notices import Notice
    from clew_daemon.herald.sending import Delivery
    from clew_daemon.herald.spools import Message, MessageSpool

log = structlog.get_logger()

IDLE_S = 3600.0
RETRY_S = 30.0


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
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="messages", daemon=True)

    def begin(self) -> None:
        """Start sending."""
        self._thread.start()

    def wake(self) -> None:
        """Look into the spool: there may be something new."""
        self._wake.set()

    def send_unrecorded(self, notice: Notice) -> None:
        """Send a message that cannot be put into the spool, once to each channel, whatever comes of it."""
        for channel, send in self._senders.items():
            done = send(notice, False)
            log.info("message.unrecorded", channel=self._labels[channel], reason=done.error)

    def _run(self) -> None:
        while True:
            try:
                wait_s = self.send_due()
            except apsw.Error as error:  # the disk is full: what is sent must be on record before
                log.error("message.held", reason=str(error))  # noqa: TRY400 - a reason
                wait_s = RETRY_S
            self._wake.wait(wait_s)
            self._wake.clear()

    def send_due(self) -> float:
        """Send what is due, and return for how many seconds there is nothing to do."""
        now = time.time()
        for message in self._spool.due(now):
            self._deliver(message, now)
        due = self._spool.next_due()
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
