"""What is so now, goal by goal and of the daemon, and what of it a person should know."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from clew_daemon.control.requests import HealthRequest
from clew_daemon.reading.client import Address, NoAnswer, NoDaemon, send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.record.store import load_listed, load_state
from clew_shared.config.tables import NoticeKind
from clew_shared.ledger import EventRow, Reader
from clew_shared.proof.label import words
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.model import GoalStatus
from clew_shared.record.snapshot import outline
from clew_shared.record.state import State
from clew_shared.text.redact import redact
from clew_shared.text.words import passed_before
from clew_shared.views.publish import answer

TITLE_CHARS, TEXT_CHARS = 120, 2_000
ANSWER_S = 5.0
DOWN_S = 10.0
"""How long a daemon may be gone, as for a restart, before a message says so."""
LONG_WAIT_S = 3600.0
DAEMON = "daemon"
"""The topic of the condition that the daemon runs, or doesn't."""
BEFORE_BLOCK = 200
"""This many events before a block are searched for the death of a worker."""


_TITLES: dict[NoticeKind, str] = {
    "blocked": "needs an answer",
    "gave_up": "was stopped: its worker keeps dying",
    "completed": "is completed",
    "failed": "failed",
    "waiting_long": "has been waiting for over an hour",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """A message; `goal` is "" for one about the daemon."""

    kind: NoticeKind
    title: str
    body: str
    goal: str = ""


_TROUBLE = {
    "full": Notice(
        "ledger_full",
        "clew: the disk is full",
        "Nothing is accepted or judged until there is space.",
    ),
    "failed": Notice(
        "ledger_full", "clew: the ledger cannot be written", "The daemon stops: see `clew logs`."
    ),
}


def of_block(state: State, *, died: bool) -> Notice:
    """Return the message about a goal that is blocked; `died`: because its worker kept dying."""
    goal, command = state.goal_id, answer(state)
    body = [state.question[:TEXT_CHARS] or state.reason]
    if "`clew " not in state.question:
        said = "Once it is fixed" if died else "Answer it"
        body += [f"{said}: {command}", f"More: clew {'history' if died else 'status'} {goal}"]
    return _of_goal("gave_up" if died else "blocked", state, body)


def of_end(state: State, end: ev.GoalEnded) -> Notice | None:
    """Return the message about an end of a goal; None where a person cancelled it."""
    more, said = f"More: clew status {state.goal_id}", (end.reason or end.summary)[:TEXT_CHARS]
    if end.status == "failed":
        again = f"To try again: clew continue {state.goal_id}"
        return _of_goal("failed", state, [said, more, again])
    if end.status == "completed":
        unverified = "" if end.verified else "No check has verified this."
        made = state.proofs.made
        proof = f"Proof: {words(made.label, made.why, made.accepted)}." if made else ""
        before = "" if made else passed_before(end.passed_before)
        facts = [said, unverified, proof, before and f"But {before}.", more]
        return _of_goal("completed", state, facts)
    return None


def _of_goal(kind: NoticeKind, state: State, body: list[str]) -> Notice:
    about = state.spec.name or state.spec.description.partition("\n")[0]
    title = clean(redact(f"clew: {about[:TITLE_CHARS] or state.goal_id} {_TITLES[kind]}"))
    text = clean(redact("\n".join(filter(None, body))), lines=True)
    return Notice(kind, title, text, state.goal_id)


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
                notice = of_block(state, died=goal in self._died)
                found[f"goal {goal}"] = Condition(str(state.rested_seq), notice)
            elif status == GoalStatus.WAITING and not state.paused and now - since >= LONG_WAIT_S:
                again = f"To try again now: clew continue {goal}"
                notice = _of_goal("waiting_long", state, [state.reason, again])
                found[f"goal {goal}"] = Condition(f"waits since {since}", notice)
        self.conditions = found

    def ask(self, now: float) -> None:
        """Ask the daemon how it does."""
        answer = ask_health(self._instance.socket)
        if isinstance(answer, DaemonHealth):
            self.health, self._gone_at = answer, None
            self._daemon = {DAEMON: Condition("up")}
            if trouble := _TROUBLE.get(answer.state):
                self._daemon["ledger"] = Condition(answer.state, trouble)
            return
        self.health, self._gone_at = None, self._gone_at or now
        self._daemon = {key: one for key, one in self._daemon.items() if key == DAEMON}
        if now - self._gone_at >= DOWN_S:
            again = f"Goals continue when it starts again: {self._instance.socket.to_start}"
            down = Notice("daemon_down", "clew: the daemon is down", f"{answer}\n{again}")
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
