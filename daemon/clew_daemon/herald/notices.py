"""Which events and times become a message to a person, and what it says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from pydantic import BaseModel

from clew_daemon.herald.notes import GoalNote
from clew_daemon.reading.sanitize import clean
from clew_shared.config.tables import NoticeKind
from clew_shared.record.model import GoalStatus
from clew_shared.text.redact import redact
from clew_shared.text.words import passed_before

LONG_WAIT_S = 3600.0
TITLE_CHARS = 120
REJECTED_MAX = 5
REPEATED = "(possibly a repeat: clew was interrupted while it sent this)"


class Notice(BaseModel, frozen=True):
    """A message: `goal` and `seq` are the event that it is about, "" and 0 for none, and `at` is its time."""

    kind: NoticeKind
    title: str
    body: str
    goal: str = ""
    seq: int = 0
    at: float = 0.0

    @property
    def key(self) -> str:
        """What there is one message of: a goal and its state, or what happened to the daemon, and when."""
        where = f"{self.goal}:{self.seq}" if self.goal else f"{self.at:.3f}"
        return f"{self.kind}:{where}"

    def text(self, *, repeated: bool) -> str:
        """Return the body, marked if an earlier copy of it may have arrived."""
        return f"{self.body}\n\n{REPEATED}" if repeated else self.body


def of_state(goal: str, note: GoalNote, on: Collection[str]) -> Notice | None:
    """Return the message about the status that a goal has just reached, None if there is none."""
    kind = _kind(note, on)
    if kind is None:
        return None
    body = [note.question or note.reason]
    if "`clew " not in note.question:
        body += _answer(goal, kind, note)
    return _notice(kind, goal, note, note.seq, body)


def of_wait(goal: str, note: GoalNote, now: float, on: Collection[str]) -> Notice | None:
    """Return the message about a goal that has been waiting for too long; `now` is in seconds since 1970."""
    waits = note.status is GoalStatus.WAITING and not note.paused
    is_told = note.told == note.first_seq
    if not waits or is_told or "waiting_long" not in on or now - note.since < LONG_WAIT_S:
        return None
    body = [note.reason, f"To try again now: clew continue {goal}"]
    return _notice("waiting_long", goal, note, note.first_seq, body)


def daemon_down(at: float, why: str, to_start: str) -> Notice:
    """Return the message about a daemon that has not run since `at`."""
    body = f"{why}\nGoals continue when it starts again: {to_start}"
    return Notice(kind="daemon_down", title="clew: the daemon is down", body=body, at=at)


def ledger_trouble(at: float, state: str) -> Notice:
    """Return the message about a ledger that cannot be written, or only slowly."""
    title, body = {
        "full": ("the disk is full", "Nothing is accepted or judged until there is space."),
        "slow": ("the disk is slow", "Recording one step took over a second: see `clew logs`."),
        "failed": ("the ledger cannot be written", "The daemon stops: see `clew logs`."),
    }[state]
    return Notice(kind="ledger_full", title=f"clew: {title}", body=body, at=at)


def rejected(at: float, files: Mapping[str, str]) -> Notice:
    """Return the message about files that the inbox has rejected: names and reasons."""
    title = (
        "a goal file was rejected" if len(files) == 1 else f"{len(files)} goal files were rejected"
    )
    shown = [f"{name}: {why}" for name, why in islice(files.items(), REJECTED_MAX)]
    text = "\n".join(
        [*shown, "Correct it, and submit it again: clew submit FILE", "More: clew status"]
    )
    return Notice(
        kind="rejected", title=f"clew: {title}", body=clean(redact(text), lines=True), at=at
    )


def _kind(note: GoalNote, on: Collection[str]) -> NoticeKind | None:
    wanted: tuple[NoticeKind, ...]
    match note.status:
        case GoalStatus.BLOCKED:
            wanted = ("gave_up", "blocked") if note.crashed else ("blocked",)
        case GoalStatus.COMPLETED:
            wanted = ("completed",)
        case GoalStatus.FAILED:
            wanted = ("failed",)
        case _:
            wanted = ()
    return next((kind for kind in wanted if kind in on), None)


def _answer(goal: str, kind: NoticeKind, note: GoalNote) -> list[str]:
    """Return the lines on what a person can do about it."""
    match kind:
        case "blocked":
            answer = f"clew continue {goal}" if note.only_resume else f'clew feedback {goal} "…"'
            return [f"Answer it: {answer}", f"More: clew status {goal}"]
        case "gave_up":
            return [f"Once it is fixed: clew continue {goal}", f"More: clew history {goal}"]
        case "failed":
            return [f"More: clew status {goal}", f"To try again: clew continue {goal}"]
        case _:
            unverified = "" if note.verified else "No check has verified this."
            before = passed_before(note.passed_before)
            return [unverified, before and f"But {before}.", f"More: clew status {goal}"]


_TITLES: dict[NoticeKind, str] = {
    "blocked": "needs an answer",
    "gave_up": "was stopped: its worker keeps dying",
    "completed": "is completed",
    "failed": "failed",
    "waiting_long": "has been waiting for over an hour",
}


def _notice(kind: NoticeKind, goal: str, note: GoalNote, seq: int, body: list[str]) -> Notice:
    about = note.name or note.description.partition("\n")[0]
    title = f"clew: {about[:TITLE_CHARS] or goal} {_TITLES[kind]}"
    text = clean(redact("\n".join(part for part in body if part)), lines=True)
    return Notice(kind=kind, title=clean(redact(title)), body=text, goal=goal, seq=seq, at=note.at)
