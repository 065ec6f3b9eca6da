"""What is so now, goal by goal and of the daemon, and what of it a person should know."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from clew_daemon.control.requests import HealthRequest
from clew_daemon.herald import notices
from clew_daemon.herald.notices import Notice
from clew_daemon.reading.client import Address, NoAnswer, NoDaemon, send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.record.store import load_listed, load_state
from clew_shared.ledger import EventRow, Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.model import GoalStatus
from clew_shared.record.snapshot import outline
from clew_shared.record.state import State

ANSWER_S = 5.0
DOWN_S = 10.0
"""How long a daemon may be gone, as for a restart, before a message says so."""
LONG_WAIT_S = 3600.0
DAEMON = "daemon"
"""The topic of the condition that the daemon runs, or doesn't."""
BEFORE_BLOCK = 200
"""This many events before a block are searched for the death of a worker."""


@dataclass(frozen=True, slots=True)
class DaemonHealth:
    """The ledger's `state`; `counts` are the commits up to each of `bounds`, in seconds, and above the last one."""

    state: str
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds now. `key` differs for each time it begins; `notice` is None if nobody has to be told."""

    key: str
    notice: Notice | None = None


def ask_health(at: Address) -> DaemonHealth | str:
    """Return how the daemon does, or why it cannot be known: no daemon is there, or it does not answer."""
    try:
        answer = send(at, HealthRequest(), within_s=ANSWER_S)
    except NoDaemon:
        return "No daemon is running."
    except NoAnswer:
        return "A daemon is running but does not answer."
    except CliError as error:
        return f"The daemon cannot be asked: {error}"
    commits = answer["commits"]
    bounds, counts = tuple(commits["bounds_s"]), tuple(commits["counts"])
    return DaemonHealth(answer["ledger"], bounds, counts, commits["sum_s"])


class Situation:
    """The goals on record and the daemon, as one thread sees them; the others read `conditions`.

    `goals` are their states, outlined where they have ended; `health` is the last answer of the daemon, None while it
    does not answer.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self.goals: dict[str, State] = {}
        self.health: DaemonHealth | None = None
        self.conditions: dict[str, Condition] = {}
        self._died: set[str] = set()
        self._daemon: dict[str, Condition] = {}
        self._gone_at: float | None = None

    def load(self, reader: Reader) -> None:
        """Take all goals of a ledger, and forget those of another."""
        self.goals = {}
        for state in load_listed(reader).values():
            self._take(reader, state)

    def advance(self, reader: Reader, rows: Iterable[EventRow]) -> None:
        """Take what events changed."""
        rows = list(rows)
        for goal in {row.goal for row in rows if row.goal and row.kind.startswith("goal_")}:
            self._take(reader, load_state(reader, goal))
        for row in rows:
            if row.kind == "goal_forgotten":
                self.goals.pop(str(json.loads(row.body)["goal"]), None)

    def look(self, now: float) -> None:
        """Report the situation again: the daemon, goals that are blocked, and those that have waited for long."""
        found = dict(self._daemon)
        for goal, state in self.goals.items():
            status, since = state.goal.status, state.waiting_since
            if status == GoalStatus.BLOCKED:
                notice = notices.of_block(state, died=goal in self._died)
                found[f"goal {goal}"] = Condition(str(state.rested_seq), notice)
            elif status == GoalStatus.WAITING and not state.paused and now - since >= LONG_WAIT_S:
                notice = notices.of_wait(state)
                found[f"goal {goal}"] = Condition(f"waits since {since}", notice)
        self.conditions = found

    def ask(self, now: float) -> None:
        """Ask the daemon how it does."""
        answer = ask_health(self._instance.socket)
        if isinstance(answer, DaemonHealth):
            self.health, self._gone_at = answer, None
            self._daemon = {DAEMON: Condition("up")}
            if answer.state in ("full", "failed"):
                trouble = notices.ledger_trouble(answer.state)
                self._daemon["ledger"] = Condition(answer.state, trouble)
            return
        self.health, self._gone_at = None, self._gone_at or now
        self._daemon = {key: one for key, one in self._daemon.items() if key == DAEMON}
        if now - self._gone_at >= DOWN_S:
            down = notices.daemon_down(answer, self._instance.socket.to_start)
            self._daemon = {DAEMON: Condition("down", down)}

    def _take(self, reader: Reader, state: State) -> None:
        goal = state.goal_id
        if not goal or not state.accepted_seq:
            return
        self.goals[goal] = outline(state) if state.ended else state
        self._died.discard(goal)
        if state.goal.status == GoalStatus.BLOCKED and _worker_died(reader, state):
            self._died.add(goal)


def _worker_died(reader: Reader, state: State) -> bool:
    before = reader.read(state.goal_id, max(0, state.rested_seq - BEFORE_BLOCK))
    last = [
        decode(row.body)
        for row in before
        if row.seq <= state.rested_seq and row.kind in ("worker_started", "worker_exited")
    ][-1:]
    return any(isinstance(one, ev.WorkerExited) and one.crash for one in last)
