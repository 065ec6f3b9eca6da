"""What the ledger says, for commands that read: goals by name, their states, their actions.

It opens the ledger read-only, with or without a running daemon; a ledger that does not exist yet has
no goals.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from clew_daemon.cli.instance import Instance
    from clew_shared.ledger import Reader
    from clew_shared.record.state import State

CANDIDATES_SHOWN = 8
FOR_THE_DAEMON = "waits for the daemon"
DELETED = (
    "was deleted: it ended more than `[ledger] keep_days` ago; "
    "its report in the outbox and its workspace are still there"
)


@contextmanager
def opened(instance: Instance) -> Iterator[Reader | None]:
    """Open the ledger for reading; None where there is none yet."""
    from clew_shared.ledger import LedgerEmpty, LedgerError, Reader

    refuse_lost(instance)
    if not instance.ledger.exists():
        yield None
        return
    try:
        with Reader.open(instance.ledger) as reader:
            yield reader
    except LedgerEmpty:  # a first start makes it at this moment
        yield None
    except LedgerError as error:
        raise CliError(str(error)) from None
    except ValueError as error:  # an event that cannot be read, or of a later clew
        what = str(error).splitlines()[0]
        raise CliError(f"the ledger cannot be read: {what}; `clew verify` says where") from None


def refuse_lost(instance: Instance) -> None:
    """Raise CliError where a ledger once was and is gone: that is not the same as no goals."""
    from clew_daemon.record.lost_record import lost

    if gone := lost(instance.ledger, instance.places.state):
        raise CliError(str(gone))


def goal_ids(instance: Instance) -> list[str]:
    """List the ids of all goals on record, sorted."""
    with opened(instance) as reader:
        return [] if reader is None else [goal for goal in reader.goals() if goal]


def goal_words(instance: Instance) -> list[str]:
    """List the ids and the names of all goals on record, sorted."""
    with opened(instance) as reader:
        names = {} if reader is None else reader.names()
    return sorted({word for goal, name in names.items() for word in (goal, name) if word})


def named(instance: Instance, name: str) -> str:
    """Return the id of the goal that is meant; CliError with what is near, or that it was removed."""
    with opened(instance) as reader:
        ids = [] if reader is None else reader.goals()
        if name in ids:  # most of the time; there is no need to look at every goal's name
            return name
        names = {} if reader is None else reader.names()
        if reader is not None and name in reader.purged():
            raise CliError(f"{name} {DELETED}")
        return found(name, names, lambda goal: _has_ended(reader, goal))


def found(name: str, names: Mapping[str, str], ended: Callable[[str], bool]) -> str:
    """Return the id that a word means; CliError with what is near. See `meant`."""
    from clew_daemon.record.naming import meant

    goals = meant(name, names, ended) if name else []
    if len(goals) == 1:
        return goals[0]
    if goals:
        raise CliError(f"{name!r} matches {len(goals)} goals: {_listed(goals)}")
    if not names:
        raise CliError("there are no goals yet; submit one with `clew submit FILE`")
    words = sorted({word for goal, called in names.items() for word in (goal, called) if word})
    raise CliError(f"no goal {name!r}; {_nearest(name, words)}")


def _has_ended(reader: Reader | None, goal: str) -> bool:
    """Tell whether a goal on record has ended; asked only where several have one name."""
    if reader is None:
        return False
    from clew_daemon.record.store import load_state

    return load_state(reader, goal).ended


def states(
    instance: Instance, limit: int | None = None, before: str | None = None
) -> tuple[list[State], bool]:
    """Return goals' states as they are without a daemon, when no worker runs; and whether earlier ones are left out.

    All that have not ended, and of the others the last `limit`; with `before` those that were accepted earlier.
    """
    with opened(instance) as reader:
        if reader is None:
            return [], False
        from clew_daemon.record.listing import listed
        from clew_daemon.record.store import load_listed, load_state

        last = None if before is None else load_state(reader, before).accepted_seq
        found = load_listed(reader, limit, last)
        shown, more = listed(found.values(), limit, last)
        return [_at_rest(state) for state in shown], more


def state(instance: Instance, goal: str) -> State:
    """Return the state of one goal on record."""
    with opened(instance) as reader:
        if reader is None:
            raise CliError(f"no goal {goal!r}")
        from clew_daemon.record.store import load_state

        return _at_rest(load_state(reader, goal))


def waits(instance: Instance, shown: Iterable[State], now: float) -> dict[str, str]:
    """Say what each of these goals that is queued waits for while no daemon runs, by the daemon's own rule."""
    with opened(instance) as reader:
        return {} if reader is None else waits_in(reader, shown, now)


def waits_in(reader: Reader, shown: Iterable[State], now: float) -> dict[str, str]:
    """Say what each of these goals that is queued waits for while no worker runs; `now` in seconds since 1970."""
    from clew_daemon.record.dependencies import Known
    from clew_daemon.record.store import load_listed
    from clew_daemon.supervision.schedule import FOR_A_WORKER, waits_for
    from clew_shared.record.model import GoalStatus

    queued = [state for state in shown if state.goal.status == GoalStatus.QUEUED]
    if not queued:
        return {}
    known = {state.goal_id: state for state in queued}
    if any(state.spec.depends_on for state in queued):
        known = {**load_listed(reader, None, None), **known}
    gone = dict.fromkeys(reader.purged(), "")
    among = Known(known, gone)
    found = {state.goal_id: waits_for(state, among, (), now) for state in queued}
    return {goal: FOR_THE_DAEMON if told == FOR_A_WORKER else told for goal, told in found.items()}


def file_name(instance: Instance, goal: str) -> str:
    """Return the name of the file that the goal came from, as it was in the inbox; "" if unknown."""
    from clew_shared.record import events as ev

    with opened(instance) as reader:
        rows = [] if reader is None else list(reader.read(goal, limit=1))
    accepted = ev.decode(rows[0].body) if rows else None
    return accepted.spec.file_name if isinstance(accepted, ev.GoalAccepted) else ""


def _at_rest(state: State) -> State:
    """Forget the worker: it ended with the daemon, however that ended."""
    state.pid, state.working = None, False
    return state


def _nearest(name: str, ids: list[str]) -> str:
    from clew_shared.text.spelling import closest

    holding = [goal for goal in ids if name.lower() in goal]
    meant = closest(name, ids)
    if meant and meant not in holding:
        holding.insert(0, meant)
    if len(holding) == 1:
        return f"did you mean {holding[0]}?"
    if holding:
        return f"did you mean one of {_listed(holding)}?"
    return f"goals: {_listed(ids)}"


def _listed(ids: list[str]) -> str:
    shown = ", ".join(ids[:CANDIDATES_SHOWN])
    return (
        shown
        if len(ids) <= CANDIDATES_SHOWN
        else f"{shown}, and {len(ids) - CANDIDATES_SHOWN} more"
    )
