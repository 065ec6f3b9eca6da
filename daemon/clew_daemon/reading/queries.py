"""What commands read from the ledger: goals by name, their states, and what queued goals wait for.

The ledger is opened read-only, with or without a running daemon; a ledger that does not exist yet has no goals.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clew_daemon.learning.models import Needs
    from clew_daemon.reading.instance import Instance
    from clew_daemon.record.dependencies import KnownGoals
    from clew_shared.ledger import Reader
    from clew_shared.record.state import State

CANDIDATES_SHOWN = 8
OWN_CHANGES_S = 3.0
WAITS_FOR_DAEMON = "waits for the daemon"
NO_GOALS = "there are no goals yet; submit one with `clew submit FILE`"
DELETED = (
    "was deleted: it ended more than `[ledger] keep_days` ago; "
    "its report in the outbox and its workspace are still there"
)


@contextmanager
def ledger_if_any(instance: Instance) -> Iterator[Reader | None]:
    """Open the ledger for reading; None where there is none yet."""
    from clew_shared.ledger import LedgerEmpty, LedgerError, Reader

    refuse_lost_ledger(instance)
    if not instance.ledger.exists():
        yield None
        return
    try:
        with Reader.open(instance.ledger) as reader:
            yield reader
    except LedgerEmpty:  # the first start of a daemon is creating it
        yield None
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


def last_seq(instance: Instance) -> int | None:
    """Return the number of the last event; None if it cannot be read."""
    with suppress(CliError), ledger_if_any(instance) as reader:
        return reader.last_seq() if reader else None
    return None


def interrupted_after(instance: Instance, seq: int) -> int:
    """Return how many actions were interrupted after event `seq`, 0 if that cannot be read."""
    with suppress(CliError), ledger_if_any(instance) as reader:
        rows = reader.read_all(seq) if reader else ()
        return sum(row.kind == "action_interrupted" for row in rows)
    return 0


def model_needs(instance: Instance) -> Needs:
    """Return what the last verified goals of each model needed."""
    from clew_daemon.learning.models import USED_LOADED_MAX, recorded_needs

    with ledger_if_any(instance) as reader:
        return recorded_needs([] if reader is None else reader.own("model_used", USED_LOADED_MAX))


def refuse_lost_ledger(instance: Instance) -> None:
    """Raise CliError where the ledger existed once and is gone: that differs from having no goals."""
    from clew_daemon.record.lost_record import lost

    if gone := lost(instance.ledger, instance.places.state):
        raise CliError(str(gone))


def goal_ids(instance: Instance) -> list[str]:
    """Return the ids of all goals on record, sorted."""
    with ledger_if_any(instance) as reader:
        return [] if reader is None else [goal for goal in reader.goals() if goal]


def goal_names(instance: Instance) -> list[str]:
    """Return the ids and names of all goals on record, sorted."""
    with ledger_if_any(instance) as reader:
        return [] if reader is None else _ids_and_names(reader.names())


def goal_id(instance: Instance, name: str) -> str:
    """Return the id of the goal with this name, id, or unique beginning of either; otherwise CliError."""
    with open_ledger(instance) as reader:
        if name in reader.goals():  # the usual case: no other names have to be read
            return name
        if name in reader.purged():
            raise CliError(f"{name} {DELETED}")
        return _matching(name, reader)


def _matching(name: str, reader: Reader) -> str:
    """Return the id of the one goal that `name` matches; CliError with similar names. See `naming.meant`."""
    from clew_daemon.record.dependencies import ambiguous, meant
    from clew_daemon.record.store import load_listed

    names, known = reader.names(), cache(lambda: load_listed(reader))
    goals = (
        meant(
            name,
            names,
            lambda goal: known()[goal].ended,
            lambda goal: known()[goal].removed,
        )
        if name
        else []
    )
    if len(goals) == 1:
        return goals[0]
    if goals:
        raise CliError(ambiguous(name, [known()[goal] for goal in goals], time.time()))
    if not names:
        raise CliError(NO_GOALS)
    listed = {goal: state.spec.name for goal, state in known().items() if not state.removed}
    raise CliError(f"no goal {name!r}{_suggestion(name, _ids_and_names(listed))}")


def _ids_and_names(names: Mapping[str, str]) -> list[str]:
    return sorted({word for goal, name in names.items() for word in (goal, name) if word})


def own_changes(instance: Instance, goal: str) -> dict[str, int]:
    """Return how many files and lines a goal itself changed, by the keys of its view; {} where that cannot be found."""
    from clew_daemon.host.git import program
    from clew_daemon.record.changed_files import changed_files
    from clew_shared.snapshots.store import StoreError, at

    try:
        store = at(instance.places.snapshots / goal, program(instance.env)).within(OWN_CHANGES_S)
        with open_ledger(instance) as reader:
            found = changed_files(reader, goal, store)
    except (StoreError, OSError):
        return {}
    return {
        "files_changed": sum(not one.folder for one in found),
        "lines_added": sum(one.added for one in found),
        "lines_removed": sum(one.removed for one in found),
    }


def goal_file(instance: Instance, goal: str) -> str:
    """Return the text of a goal's file, as a person changed it last."""
    state = goal_state(instance, goal)
    with open_ledger(instance) as reader:
        raw = reader.output(state.edited_seq or state.accepted_seq)
    return (raw or b"").decode("utf-8-sig", "replace")


