"""Sends the spans that wait in their spool, in a thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import apsw
import structlog

from clew_daemon.herald.otlp import post
from clew_daemon.herald.spools import BACKOFF_MAX_S, BACKOFF_S
from clew_shared.backoff import backoff_s

if TYPE_CHECKING:
    from clew_daemon.herald.otlp import OtlpTarget
    from clew_daemon.herald.spools import SpanSpool

log = structlog.get_logger()

COLLECT_S = 0.5
"""How long spans are collected before they are sent together."""


class Tracer:
    """Sends spans to one collector."""

    def __init__(self, spool: SpanSpool, target: OtlpTarget) -> None:
        self._spool = spool
        self._target = target
        self._wake = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)

    def begin(self) -> None:
        """Start sending."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Look into the spool: there may be something new."""
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            time.sleep(COLLECT_S)
            self._wake.clear()
            try:
                while self._send():
                    pass
            except apsw.Error as error:
                self._failures += 1
                log.error("spans.held", reason=str(error))  # noqa: TRY400 - a reason
            if self._failures:
                time.sleep(backoff_s(self._failures - 1, BACKOFF_S, BACKOFF_MAX_S))
                self._wake.set()

    def _send(self) -> bool:
        """Send the next spans; return whether there may be more."""
        last, spans = self._spool.first()
        if not spans:
            return False
        answer = post(self._target, spans)
        if answer.error and not answer.final:
            self._failures += 1
            self._spool.failed(time.time(), answer.error)
            if self._failures == 1:
                log.warning("spans.failed", endpoint=self._target.label, reason=answer.error)
            return False
        self._failures = 0
        if answer.final:
            self._spool.refused(last, spans, time.time(), answer.error)
            log.error("spans.refused", endpoint=self._target.label, reason=answer.error)
        else:
            self._spool.sent(last)
        return True
