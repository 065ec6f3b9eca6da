"""Watching goals: `clew watch`, and what `submit --wait` and `demo` show.

What happens is read from the ledger, as it becomes durable, so that nothing is missed and the daemon is not troubled.
It is asked only now and then for what no record tells: that an LLM call or a check is under way, what a queued goal
waits for, files that lie in the inbox. A daemon that has ended is waited for, and that is said.
"""

from __future__ import annotations

import shlex
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.errors import CliError
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from clew_daemon.cli.watch.happenings import Entry
    from clew_daemon.cli.watch.view import Seen, View
    from clew_daemon.cli.where import Where
    from clew_shared.ledger import Follower, Reader, Row
    from clew_shared.record.state import State

POLL_S = 0.1
HOLDER_S = 0.5
"""How often it is looked whether the daemon still holds its lock."""

ASK_S, ASK_MAX_S = 1.0, 5.0
ASK_SHARE = 0.01
"""Of the daemon's time, at most: where an answer takes long, it is asked less often."""

MANAGED_S, ALONE_S = 30.0, 10.0
"""How long an ended daemon is waited for: one that a service manager starts again, and any other."""

UNREADABLE_S = 5.0
REPORT_S = 2.0
RECENT = 5
FOOT = "Ctrl-C stops watching; the goals continue."
STANDING_STILL = ("completed", "failed", "cancelled", "blocked")

Detail = dict[str, Any]


@click.command("watch")
@arguments.some_goals
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, for each event."
)
@click.pass_obj
def command(where: Where, goals: tuple[str, ...], as_json: bool) -> None:
    """Show what goals do as it happens, until they end or need you; without GOAL all goals, until Ctrl-C.

    Ctrl-C stops watching; the goals continue, and can be watched again at any time. Exit code 0: all were completed;
    1: one was not; 3: the daemon ended and did not start again; 130: Ctrl-C while a given goal was still running.
    """
    from clew_daemon.cli.record import named

    names = list(dict.fromkeys(named(where, goal) for goal in goals))
    done = watch(where, names, attach=True, as_json=as_json)
    raise click.exceptions.Exit(0 if done else ExitCode.FAILED)


def watch(
    where: Where,
    goals: Sequence[str],
    each: Callable[[Sequence[Detail]], None] | None = None,
    *,
    attach: bool = False,
    as_json: bool = False,
    stays: bool = True,
    poll_s: float = POLL_S,
) -> bool:
    """Show the goals until none goes on without a person; true if all were completed. No goals: all, without an end.

    What happened before is shown from the beginning, or with `attach` only the last actions. `each` is called with the
    details of the goals after every look. `stays` says that the daemon outlives a Ctrl-C here. Raises CliError where
    the daemon stays away.
    """
    from clew_daemon.cli.watch.view import shown

    watched = Watched(where, goals, attach=attach)
    try:
        several, foot = len(goals) != 1, FOOT if stays else ""
        with watched.open(), shown(as_json=as_json, several=several, foot=foot) as view:
            watched.begin(view)
            while not watched.rests:
                time.sleep(poll_s)
                watched.look(view, each)
            if stays and not as_json:
                watched.await_reports(view)
    except KeyboardInterrupt:
        if not stays:
            raise
        unfinished = watched.unfinished
        _say_goodbye(where, unfinished)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED if goals and unfinished else 0) from None
    if not as_json:
        watched.show_end(with_reports=stays)
    return watched.completed


def _say_goodbye(where: Where, unfinished: Mapping[str, bool]) -> None:
    """Say which goals go on, how to see them again, and how many need a person; see `Watched.unfinished`."""
    own = where.home is not None and where.env.get("CLEW_HOME") is None
    clew = f"clew --home {shlex.quote(str(where.home))}" if own else "clew"
    going = [goal for goal, goes_on in unfinished.items() if goes_on]
    needing = [goal for goal, goes_on in unfinished.items() if not goes_on]
    told = []
    if len(going) == 1:
        told.append(f"{going[0]} continues; watch it again: {clew} watch {going[0]}")
    elif going:
        told.append(f"{len(going)} goals continue; watch them again: {clew} watch")
    if len(needing) == 1:
        told.append(f"{needing[0]} needs you: {clew} status {needing[0]}")
    elif needing:
        told.append(f"{len(needing)} need you: {clew} status")
    for line in told:
        print(line, file=sys.stderr, flush=True)


