"""Which home, by its state folder, a ledger belongs to: a copy must not continue what the original may still do."""

import os
import time
from pathlib import Path

from clew_daemon.ledger import lock
from clew_shared.core.questions import WHY, Question, question
from clew_shared.ledger.reader import ReadSide
from clew_shared.record import identity
from clew_shared.record.daemon_events import HomeKnown
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State

# What the original of a copied home may continue with on its own.
UNFINISHED = (GoalStatus.IN_PROGRESS, GoalStatus.QUEUED, GoalStatus.WAITING)


def here(state: Path) -> HomeKnown:
    """Return the home whose state folder is `state`, as this process sees it; raises OSError."""
    folder, (host, space) = os.path.realpath(state), lock.here()
    known = identity.of_path(folder)
    return HomeKnown(at=time.time(), identity=known, path=folder, host=host, pid_namespace=space)


def last(ledger: ReadSide) -> HomeKnown | None:
    """Return the last home of the ledger; None if it has none yet."""
    found = ledger.own("home_known", 1)
    return HomeKnown.model_validate_json(found[0]) if found else None


def is_other(before: HomeKnown | None, now: HomeKnown) -> bool:
    """Return whether the ledger was in another home before."""
    return before is not None and not before.identity.is_same(now.identity)


def is_same_process_space(before: HomeKnown | None, now: HomeKnown) -> bool:
    """Return whether recorded process numbers still denote the same processes."""
    if before is None or is_other(before, now):
        return False
    space = now.identity.boot, now.pid_namespace
    return all(space) and (before.identity.boot, before.pid_namespace) == space


def copied(before: HomeKnown, goal: State) -> Question:
    """Return what a person is asked about a goal of a copied home."""
    why = WHY["copied"].format(place=before.path, host=before.host)
    return question(goal, why, "here", facts=(f"Here it would work in {goal.spec.workspace}",))
