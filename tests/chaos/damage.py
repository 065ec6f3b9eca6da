"""A small ledger, ways to damage its files, and what a reader may then still say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from clew_daemon.ledger.ledger import Ledger
from clew_daemon.ledger.verify import verify
from clew_shared.ledger.errors import LedgerError, NewEvent
from clew_shared.ledger.reader import Reader
from clew_worker.library.turns import TurnLedger

PAGE = 4_096
SECTOR = 512
VERSION = 1
Truth = dict[tuple, object]
"""What each question is answered by: events of a goal, an output, a snapshot, the goals."""


async def make(path: Path) -> None:
    """Make a ledger of some 50 pages: three goals, one of them purged, the daemon's own events."""
    dice = Random(5)
    ledger = Ledger.open(path)
    for number in range(72):
        goal = "abc"[number % 3] if number % 7 else ""
        body = dice.randbytes(dice.choice((30, 400, 3_000)))
        output = dice.randbytes(dice.choice((40, 9_000))) if number % 4 == 0 else None
        await ledger.append([NewEvent(goal, "noted", body, output)])[1]
        if number == 60:
            await ledger.snapshot("a", 50, VERSION, dice.randbytes(6_000))
            await ledger.purge("c")
    await ledger.close(60)


def truth(path: Path) -> Truth:
    """Ask everything of a sound ledger."""
    with Reader.open(path) as reader:
        answers: Truth = {("goals",): reader.goals()}
        for goal in ["", *reader.goals()]:
            rows = answers["events", goal] = list(reader.read(goal))
            answers["snapshot", goal] = reader.latest_snapshot(goal, VERSION)
            answers |= {("output", row.seq): reader.output(row.seq) for row in rows}
    return answers


def lies(path: Path, true: Truth) -> list[tuple]:
    """Ask the same again: what is answered otherwise, and not by an error that says why."""
    try:
        reader = Reader.open(path)
    except LedgerError:
        return []
    questions: dict[str, Callable[..., object]] = {
        "goals": reader.goals,
        "events": lambda goal: list(reader.read(goal)),
        "snapshot": lambda goal: reader.latest_snapshot(goal, VERSION),
        "output": reader.output,
    }
    wrong = []
    with reader:
        for question, answer in true.items():
            try:
                told = questions[question[0]](*question[1:])
            except LedgerError:
                continue
            missing = question[0] == "snapshot" and told is None  # it is made again from the events
            if told != answer and not missing:
                wrong.append(question)
    return wrong


def judged(path: Path, true: Truth) -> tuple[bool, str]:
    """Tell whether the damage was found, and what was done wrong about it ("" for nothing)."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    report = verify(path)
    wrong = [question for question in lies(path, true) if question != ("goals",)]
    if wrong:
        return False, f"{wrong[0]} is answered wrongly; verify says {report.fault}"
    if report.ok and truth(path) != true:
        return False, "verify finds nothing, and what is read has changed"
    if not report.ok and not report.fault.message.strip():
        return True, "the fault has no name"
    try:
        TurnLedger.open(path).close()
    except LedgerError:
        if report.ok:
            return True, "the start is refused, and verify finds nothing"
        now = {name: (path.parent / name).read_bytes() for name in before if "-shm" not in name}
        if any(before[name] != now[name] for name in now):
            return True, "the start was refused, and the files were changed"
    return not report.ok, ""