class Watched:
    """The goals that are watched: their states as the ledger tells, and whether the daemon is there."""

    def __init__(self, where: Where, goals: Sequence[str], *, attach: bool) -> None:
        from clew_shared.ledger import Follower

        self._where = where
        self._named = list(goals)
        self._attach = attach
        self._states: dict[str, State] = {}
        self._follower: Follower = Follower(where.ledger)
        self._asked = Asked(where)
        self._presence = Presence(where, self._asked)
        self._read_at = time.monotonic()
        self._has_begun = False
        self._was_at_rest = False
        self._waited: dict[str, str] = {}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the ledger open, and ask the daemon, while the block lasts."""
        self._asked.begin()
        try:
            yield
        finally:
            self._asked.end()
            self._follower.close()

    @property
    def rests(self) -> bool:
        """Tell whether goals were named and none of them goes on without a person."""
        states = [self._states.get(goal) for goal in self._named]
        return bool(states) and all(s and s.goal.status in STANDING_STILL for s in states)

    @property
    def completed(self) -> bool:
        """Tell whether all goals were completed."""
        return all(self._states[goal].goal.status == "completed" for goal in self._named)

    @property
    def unfinished(self) -> dict[str, bool]:
        """Return the goals that are not over, and of each whether it goes on without a person."""
        left = {goal: state for goal, state in self._states.items() if not state.ended}
        return {
            goal: state.goal.status != "blocked" and not state.paused
            for goal, state in left.items()
        }

    def begin(self, view: View) -> None:
        """Show where the goals stand at first: what they did so far, or the last of it."""
        view.tell(self._read(view))
        view.tell(self._present())
        view.draw(self._seen(), self._presence.note)
        self._was_at_rest = self.rests

    def look(self, view: View, each: Callable[[Sequence[Detail]], None] | None) -> None:
        """Show what is new, and where the goals stand."""
        told = self._read(view)
        view.tell([*told, *self._present(), *self._asked.rejected(), *self._waits()])
        if self._named and each is not None:
            each([self._detail(goal) for goal in self._named])
        view.draw(self._seen(), self._presence.note)

    def await_reports(self, view: View) -> None:
        """Wait until the reports of goals that ended here are written, but not long: the daemon may have ended."""
        deadline = time.monotonic() + REPORT_S
        while not all(self._is_reported(goal) for goal in self._named):
            if time.monotonic() > deadline or self._where.holder is None:
                return
            time.sleep(POLL_S)
            self.look(view, None)

    def _is_reported(self, goal: str) -> bool:
        state = self._states[goal]
        return not state.ended or state.reported_seq > state.rested_seq

    def show_end(self, *, with_reports: bool) -> None:
        """Print how the goals ended, and leave that standing."""
        from clew_daemon.cli.goals import report_of
        from clew_daemon.cli.output import on_terminal, print_lines
        from clew_daemon.cli.printable import clean
        from clew_daemon.cli.tree import answer_lines, closing_lines, goal_lines

        for goal in self._named:
            detail = self._detail(goal)
            report = report_of(self._where, goal) if with_reports else ""
            if on_terminal() or self._was_at_rest:
                print_lines(goal_lines(detail, report=report))
                continue
            is_asking = detail["status"] == "blocked"  # and its question was told
            lines = [*(answer_lines(detail) if is_asking else closing_lines(detail))]
            lines += [[("report: ", ""), (report, "")]] if report else []
            print_lines([(f"{clean(goal)}: ", ""), *one] for one in lines)

    # -- the record ------------------------------------------------------------------------------------

    def _read(self, view: View) -> list[Entry]:
        """Take in what is new in the ledger; one that cannot be read for a moment is read again."""
        from clew_shared.ledger import LedgerError

        try:
            rows = self._follower.look()
            reader = self._follower.reader
            told = [] if reader is None else self._taken(reader, rows, view)
        except LedgerError as error:
            if time.monotonic() - self._read_at > UNREADABLE_S:
                raise CliError(str(error)) from None
            return []
        self._read_at = time.monotonic()
        return told

    def _taken(self, reader: Reader, rows: list[Row], view: View) -> list[Entry]:
        if self._follower.was_reset:
            self._has_begun = False
            view.tell([_note("ledger.reset", "the ledger was replaced; this is what it says now")])
        told = self._begun(reader)
        for row in rows:
            if row.goal and (not self._named or row.goal in self._named):
                told += self._told(reader, row)
        return told

    def _begun(self, reader: Reader) -> list[Entry]:
        """Take up the goals that are watched from now on; what they did before, as it is wanted."""
        from clew_daemon.cli.watch.happenings import standing_of
        from clew_daemon.record.store import load_listed

        if self._has_begun:
            return []
        self._has_begun = True
        if not self._named:
            self._states = {g: s for g, s in load_listed(reader, 0, None).items() if not s.ended}
            waits = self._waits_in(reader)
            return [standing_of(s, waits.get(g, "")) for g, s in self._states.items()]
        told: list[Entry] = []
        for goal in self._named:
            state, entries = _past(reader, goal) if self._attach else _from_start(reader, goal)
            if not state.seq:
                raise CliError(f"{goal} is not in the ledger any more")
            self._states[goal] = state
            told += entries
        told.sort(key=lambda entry: entry.seq)
        waits = self._waits_in(reader) if self._attach else {}
        now = [standing_of(self._states[g], waits.get(g, "")) for g in self._named if self._attach]
        return [*told, *now]

    def _waits_in(self, reader: Reader) -> dict[str, str]:
        """Say what the queued goals wait for, as far as the ledger tells; a running daemon knows better."""
        from clew_daemon.cli.record import FOR_THE_DAEMON, waits_in

        found = waits_in(reader, self._states.values(), time.time())
        if self._where.holder is not None:
            found = {goal: told for goal, told in found.items() if told != FOR_THE_DAEMON}
        self._waited.update(found)
        return found

    def _waits(self) -> list[Entry]:
        """Return entries for goals that wait for something else than was last told of them."""
        from clew_daemon.cli.watch.happenings import waiting_of

        at, found = self._asked.at, []
        for goal, view in self._asked.goals.items():
            state = self._states.get(goal)
            if state is None or at < state.updated_at:  # older than the record
                continue
            waiting = view.get("waiting") or {}
            waits = str(waiting.get("for") or "")
            if waits == self._waited.get(goal, ""):
                continue
            self._waited[goal] = waits
            if waits and waits != state.reason and not state.paused:
                found.append(waiting_of(state, waits, waiting.get("until"), at))
        return found

    def _present(self) -> list[Entry]:
        """Return what is to be said of the daemon, unless no goal needs one any more."""
        return [] if self.rests else self._presence.look(self._wanted())

    def _told(self, reader: Reader, row: Row) -> list[Entry]:
        from clew_daemon.cli.watch.happenings import standing_of, take
        from clew_daemon.record.store import load_state
        from clew_shared.record import events as ev
        from clew_shared.record.state import State

        state = self._states.get(row.goal)
        if state is None:
            if row.kind != "goal_accepted":  # one that was over goes on
                state = self._states[row.goal] = load_state(reader, row.goal)
                return [standing_of(state)]
            state = self._states[row.goal] = State(goal_id=row.goal)
        if row.seq <= state.seq:
            return []
        try:
            event = ev.decode(row.body)
        except ValueError:
            raise CliError(
                f"event {row.seq} was recorded by another version of clew: start `clew watch` again"
            ) from None
        entry = take(state, event, row.seq)
        return [entry] if entry else []

    # -- what is shown ---------------------------------------------------------------------------------

    def _wanted(self) -> str:
        return ", ".join(self._named) or "every goal"

    def _seen(self) -> list[Seen]:
        from clew_daemon.cli.watch.view import Seen

        goals = self._named or [goal for goal, state in self._states.items() if not state.ended]
        told, at = self._asked.goals, self._asked.at
        found = [(self._states[goal], told.get(goal)) for goal in goals if goal in self._states]
        away = bool(self._presence.note)
        return [Seen(state, None if away else entry, at, away) for state, entry in found]

    def _detail(self, goal: str) -> Detail:
        from clew_shared.views.publish import goal_detail

        return goal_detail(self._states[goal], time.time())


def _from_start(reader: Reader, goal: str) -> tuple[State, list[Entry]]:
    """Give a goal's state, and all that happened in it."""
    from clew_daemon.cli.watch.happenings import take
    from clew_shared.record import events as ev
    from clew_shared.record.state import State

    state = State(goal_id=goal)
    told = [take(state, ev.decode(row.body), row.seq) for row in reader.read(goal)]
    return state, [entry for entry in told if entry]


