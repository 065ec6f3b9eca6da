"""The daemon while goals are watched: its answers beside the record, and whether it runs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.commands.watch.feed import note
from clew_daemon.control.requests import StatusRequest
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.sanitize import short
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.cli.commands.watch.feed import FeedEntry
    from clew_daemon.reading.instance import Instance

HOLDER_S = 0.5
"""How often the lock of the ledger is looked at."""

POLL_S, POLL_MAX_S = 1.0, 5.0
POLL_SHARE = 0.01
"""The share of the daemon's time that polling may take: after a slow answer the pause is longer."""

MANAGED_S, ALONE_S = 30.0, 10.0
"""How long an ended daemon is waited for: one that a service manager starts again, and any other."""


class DaemonPoller:
    """Polls the daemon's `status` in a thread, so that a slow answer delays nothing else."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="polling", daemon=True)
        self._answer: tuple[float, dict[str, Any]] = (0.0, {})
        self._known: set[str] | None = None
        self.is_managed = False

    def begin(self) -> None:
        """Start polling."""
        self._thread.start()

    def end(self) -> None:
        """Stop polling, without waiting for an answer that is under way."""
        self._ended.set()

    @property
    def at(self) -> float:
        """The time of the request for the last answer, in seconds since 1970."""
        return self._answer[0]

    @property
    def goals(self) -> dict[str, dict[str, Any]]:
        """The entries of `status` of goals that have not ended, by their ids; none if no daemon answers."""
        return {goal["id"]: goal for goal in self._answer[1].get("goals", ())}

    def rejected(self) -> list[FeedEntry]:
        """Return entries for files that the inbox has rejected since the last call."""
        answer = self._answer[1]
        if not answer:
            return []
        reasons = {
            str(file["name"]): str(file.get("reason") or "")
            for file in answer.get("inbox") or ()
            if file.get("rejected")
        }
        known, self._known = self._known, set(reasons)
        new = [name for name in reasons if known is not None and name not in known]
        return [_rejected(name, short(reasons[name], 300)) for name in new]

    def _run(self) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            at, began = time.time(), time.monotonic()
            try:
                answer = send(self._instance.socket, StatusRequest(limit=0))
            except CliError:
                answer = {}
            if answer:
                self.is_managed = bool((answer.get("daemon") or {}).get("managed"))
            self._answer = at, answer
            took_s = time.monotonic() - began
            pause_s = min(POLL_MAX_S, max(POLL_S, took_s / POLL_SHARE))


def _rejected(name: str, reason: str) -> FeedEntry:
    why = f": {reason}" if reason else ""
    return note("goal.rejected", f"inbox: {short(name)} was rejected{why}")


class DaemonPresence:
    """Whether a daemon runs, by the lock of the ledger, which is free at the moment that its holder ends.

    `note` is a line on a daemon that is waited for, "" while one runs.
    """

    def __init__(self, instance: Instance, poller: DaemonPoller) -> None:
        self._instance = instance
        self._poller = poller
        self._look_at = 0.0
        self._gone_at: float | None = None
        self._was_there = False
        self.note = ""

    def look(self, goals: str) -> list[FeedEntry]:
        """Return entries on a daemon that has ended or is back; CliError if it does not start again in time.

        `goals` are the names of the watched goals, "" for all.
        """
        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at = now + HOLDER_S
        if self._instance.holder is not None:
            return self._back()
        wait_s = MANAGED_S if self._poller.is_managed else ALONE_S
        if self._gone_at is None:
            self._gone_at = now
            state = "the daemon has ended" if self._was_there else "no daemon is running"
            wait = f"waiting up to {wait_s:.0f} s for it to start again (Ctrl-C to stop)"
            self.note = f"{state}; {wait}"
            return [note("daemon.gone", self.note)]
        if now - self._gone_at > wait_s:
            raise CliError(
                f"no daemon has started within {wait_s:.0f} s; {goals or 'every goal'} continues when one does: "
                f"start it with {self._instance.socket.to_start}",
                ExitCode.NO_DAEMON,
            )
        return []

    def _back(self) -> list[FeedEntry]:
        self._was_there = True
        if self._gone_at is None:
            return []
        self._gone_at, self.note = None, ""
        return [note("daemon.back", "the daemon is running again")]
