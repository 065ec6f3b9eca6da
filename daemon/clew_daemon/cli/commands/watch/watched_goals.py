"""The watched goals: events and states from the record, the rest from the daemon.

Events arrive as they become durable, so nothing is missed. The daemon is asked only now and then for what is not on
record: that an LLM call or a check is running, what a queued goal waits for, and the files in the inbox. A daemon that
has ended is waited for, with a note.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.commands.watch.daemon_watch import DaemonPoller, DaemonPresence
from clew_daemon.cli.commands.watch.feed import waiting_entry
from clew_daemon.cli.commands.watch.goal_status import GoalMoment
from clew_daemon.cli.commands.watch.ledger_feed import LedgerFeed
from clew_daemon.reading.goal_text import answer_lines, closing_lines, goal_lines
from clew_daemon.reading.output import on_terminal, print_lines
from clew_daemon.reading.sanitize import clean
from clew_shared.views.publish import goal_detail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from clew_daemon.cli.commands.watch.feed import FeedEntry
    from clew_daemon.cli.commands.watch.live_view import WatchView
    from clew_daemon.reading.instance import Instance

POLL_S = 0.1
REPORT_S = 2.0
AT_REST = ("completed", "failed", "cancelled", "blocked")

GoalDetail = dict[str, Any]
"""A goal's view (`clew_shared.views.publish.goal_detail`)."""


class WatchedGoals:
    """The goals that are watched, and whether the daemon runs."""

    def __init__(self, instance: Instance, goals: Sequence[str], *, attach: bool) -> None:
        self._instance = instance
        self._goals = list(goals)
        self._feed = LedgerFeed(instance, self._goals, attach=attach)
        self._poller = DaemonPoller(instance)
        self._presence = DaemonPresence(instance, self._poller)
        self._was_at_rest = False
        self._attach = attach  # otherwise all that it did is shown as it was

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the ledger open, and poll the daemon, while the block lasts."""
        self._poller.begin()
        try:
            yield
        finally:
            self._poller.end()
            self._feed.close()

    @property
    def is_at_rest(self) -> bool:
        """Whether goals were named and none of them goes on without a person."""
        states = [self._feed.states.get(goal) for goal in self._goals]
        return bool(states) and all(s and s.goal.status in AT_REST for s in states)

    @property
    def is_completed(self) -> bool:
        """Whether all goals were completed."""
        return all(self._feed.states[goal].goal.status == "completed" for goal in self._goals)

    @property
    def unfinished(self) -> dict[str, bool]:
        """The goals that have not ended, each with whether it goes on without a person."""
        return {
            goal: state.goal.status != "blocked" and not state.paused
            for goal, state in self._feed.states.items()
            if not state.ended
        }

    def begin(self, view: WatchView) -> None:
        """Show the goals' past and their status."""
        view.tell(self._feed.read())
        view.tell(self._daemon_entries())
        view.draw(self._moments(), self._presence.note)
        self._was_at_rest = self._attach and self.is_at_rest

    def look(self, view: WatchView, each: Callable[[Sequence[GoalDetail]], None] | None) -> None:
        """Show what is new, and the status of the goals."""
        entries = self._feed.read()
        entries += [*self._daemon_entries(), *self._poller.rejected(), *self._waiting_entries()]
        view.tell(entries)
        if self._goals and each is not None:
            each([self._detail(goal) for goal in self._goals])
        view.draw(self._moments(), self._presence.note)

    def await_reports(self, view: WatchView) -> None:
        """Wait until the reports of goals that ended are written, at most `REPORT_S` and while the daemon runs."""
        deadline = time.monotonic() + REPORT_S
        while not all(self._is_reported(goal) for goal in self._goals):
            if time.monotonic() > deadline or self._instance.holder is None:
                return
            time.sleep(POLL_S)
            self.look(view, None)

    def _is_reported(self, goal: str) -> bool:
        state = self._feed.states[goal]
        return not state.ended or state.reported_seq > state.rested_seq

    def print_end(self, *, with_reports: bool) -> None:
        """Print how the goals ended."""
        for goal in self._goals:
            detail = self._detail(goal)
            report = self._instance.report_of(goal) if with_reports else ""
            if on_terminal() or self._was_at_rest:
                print_lines(goal_lines(detail, report=report))
                continue
            is_asking = detail["status"] == "blocked"  # and its question was printed as an entry
            lines = [*(answer_lines(detail) if is_asking else closing_lines(detail))]
            lines += [[("report: ", ""), (report, "")]] if report else []
            print_lines([(f"{clean(goal)}: ", ""), *one] for one in lines)

    def _waiting_entries(self) -> list[FeedEntry]:
        """Return entries for goals that wait for something else than was announced last."""
        at, announced = self._poller.at, self._feed.announced_waits
        found: list[FeedEntry] = []
        for goal, view in self._poller.goals.items():
            state = self._feed.states.get(goal)
            if state is None or at < state.updated_at:  # older than the record
                continue
            waiting = view.get("waiting") or {}
            waits = str(waiting.get("for") or "")
            if waits == announced.get(goal, ""):
                continue
            announced[goal] = waits
            if waits and waits != state.reason and not state.paused:
                found.append(waiting_entry(state, waits, waiting.get("until"), at))
        return found

    def _daemon_entries(self) -> list[FeedEntry]:
        """Return entries on the daemon, unless no goal needs one any more."""
        return [] if self.is_at_rest else self._presence.look(", ".join(self._goals))

    def _moments(self) -> list[GoalMoment]:
        states, answers, at = self._feed.states, self._poller.goals, self._poller.at
        goals = self._goals or [goal for goal, state in states.items() if not state.ended]
        is_away = bool(self._presence.note)
        return [
            GoalMoment(states[goal], None if is_away else answers.get(goal), at, is_away)
            for goal in goals
            if goal in states
        ]

    def _detail(self, goal: str) -> GoalDetail:
        return goal_detail(self._feed.states[goal], time.time())
