"""The watched goals: what happens to them, where they stand, and whether a daemon runs, by its stream or the ledger."""

import threading
import time
from collections.abc import Sequence
from queue import Queue

from clew_daemon.reading.describe import Entry, advance, stands
from clew_daemon.reading.errors import TO_START, CliError
from clew_daemon.reading.follow import News, StreamEvent, following
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import all_goals, opened
from clew_daemon.record.goal_status import status_view
from clew_daemon.record.goal_view import GoalView
from clew_daemon.record.store import load_listed, load_state
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.reader import Cursor, Reader
from clew_shared.record.codec import decode
from clew_shared.record.state import State

AT_REST = ("completed", "failed", "cancelled", "blocked")
UNREADABLE_S, HOLDER_S = 5.0, 0.5
ASK_S, ASK_MAX_S = 1.0, 5.0
ASK_SHARE = 0.01  # The share of the daemon's time that asking may take: after a slow answer the pause is longer
BACK_S = 30.0  # how long an ended daemon is waited for
NEWS_MAX = 20  # how much of what has arrived is shown before the view is drawn again
RECENT_ACTIONS = 5
ENDS = ("action_finished", "action_blocked", "action_interrupted")


class Watched:
    """Some goals, by their ids, or all; `attach`: only their last actions are told; `note`: a daemon is waited for."""

    def __init__(self, instance: Instance, goals: Sequence[str], *, attach: bool) -> None:
        self._instance, self._goals, self._attach = instance, list(goals), attach
        self._news = Queue[News](NEWS_MAX)  # a full one holds the daemon back
        self._ended: threading.Event | None = None
        self._began, self._read_at = time.time(), time.monotonic()
        self._ask_at = self._look_at = 0.0
        self._told: dict[str, GoalView] = {}  # the last answer to `status`, by the ids of the goals
        self._gone_at: float | None = None
        self._was_there = False
        self.states: dict[str, State] = {}
        self.note = ""

    def close(self) -> None:
        """Stop following."""
        if self._ended is not None:
            self._ended.set()

    @property
    def named(self) -> list[State]:
        """The states of the goals that were named, as far as they were read."""
        return [self.states[goal] for goal in self._goals if goal in self.states]

    @property
    def is_at_rest(self) -> bool:
        """Whether goals were named and none of them goes on without a person."""
        return bool(self.named) and all(one.goal.status in AT_REST for one in self.named)

    @property
    def are_reported(self) -> bool:
        """Whether the reports of all that have ended are written, or no daemon runs that would write them."""
        written = all(not one.ended or one.reported_seq > one.rested_seq for one in self.named)
        return written or self._instance.holder is None

    def views(self) -> list[GoalView]:
        """Return where the goals stand: by the daemon's last answer or the ledger; what failed before is left out."""
        self._ask()
        known = [one for one in self.states.values() if not one.removed]
        failed = (s for s in known if s.goal.status == "failed" and s.ended_at >= self._began)
        shown = self.named or [*(one for one in known if not one.ended), *failed]
        views = [self._told.get(one.goal_id) or status_view(one, time.time()) for one in shown]
        return [{**view, "stopped": bool(self.note)} for view in views]

    def read(self) -> list[Entry]:
        """Return entries for what is new; CliError if the ledger cannot be read, or no daemon starts again."""
        entries: list[Entry] = []
        try:
            entries = self._begun() if self._ended is None else self._arrived()
            self._read_at = time.monotonic()
        except LedgerError as error:
            if time.monotonic() - self._read_at > UNREADABLE_S:
                raise CliError(str(error)) from None
        return [*entries, *([] if self.is_at_rest else self._presence())]

    def _begun(self) -> list[Entry]:
        """Return entries on the goals so far, and follow from there on; nothing while there is no ledger."""
        with opened(self._instance.ledger) as reader:
            if reader is None:
                return []
            after, entries = str(Cursor.at_end(reader)), self._past(reader)
        self._ended = following(self._instance, self._news.put, after)
        return entries

    def _arrived(self) -> list[Entry]:
        entries: list[Entry] = []
        for _ in range(min(NEWS_MAX, self._news.qsize())):
            news = self._news.get()
            entries += filter(None, map(self._advance, news.events))
            if news.reset:
                entries.append(_note("the ledger was replaced; this is what it says now"))
                with opened(self._instance.ledger) as reader:
                    entries += self._past(reader) if reader else []
        return entries

    def _past(self, reader: Reader) -> list[Entry]:
        """Load the goals to watch, and return entries on their past and on where they stand."""
        if not self._goals:
            self.states = {g: s for g, s in load_listed(reader).items() if not s.ended}
            return self._standing()
        entries: list[Entry] = []
        for goal in self._goals:
            state = self.states[goal] = State(goal_id=goal)
            found = [advance(state, decode(row.body), row.seq) for row in reader.read(goal)]
            past = [entry for entry in found if entry]
            if not state.seq:
                raise CliError(f"{goal} is not in the ledger any more")
            if self._attach:  # the ends of the last actions, and those that run
                ends = [entry for entry in past if entry.kind in ENDS][-RECENT_ACTIONS:]
                past = [*ends, *(one for one in past if one.begins and one.seq in state.in_flight)]
            entries += past
        entries.sort(key=lambda entry: entry.seq)
        return entries + (self._standing() if self._attach else [])

    def _standing(self) -> list[Entry]:
        """Return entries on where the goals stand, with what the queued ones wait for."""
        self._ask()
        found = []
        for goal, state in self.states.items():
            view = self._told.get(goal) or status_view(state, time.time())
            at = (state.ended and state.ended_at) or state.updated_at
            found.append(stands({**view, "question": state.question}, at))
        return found

    def _advance(self, found: StreamEvent) -> Entry | None:
        goal = found.goal
        if not goal or (self._goals and goal not in self._goals):
            return None
        if goal not in self.states and found.kind != "goal_accepted":  # one that had ended goes on
            with opened(self._instance.ledger) as reader:
                state = self.states[goal] = load_state(reader, goal) if reader else State()
            return stands(status_view(state, time.time()), state.updated_at)
        state = self.states.setdefault(goal, State(goal_id=goal))
        if found.seq <= state.seq:
            return None
        try:
            return advance(state, decode(found.body), found.seq)
        except ValueError:
            what = f"event {found.seq} was recorded by another version of clew"
            raise CliError(f"{what}: start `clew watch` again") from None

    def _ask(self) -> None:
        """Ask how the goals stand, once a second at most; the ledger answers where no daemon does."""
        began = time.monotonic()
        if began < self._ask_at:
            return
        answer = all_goals(self._instance, limit=0)
        self._told = {goal["id"]: goal for goal in answer["goals"]}
        took_s = time.monotonic() - began
        self._ask_at = began + took_s + min(ASK_MAX_S, max(ASK_S, took_s / ASK_SHARE))

    def _presence(self) -> list[Entry]:
        """Return entries on a daemon that has ended or is back, by the ledger's lock; CliError if it stays away."""
        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at = now + HOLDER_S
        if self._instance.holder is not None:
            was_gone, self._was_there, self._gone_at, self.note = bool(self.note), True, None, ""
            return [_note("the daemon is running again")] if was_gone else []
        if self._gone_at is None:
            self._gone_at = now
            state = "the daemon has ended" if self._was_there else "no daemon is running"
            wait = f"waiting up to {BACK_S:.0f} s for it to start again (Ctrl-C to stop)"
            self.note = f"{state}; {wait}"
            return [_note(self.note)]
        if now - self._gone_at > BACK_S:
            goals = ", ".join(self._goals) or "every goal"
            raise CliError(
                f"no daemon has started within {BACK_S:.0f} s; {goals} continues when one does: "
                f"start it with {TO_START}",
                ExitCode.NO_DAEMON,
            )
        return []


def _note(title: str) -> Entry:
    return Entry(time.time(), "", "", title, "yellow")