def _past(reader: Reader, goal: str) -> tuple[State, list[Entry]]:
    """Give a goal's state, how its last actions ended, and those that run."""
    from clew_daemon.cli.watch.happenings import of_past
    from clew_daemon.record.pages import event_at
    from clew_daemon.record.store import load_state
    from clew_shared.record import events as ev

    state = load_state(reader, goal)
    found: list[Entry | None] = []
    for seq in sorted([*reader.ends(goal, state.seq + 1, RECENT), *state.in_flight]):
        event = event_at(reader, goal, seq)
        if event is None:
            continue
        of = getattr(event, "of", 0)
        began = event_at(reader, goal, of) if of else None
        name = began.signature if isinstance(began, ev.ActionAllowed | ev.ActionBlocked) else ""
        found.append(of_past(goal, seq, event, name))
    return state, [entry for entry in found if entry]


def _note(event: str, text: str) -> Entry:
    from clew_daemon.cli.watch.happenings import Entry

    return Entry(time.time(), "", event, text, style="yellow")


class Asked:
    """What the daemon says beside the record: a thread asks it, so that a slow answer holds nothing up."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asking", daemon=True)
        self._answer: tuple[float, dict[str, Any]] = (0.0, {})
        self._known: set[str] | None = None
        self.managed = False

    def begin(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def end(self) -> None:
        """Ask no more; an answer that is waited for is not waited for here."""
        self._over.set()

    @property
    def at(self) -> float:
        """When the last answer was asked for, in seconds since 1970."""
        return self._answer[0]

    @property
    def goals(self) -> dict[str, Detail]:
        """The entries of `status` of goals that are not over, by their ids; none where no daemon answers."""
        return {goal["id"]: goal for goal in self._answer[1].get("goals", ())}

    def rejected(self) -> list[Entry]:
        """Return entries for files that the inbox has rejected since the last look."""
        if not self._answer[1]:
            return []
        found = {
            str(file["name"]): str(file.get("reason") or "")
            for file in self._answer[1].get("inbox") or ()
            if file.get("rejected")
        }
        known, self._known = self._known, set(found)
        new = [name for name in found if known is not None and name not in known]
        return [_rejected(name, found[name]) for name in new]

    def _run(self) -> None:
        from clew_daemon.cli.client import call

        pause_s = 0.0
        while not self._over.wait(pause_s):
            at, began = time.time(), time.monotonic()
            try:
                answer = call(self._where.socket, "status", limit=0)
            except CliError:
                answer = {}
            if answer:
                self.managed = bool((answer.get("daemon") or {}).get("managed"))
            self._answer = at, answer
            took_s = time.monotonic() - began
            pause_s = min(ASK_MAX_S, max(ASK_S, took_s / ASK_SHARE))


def _rejected(name: str, reason: str) -> Entry:
    from clew_daemon.cli.printable import short

    said = short(reason, 300)
    return _note("goal.rejected", f"inbox: {short(name)} was rejected{': ' * bool(said)}{said}")


class Presence:
    """Whether a daemon has the ledger: by its lock, which is free at the moment that its holder ends."""

    def __init__(self, where: Where, asked: Asked) -> None:
        self._where = where
        self._asked = asked
        self._look_at = 0.0
        self._gone_at: float | None = None
        self._was_there = False
        self.note = ""

    def look(self, wanted: str) -> list[Entry]:
        """Return what is to be said of the daemon; raises CliError where it stays away."""
        from clew_daemon.cli.client import TO_START

        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at = now + HOLDER_S
        if self._where.holder is not None:
            return self._there()
        wait_s = MANAGED_S if self._asked.managed else ALONE_S
        if self._gone_at is None:
            self._gone_at = now
            what = "the daemon has ended" if self._was_there else "no daemon is running"
            self.note = (
                f"{what}; waiting up to {wait_s:.0f} s for it to start again (Ctrl-C to stop)"
            )
            return [_note("daemon.gone", self.note)]
        if now - self._gone_at > wait_s:
            raise CliError(
                f"no daemon has started within {wait_s:.0f} s; {wanted} continues when one does: "
                f"start it with {TO_START}",
                ExitCode.NO_DAEMON,
            )
        return []

    def _there(self) -> list[Entry]:
        self._was_there = True
        if self._gone_at is None:
            return []
        self._gone_at, self.note = None, ""
        return [_note("daemon.back", "the daemon is running again")]
