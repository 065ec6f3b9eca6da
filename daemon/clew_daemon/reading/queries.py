"""What is read of goals: by name, in a list, one in full; from the daemon, or from the ledger where none answers."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeVar, cast

from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError
from clew_daemon.record.goal_view import GoalDetail, GoalList, GoalView, OneGoal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from clew_daemon.reading.instance import Instance
    from clew_shared.ledger.reader import Reader
    from clew_shared.record.state import State

    View = TypeVar("View", GoalView, GoalDetail)

OWN_CHANGES_S = 3.0
ASKS = "asks you when the daemon runs: the step `{action}` {what}"
NO_GOALS = "there are no goals yet; submit one with `clew submit FILE`"
DELETED = (
    "was deleted, `[ledger] keep_days` after its end; its report and its workspace are still there"
)


@contextmanager
def opened(ledger: Path) -> Iterator[Reader | None]:
    """Open a ledger for reading; None where there is none yet. Raises LedgerError."""
    from apsw import Error

    from clew_shared.ledger.errors import LedgerEmpty, LedgerError
    from clew_shared.ledger.reader import Reader

    try:
        reader = Reader.open(ledger) if ledger.exists() else None
    except LedgerEmpty:  # the first start of a daemon is creating it
        reader = None
    try:
        with reader or nullcontext():
            yield reader
    except Error as error:
        raise LedgerError(ledger, f"cannot be read: {error}", "see `clew verify`") from error


@contextmanager
def ledger_if_any(instance: Instance) -> Iterator[Reader | None]:
    """Open the ledger of an instance; None where there is none yet. Raises CliError."""
    from clew_shared.ledger.errors import LedgerError

    refuse_lost_ledger(instance)
    try:
        with opened(instance.ledger) as reader:
            yield reader
    except LedgerError as error:
        raise CliError(str(error)) from None
    except ValueError as error:  # an event that cannot be read, or of a later clew
        what = str(error).splitlines()[0]
        raise CliError(f"the ledger cannot be read: {what}; `clew verify` says where") from None


@contextmanager
def open_ledger(instance: Instance) -> Iterator[Reader]:
    """Open the ledger for reading; CliError where there is none yet."""
    with ledger_if_any(instance) as reader:
        if reader is None:
            raise CliError(NO_GOALS)
        yield reader


def refuse_lost_ledger(instance: Instance) -> None:
    """Raise CliError where the ledger existed once and is gone: that differs from having no goals."""
    from clew_daemon.record.lost_record import lost

    if gone := lost(instance.ledger, instance.places.state):
        raise CliError(str(gone))


# -- which goal is meant ---------------------------------------------------------------------------


def goal_id(instance: Instance, name: str) -> str:
    """Return the id of the goal with this name, id, or unique beginning of either; otherwise CliError."""
    with open_ledger(instance) as reader:
        if name in reader.goals():  # the usual case: no other names have to be read
            return name
        if name in reader.purged():
            raise CliError(f"{name} {DELETED}")
        return _matching(name, reader)


def _matching(name: str, reader: Reader) -> str:
    """Return the id of the one goal that `name` matches; CliError names others. See `naming.meant`."""
    from clew_daemon.record.dependencies import ambiguous, meant
    from clew_daemon.record.store import load_listed

    names, known = reader.names(), cache(lambda: load_listed(reader))
    found = meant(name, names, lambda one: known()[one]) if name else []
    if len(found) == 1:
        return found[0]
    if found:
        raise CliError(ambiguous(name, [known()[goal] for goal in found], time.time()))
    if not names:
        raise CliError(NO_GOALS)
    raise CliError(f"no goal {name!r}; `clew status --all` lists them")


# -- goals in their states -------------------------------------------------------------------------


def goal_state(instance: Instance, goal: str) -> State:
    """Return the state of one goal on record, as it is when no worker runs."""
    from clew_daemon.record.store import load_state

    with open_ledger(instance) as reader:
        return _without_worker(load_state(reader, goal))


def all_goals(instance: Instance, limit: int | None) -> GoalList:
    """Return the daemon's or the ledger's answer to `status`: all goals that go on, and the last `limit` others."""
    answer: GoalList | None = ask(instance.socket, "status", limit=limit)
    if answer is not None:
        keys = GoalView.__required_keys__  # an earlier version may not say all
        told = [one | dict.fromkeys(keys - one.keys()) for one in answer["goals"]]
        return {"left_out_failed": None, **answer, "goals": cast("list[GoalView]", told)}
    from clew_daemon.inbox.files import left
    from clew_daemon.record.goal_status import status_view
    from clew_daemon.record.store import listed, load_listed

    with ledger_if_any(instance) as reader:
        shown, left_out = listed(load_listed(reader).values() if reader else (), limit)
        goals = _at_rest(instance, reader, shown, status_view) if reader else []
    return {"daemon": None, "goals": goals, **left_out, **left(instance.places.inbox)}


def one_goal(instance: Instance, goal: str) -> OneGoal:
    """Return the answer to `status` on one goal, by its id: the daemon's, or without one that of the ledger."""
    answer: OneGoal | None = ask(instance.socket, "status", goal=goal)
    if answer is None:
        from clew_daemon.record.goal_limits import limits_of
        from clew_daemon.record.goal_status import goal_detail

        state = goal_state(instance, goal)
        with open_ledger(instance) as reader:
            [detail] = _at_rest(instance, reader, [state], goal_detail)
        limit = limits_of(state, instance.settings_for_display).attempts
        answer = {"daemon": None, "goal": {**detail, "attempt_limit": limit}}
    return {**answer, "goal": _with_own_changes(instance, answer["goal"])}


