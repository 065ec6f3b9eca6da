"""What the pages show, read from the ledger: with a daemon or without one, always what is durable.

States and timelines stay in memory between two pages and are brought up to date from the ledger when one is asked
for, so that a page costs what happened since and not the length of the record.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clew_daemon.host.own_process import give_back
from clew_daemon.reading import queries
from clew_daemon.reading.errors import CliError
from clew_daemon.record import pages
from clew_daemon.record.store import catch_up, in_order, load_outlined, load_state, output_of
from clew_daemon.record.timeline import TimelineFold
from clew_shared.ledger import SEQ_MAX
from clew_shared.record.codec import decode
from clew_shared.record.fold import apply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.instance import Instance
    from clew_shared.ledger import Reader
    from clew_shared.record.state import State

GOALS_KEPT = 64
ENDED_SHOWN = 50
ACTIONS_SHOWN = 50
LOOPS_SHOWN = 20


class Record:
    """Reads the ledger of an instance; to be used from any thread, one at a time."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._turn = threading.RLock()
        self._file = (0, 0)
        self._has_loaded = False
        self._states: OrderedDict[str, State] = OrderedDict()
        self._timelines: OrderedDict[str, TimelineFold] = OrderedDict()

    @contextmanager
    def opened(self) -> Iterator[Reader | None]:
        """Open the ledger, None where there is none yet; nothing else reads or changes a state meanwhile.

        Reading a goal for the first time needs much more memory than what is kept of it.
        """
        with self._turn, queries.ledger_if_any(self._instance) as reader:
            self._forget_another()
            yield reader
            if self._has_loaded:
                self._has_loaded = False
                give_back()

    def goals(self, reader: Reader | None, before: str | None = None) -> tuple[list[State], bool]:
        """Return the goals that have not ended and the last that have, and whether there are earlier ones.

        With `before`, the id of a goal, only ended ones that were accepted before it.
        """
        if reader is None:
            return [], False
        until = SEQ_MAX if before is None else self.state(reader, before).accepted_seq
        over = load_outlined(reader)
        ended = [s for s in reversed(over.values()) if s.accepted_seq < until][: ENDED_SHOWN + 1]
        rest = [self.state(reader, goal) for goal in reader.goals() if goal not in over]
        known = in_order([*ended[:ENDED_SHOWN], *rest])
        shown = [
            s
            for s in known.values()
            if not s.removed and (before is None or (s.ended and s.accepted_seq < until))
        ]
        return shown[::-1], len(ended) > ENDED_SHOWN

    def state(self, reader: Reader | None, goal: str) -> State:
        """Return a goal's present state; CliError where there is no such goal."""
        if reader is None or goal not in reader.goals():
            raise CliError(f"there is no goal {goal!r}")
        known = self._states.pop(goal, None)
        if known is None:
            self._has_loaded = True
            known = load_state(reader, goal)
        else:
            for row in reader.read(goal, known.seq):
                apply(known, decode(row.body), row.seq)
        _keep(self._states, goal, known)
        return known

    def timeline(self, reader: Reader, goal: str) -> TimelineFold:
        """Return what a goal's timeline is made of."""
        known = self._timelines.pop(goal, None)
        if known is None:
            self._has_loaded, known = True, TimelineFold()
        for _ in catch_up(known, reader, goal):
            pass
        _keep(self._timelines, goal, known)
        return known

    def output(self, goal: str, seq: int) -> str:
        """Return the whole output of an action; CliError where there is none."""
        with self.opened() as reader:
            found = None if reader is None else output_of(reader, goal, seq)
        if found is None:
            raise CliError(f"action {seq} of {goal} has no output on record")
        return found

    def _forget_another(self) -> None:
        """Forget what was read from another ledger: it was replaced."""
        try:
            found = self._instance.ledger.stat()
        except OSError:
            return
        if self._file != (found.st_dev, found.st_ino):
            self._file = found.st_dev, found.st_ino
            self._states.clear()
            self._timelines.clear()


def last_actions(
    reader: Reader, goal: str, before: int | None
) -> tuple[list[dict[str, Any]], bool]:
    """Return a goal's last actions, the latest first, with the heads of their outputs, and whether there are more."""
    found, more = pages.actions(reader, goal, ACTIONS_SHOWN, before)
    return found[::-1], more


def _keep(known: OrderedDict[str, Any], goal: str, value: Any) -> None:
    known[goal] = value
    while len(known) > GOALS_KEPT:
        known.popitem(last=False)
