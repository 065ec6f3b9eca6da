"""Timelines of goals, kept between two looks: a look costs what happened since, not the length of the record."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from datetime import datetime

from clew_daemon.host.own_process import give_back
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import open_ledger
from clew_daemon.record.store import catch_up
from clew_daemon.record.timeline import RefusedAction, Timeline, TimelineFold, timeline

GOALS_KEPT = 64


class Timelines:
    """The timelines of an instance; may be used from any thread."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._turn = threading.Lock()
        self._file = (0, 0)
        self._known: OrderedDict[str, TimelineFold] = OrderedDict()

    def of(self, goal: str, ended_at: str | None) -> tuple[Timeline, tuple[RefusedAction, ...]]:
        """Return a goal's timeline and its last refusals, oldest first; `ended_at` as in its view."""
        until = datetime.fromisoformat(ended_at).timestamp() if ended_at else time.time()
        with self._turn, open_ledger(self._instance) as reader:
            self._forget_another()
            known = self._known.pop(goal, None)
            fold = self._known[goal] = known or TimelineFold()
            deque(catch_up(fold, reader, goal), maxlen=0)
            while len(self._known) > GOALS_KEPT:
                self._known.popitem(last=False)
            if known is None:
                give_back()  # reading it for the first time takes much more memory than what is kept
            return timeline(fold, until), tuple(fold.refusals)

    def _forget_another(self) -> None:
        """Forget what was read from another ledger: it was replaced."""
        found = self._instance.ledger.stat()
        if self._file != (found.st_dev, found.st_ino):
            self._file = found.st_dev, found.st_ino
            self._known.clear()