def _at_rest(
    instance: Instance, reader: Reader, states: list[State], view: Callable[..., View]
) -> list[View]:
    """Return views of goals while no worker runs; what comes of each is found by the rules of the daemon."""
    from clew_daemon.record.dependencies import KnownGoals
    from clew_daemon.record.store import load_listed
    from clew_daemon.supervision.schedule import FOR_A_WORKER, waits_for

    known = {state.goal_id: state for state in map(_without_worker, states)}
    if any(state.spec.depends_on for state in states):  # all on record only where one needs others
        known = {**load_listed(reader), **known}
    goals, now = KnownGoals(known, dict.fromkeys(reader.purged(), "")), time.time()
    views = []
    for state in states:
        why, stuck = waits_for(state, goals, (), now)
        why = "waits for the daemon" if why == FOR_A_WORKER else why or _asks(instance, state)
        views.append(view(state, now, why, stuck=stuck))
    return views


def _asks(instance: Instance, state: State) -> str:
    """Return what the next daemon asks about a runbook's step, "" where it just continues."""
    from clew_daemon.record.goal_limits import has_runbook
    from clew_shared.core.journal import to_ask_about
    from clew_shared.record.model import GoalStatus
    from clew_shared.text.words import action_text

    is_over = state.goal.status == GoalStatus.IN_PROGRESS and instance.holder is None
    step = to_ask_about(state) if is_over else None
    if step is None or not has_runbook(state, instance.settings_for_display):
        return ""
    what = "was cut off" if step.result in ("", "interrupted") else "did not succeed"
    return ASKS.format(action=action_text(step.name, step.args), what=what)


def _without_worker(state: State) -> State:
    state.pid, state.working = None, False
    return state


def _with_own_changes(instance: Instance, detail: GoalDetail) -> GoalDetail:
    """Return a goal's entry with the changes counted that are its own, as `clew diff` and the report count them."""
    from clew_daemon.host.git import program

    known, goal = detail["snapshots"], detail["id"]
    store, basis = instance.places.snapshots / goal, (known["taken"], known["undo"])
    files, added, removed = _own_changes(instance.ledger, goal, store, program(instance.env), basis)
    own = {"files_changed": files, "lines_added": added, "lines_removed": removed}
    return {**detail, "snapshots": {**known, **own}}


@lru_cache(maxsize=1)
def _own_changes(
    ledger: Path, goal: str, folder: Path, git: str | None, _basis: object
) -> tuple[int | None, ...]:
    """Return the counts of files that a goal changed, and of lines added and removed; kept while `_basis` stays."""
    from clew_daemon.record.changed_files import changed_files
    from clew_shared.ledger.errors import LedgerError
    from clew_shared.snapshots.store import StoreError, at

    try:
        with opened(ledger) as reader:
            store = at(folder, git).within(OWN_CHANGES_S)
            found = changed_files(reader, goal, store) if reader else []
    except (StoreError, OSError, LedgerError):
        return None, None, None
    return len(found), sum(one.added for one in found), sum(one.removed for one in found)
