"""What a message to a person says, and when it must wait. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta

from clew_daemon.reading.sanitize import clean
from clew_shared.config.tables import NoticeKind
from clew_shared.proof.label import words
from clew_shared.record import events as ev
from clew_shared.record.state import State
from clew_shared.text.redact import redact
from clew_shared.text.words import passed_before
from clew_shared.views.publish import answer

TITLE_CHARS, TEXT_CHARS = 120, 2_000

_TITLES: dict[NoticeKind, str] = {
    "blocked": "needs an answer",
    "gave_up": "was stopped: its worker keeps dying",
    "completed": "is completed",
    "failed": "failed",
    "waiting_long": "has been waiting for over an hour",
}
_TROUBLE = {
    "full": ("the disk is full", "Nothing is accepted or judged until there is space."),
    "failed": ("the ledger cannot be written", "The daemon stops: see `clew logs`."),
}


@dataclass(frozen=True, slots=True)
class Notice:
    """A message; `goal` is "" for one about the daemon."""

    kind: NoticeKind
    title: str
    body: str
    goal: str = ""


def of_block(state: State, *, died: bool) -> Notice:
    """Return the message about a goal that is blocked; `died`: because its worker kept dying."""
    goal, command = state.goal_id, answer(state)
    body = [state.question[:TEXT_CHARS] or state.reason]
    if "`clew " not in state.question:
        said = "Once it is fixed" if died else "Answer it"
        body += [f"{said}: {command}", f"More: clew {'history' if died else 'status'} {goal}"]
    return _of_goal("gave_up" if died else "blocked", state, body)


def of_wait(state: State) -> Notice:
    """Return the message about a goal that has been waiting for too long."""
    return _of_goal(
        "waiting_long", state, [state.reason, f"To try again now: clew continue {state.goal_id}"]
    )


def of_end(state: State, end: ev.GoalEnded) -> Notice | None:
    """Return the message about an end of a goal; None where a person cancelled it."""
    more, said = f"More: clew status {state.goal_id}", (end.reason or end.summary)[:TEXT_CHARS]
    if end.status == "failed":
        again = f"To try again: clew continue {state.goal_id}"
        return _of_goal("failed", state, [said, more, again])
    if end.status == "completed":
        unverified = "" if end.verified else "No check has verified this."
        made = state.proof
        proof = f"Proof: {words(made.label, made.why, made.accepted)}." if made else ""
        before = "" if made else passed_before(end.passed_before)
        facts = [said, unverified, proof, before and f"But {before}.", more]
        return _of_goal("completed", state, facts)
    return None


def daemon_down(why: str, to_start: str) -> Notice:
    """Return the message about a daemon that does not run, or does not answer."""
    body = f"{why}\nGoals continue when it starts again: {to_start}"
    return Notice("daemon_down", "clew: the daemon is down", body)


def ledger_trouble(state: str) -> Notice:
    """Return the message about a ledger that cannot be written: `full` or `failed`."""
    title, body = _TROUBLE[state]
    return Notice("ledger_full", f"clew: {title}", body)


def quiet_until(now: datetime, quiet: str) -> datetime | None:
    """Return when the quiet hours that `now` falls in end, None outside of them.

    `quiet` is "HH:MM-HH:MM" in local time, which may go over midnight, or "" for none.
    """
    if not quiet:
        return None
    begin, end = (time.fromisoformat(part) for part in quiet.split("-"))
    clock = now.time()
    within = begin <= clock < end if begin < end else clock >= begin or clock < end
    if not within:
        return None
    day = now.date() + timedelta(days=1 if clock >= end else 0)
    return datetime.combine(day, end, tzinfo=now.tzinfo)


def _of_goal(kind: NoticeKind, state: State, body: list[str]) -> Notice:
    about = state.spec.name or state.spec.description.partition("\n")[0]
    title = clean(redact(f"clew: {about[:TITLE_CHARS] or state.goal_id} {_TITLES[kind]}"))
    return Notice(kind, title, _shown("\n".join(filter(None, body))), state.goal_id)


def _shown(text: str) -> str:
    return clean(redact(text), lines=True)
