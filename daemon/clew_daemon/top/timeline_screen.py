"""The timeline of a goal: a lane for each worker, with its actions, refusals and end."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from textual.containers import VerticalScroll
from textual.widget import Widget

from clew_daemon.record.timeline import RefusedAction, Timeline, TimelineFold, timeline
from clew_daemon.top.chart import TimelineChart
from clew_daemon.top.goal_screen import ActionScreen
from clew_daemon.top.home import HomeReader
from clew_daemon.top.views import GoalViewScreen

TimelineView = tuple[Timeline, tuple[RefusedAction, ...]]


class TimelineScreen(GoalViewScreen[TimelineView]):
    """The timeline; Enter opens the action that is chosen in it."""

    view = "timeline"
    keys = (("arrows", "Choose", ""), ("enter", "Open", "screen.open"))

    def __init__(self, home: HomeReader, goal: str) -> None:
        self.command = f"clew history {shlex.quote(goal)}"
        super().__init__(home, goal)
        self._known = TimelineFold()
        self._ledger = (0, 0)

    def body(self) -> list[Widget]:
        return [VerticalScroll(TimelineChart(), classes="whole", can_focus=False)]

    def on_mount(self) -> None:
        self.query_one(TimelineChart).focus()

    def read_view(self, detail: Mapping[str, Any]) -> TimelineView:
        self._begin_again_in_another_ledger()
        self.home.timeline(self.goal_id, self._known)
        ended = detail["ended_at"]
        at = datetime.fromisoformat(ended).timestamp() if ended else time.time()
        return timeline(self._known, at), tuple(self._known.refusals)

    def _begin_again_in_another_ledger(self) -> None:
        found = self.home.ledger_file
        if found != self._ledger:
            self._ledger, self._known = found, TimelineFold()

    def display_view(self, found: TimelineView) -> None:
        self.query_one(TimelineChart).put(*found)

    def action_open(self) -> None:
        self.query_one(TimelineChart).action_open()

    def on_timeline_chart_opened(self, event: TimelineChart.Opened) -> None:
        self.app.push_screen(ActionScreen(self.home, self.goal_id, event.seq))
