"""What no event says: how the daemon does, and what its inbox has rejected. Looked at now and then, in a thread."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import apsw
import structlog

from clew_daemon.control.requests import HealthRequest
from clew_daemon.herald import notices
from clew_daemon.herald.book import Book
from clew_daemon.herald.notices import Notice
from clew_daemon.inbox.leftovers import Left
from clew_daemon.reading.client import Address, NoAnswer, NoDaemon, RequestRefused, send
from clew_daemon.reading.errors import CliError

ANSWER_S = 5.0
SLOW_S = 1.0


@dataclass(frozen=True, slots=True)
class DaemonHealth:
    """The ledger's `state`; `counts` are the commits up to each of `bounds`, in seconds, and above the last one."""

    state: str
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float

    @property
    def slow_commits(self) -> int:
        """How many commits took longer than `SLOW_S`."""
        return sum(self.counts[sum(bound <= SLOW_S for bound in self.bounds) :])


def ask_health(at: Address) -> DaemonHealth | str:
    """Return how the daemon does, or why it cannot be known: no daemon is there, or it does not answer."""
    try:
        answer = send(at, HealthRequest(), within_s=ANSWER_S)
        commits = answer["commits"]
        bounds, counts = tuple(commits["bounds_s"]), tuple(commits["counts"])
        return DaemonHealth(answer["ledger"], bounds, counts, commits["sum_s"])
    except RequestRefused:  # an older daemon runs
        return DaemonHealth("ok", (), (0,), 0.0)
    except NoDaemon:
        return "No daemon is running."
    except NoAnswer:
        return "A daemon is running but does not answer."
    except (CliError, KeyError, TypeError) as error:
        return f"The daemon cannot be asked: {error}"


log = structlog.get_logger()

ASK_S = 5.0
DOWN_S = 10.0
"""How long a daemon may be gone, as for a restart, before a message says so."""
SLOW_EVERY_S = 3600.0

DAEMON = "daemon"
"""The fact in the book: "up" or "down", as a person was last told; a message about "down" needs an "up" before."""
REJECTED = "rejected"
"""The fact in the book: the names of the rejected files that a person was told of, or that were there before."""


class Alerts:
    """Asks the daemon how it does, and tells what a person must know of that: once for each time that it happens."""

    def __init__(
        self,
        find: Callable[[], Address],
        inbox: Callable[[], Left],
        book: Book,
        on: Collection[str],
        tell: Callable[[Notice], None],
    ) -> None:
        self._find = find
        self._inbox = inbox
        self._book = book
        self._on = on
        self._tell = tell
        self._gone_at: float | None = None
        self._trouble = "ok"
        self._slow: int | None = None
        self._slow_told_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self.health: DaemonHealth | None = None
        """The last answer of the daemon; None while it does not answer."""

    def begin(self) -> None:
        """Start asking."""
        self._thread.start()

    def look(self) -> None:
        """Ask once."""
        found = ask_health(self._find())
        now = time.time()
        if isinstance(found, DaemonHealth):
            self.health = found
            self._is_up(found, now)
        else:
            self.health = None
            self._is_down(found, now)
        self._look_for_rejected(now)

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except apsw.Error as error:
                log.error("alerts.failed", reason=str(error))  # noqa: TRY400 - a reason
            time.sleep(ASK_S)

    def _is_up(self, found: DaemonHealth, now: float) -> None:
        if self._gone_at is not None or self._book.fact(DAEMON) != "up":
            self._gone_at = None
            self._book.set_fact(DAEMON, "up")
        before, self._trouble = self._trouble, found.state
        if found.state in ("full", "failed") and found.state != before:
            self._alert(notices.ledger_trouble(now, found.state))
        slow, self._slow = self._slow, found.slow_commits
        is_slow = slow is not None and found.slow_commits > slow
        if is_slow and now - self._slow_told_at > SLOW_EVERY_S:
            self._slow_told_at = now
            self._alert(notices.ledger_trouble(now, "slow"))

    def _is_down(self, why: str, now: float) -> None:
        if self._gone_at is None:
            self._gone_at = now
        if now - self._gone_at >= DOWN_S and self._book.fact(DAEMON) == "up":
            with self._book.database.transaction():
                start = self._find().to_start
                self._alert(notices.daemon_down(self._gone_at, why, start))
                self._book.set_fact(DAEMON, "down")

    def _look_for_rejected(self, now: float) -> None:
        told = self._book.fact(REJECTED)
        found = {one["name"]: one["reason"] for one in self._inbox().shown if one["rejected"]}
        known = found.keys() if told is None else set(json.loads(told))
        if told is not None and found.keys() == known:
            return
        with self._book.database.transaction():
            self._book.set_fact(REJECTED, json.dumps(list(found)))
            if new := {name: why for name, why in found.items() if name not in known}:
                self._alert(notices.rejected(now, new))

    def _alert(self, notice: Notice) -> None:
        if notice.kind in self._on:
            self._tell(notice)