def listed_states(
    instance: Instance, limit: int | None = None, before: str | None = None
) -> tuple[list[State], int]:
    """Return the goals' states as they are when no worker runs, and how many earlier ones are left out.

    These are all goals that have not ended and the last `limit` of the others; `before` restricts both to goals
    that were accepted before that one.
    """
    with ledger_if_any(instance) as reader:
        if reader is None:
            return [], 0
        from clew_daemon.record.store import listed, load_listed, load_state

        last = None if before is None else load_state(reader, before).accepted_seq
        shown, left_out = listed(load_listed(reader).values(), limit, last)
        return [_without_worker(state) for state in shown], left_out


def goal_state(instance: Instance, goal: str) -> State:
    """Return the state of one goal on record, as it is when no worker runs."""
    from clew_daemon.record.store import load_state

    with open_ledger(instance) as reader:
        return _without_worker(load_state(reader, goal))


def waits(instance: Instance, states: Iterable[State], now: float) -> dict[str, str]:
    """Return what each queued goal waits for while no daemon runs; see `waits_in`."""
    with ledger_if_any(instance) as reader:
        return {} if reader is None else waits_in(reader, states, now)


def stuck(instance: Instance, states: Iterable[State]) -> set[str]:
    """Return the queued goals that wait for what only a person can bring about."""
    from clew_daemon.supervision.schedule import is_stuck

    with ledger_if_any(instance) as reader:
        others = reader and _beside(reader, states)
        return {s.goal_id for s in states if others and is_stuck(s, others)}


def waits_in(reader: Reader, states: Iterable[State], now: float) -> dict[str, str]:
    """Return what each queued goal waits for while no worker runs, by the rule of the daemon.

    `now` is in seconds since 1970; the result maps the ids of the queued goals to texts.
    """
    from clew_daemon.supervision.schedule import FOR_A_WORKER, waits_for
    from clew_shared.record.model import GoalStatus

    queued = [state for state in states if state.goal.status == GoalStatus.QUEUED]
    if not queued:
        return {}
    others = _beside(reader, queued)
    found = {state.goal_id: waits_for(state, others, (), now) for state in queued}
    return {goal: WAITS_FOR_DAEMON if why == FOR_A_WORKER else why for goal, why in found.items()}


def _beside(reader: Reader, states: Iterable[State]) -> KnownGoals:
    """Return the goals that these may wait for; all on record only where one of them depends on others."""
    from clew_daemon.record.dependencies import KnownGoals
    from clew_daemon.record.store import load_listed

    known = {state.goal_id: state for state in states}
    if any(state.spec.depends_on for state in known.values()):
        known = {**load_listed(reader), **known}
    return KnownGoals(known, dict.fromkeys(reader.purged(), ""))


def file_name(instance: Instance, goal: str) -> str:
    """Return the name that the goal's file had in the inbox, "" if unknown."""
    from clew_shared.record import events as ev
    from clew_shared.record.codec import decode

    with ledger_if_any(instance) as reader:
        rows = [] if reader is None else list(reader.read(goal, limit=1))
    first = decode(rows[0].body) if rows else None
    return first.spec.file_name if isinstance(first, ev.GoalAccepted) else ""


def _without_worker(state: State) -> State:
    """Drop the worker from the state: it ended with the daemon."""
    state.pid, state.working = None, False
    return state


def _suggestion(name: str, ids: list[str]) -> str:
    from clew_shared.text.spelling import closest

    similar = [goal for goal in ids if name.lower() in goal]
    nearest = closest(name, ids)
    if nearest and nearest not in similar:
        similar.insert(0, nearest)
    if len(similar) == 1:
        return f"; did you mean {similar[0]}?"
    if similar:
        return f"; did you mean one of {_listed(similar)}?"
    return f"; goals: {_listed(ids)}" if ids else ""


def _listed(ids: list[str]) -> str:
    more = len(ids) - CANDIDATES_SHOWN
    shown = ", ".join(ids[:CANDIDATES_SHOWN])
    return shown if more <= 0 else f"{shown}, and {more} more"
