"""Looks on while the daemon runs in the simulated world, and holds every event against the invariants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import invariants as hold
from invariants import ViolationError
from sim_account import Goal
from sim_agent import FOREIGN

from clew_daemon.record.goals import GoalStore
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger.reader import EventRow
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, decode_playbook, dump, outline
from clew_shared.record.daemon_events import ModelUsed
from clew_shared.record.state import State

if TYPE_CHECKING:
    from sim_cells import Child, Files
    from sim_world import World

SAID = {
    ev.Intervened: lambda event: event.message,
    ev.Escalated: lambda event: event.to,
    ev.GoalBlocked: lambda _: "person",
    ev.GoalEnded: lambda _: "ended",
    ev.FeedbackGiven: lambda event: event.text,
}
"""What somebody may be told once an event is durable."""
OF_MODELS = {"model_used": ModelUsed}
VERDICTS = (ev.ActionAllowed, ev.ActionBlocked)
BYTES_EVERY = 8
"""Every this many events a daemon's state is compared byte for byte; in between by value, five times as fast."""


class Watch:
    """Sees what is queued, what is durable, what is heard, what acts and what begins."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.recorded: dict[int, tuple[str, ev.Event]] = {}
        self.violation: ViolationError | None = None
        self.goals: dict[str, Goal] = {}
        self.counts: Counter[str] = Counter()
        self.places: dict[str, int] = {}
        """The folder of each goal, by what is durable."""
        self._disks: dict[int, str] = {}
        self._words: dict[str, set[str]] = defaultdict(set)
        self._progress: dict[str, tuple[float, ...]] = {}
        self._ends: dict[str, set[int]] = defaultdict(set)
        self._acted: set[int] = set()
        self._living: dict[str, list[tuple[str, Child]]] = {}
        self._crashes: dict[str, list[float]] = defaultdict(list)
        self._spent: dict[str, tuple[float, float | None]] = {}
        self._book: GoalStore | None = None
        self._asked: list[tuple[str, int]] = []
        self._writers: dict[int, str] = {}
        self._owners: dict[str, set[str]] = defaultdict(set)
        self._methods: dict[str, str] = {}

    def _hold(self, rule: Any, *args: Any) -> None:
        """Hold a rule; the first that does not hold ends the life."""
        try:
            rule(*args)
        except hold.ViolationError as violation:
            self.violation = self.violation or violation
            raise

    # -- whose it is -------------------------------------------------------------------------------------

    def opens(self, ledger: object, role: str) -> None:
        """A ledger is open to write from now on."""
        self._writers[id(ledger)] = role
        self._hold(hold.one_writer_per_ledger, list(self._writers.values()))

    def closes(self, ledger: object) -> None:
        """A ledger is closed, or its process dead."""
        self._writers.pop(id(ledger), None)

    def taken(self, drop: str, home: str) -> None:
        """A daemon of a home makes a goal of a dropped file."""
        self._owners[drop].add(home)
        self._hold(hold.one_owner_per_inbox, drop, self._owners[drop])

    # -- the record ------------------------------------------------------------------------------------

    def begins(self, book: GoalStore) -> None:
        """A daemon has loaded its goals: they must be what the record tells."""
        self._book, self.goals = book, {}
        self._crashes.clear()
        rows = self._world.disk.rows
        self._hold(_same_goals, sorted(book.cores), sorted(g for g in rows if g))
        for goal, core in book.cores.items():
            self.goals[goal] = self._replayed(goal, rows[goal])
            whole = self.goals[goal].state
            told = dump(outline(whole) if goal in book.outlined else whole)
            self._hold(
                hold.a_snapshot_and_its_tail_are_the_whole_fold, goal, dump(core.state), told
            )

    def _replayed(self, goal: str, rows: Iterable[EventRow]) -> Goal:
        known = Goal(State(goal_id=goal), self._world.limits)
        for row in rows:
            self._hold(known.take, row.seq, decode(row.body), self._disks.get(row.seq, ""))
        return known

    def queued(self, rows: list[EventRow]) -> None:
        """Events were decided on; the daemon's state has them already."""
        touched = {}
        for row in rows:
            if not row.goal:
                continue
            event = decode(row.body)
            known = self.goals.get(row.goal) or self._replayed(row.goal, ())
            self.goals[row.goal] = known
            self._world.trace(row.goal, f"#{row.seq} {_short(event)}")
            self._disks[row.seq] = self._world.disk_digest(row.goal)
            if isinstance(event, ev.ActionInterrupted):  # what was seen before it is lost
                self._world.files(row.goal).by.clear()
            self._crashed(row.goal, event)
            self._starts(row.goal, event, known.state)
            asked = self._asked_since(known.state)
            self._hold(hold.an_ended_goal_stays_ended, event, known.state, asked)
            self._hold(known.take, row.seq, event, self._disks[row.seq])
            self.counts[row.kind] += 1
            touched[row.goal] = known
        for goal, known in touched.items():
            if self._book and goal in self._book.cores:
                state = self._book.cores[goal].state
                if state != known.state or not rows[-1].seq % BYTES_EVERY:
                    both = dump(state), dump(known.state)
                    self._hold(hold.state_is_the_fold_of_the_record, goal, *both)
            self._hold(hold.nothing_grows_without_bound, known.state)

    def durable(self, rows: list[EventRow]) -> None:
        """Events have reached the disk."""
        for row in rows:
            event = _event_of(row)
            self.recorded[row.seq] = (row.goal, event)
            match event:
                case ev.WorkspaceKnown():
                    self.places[row.goal] = event.identity.ino
                case ev.ActionFinished() | ev.ActionInterrupted():
                    self._ends[row.goal].add(event.of)
                case _ if said := SAID.get(type(event)):
                    self._words[row.goal].add(said(event))

    def listened(self, goal: str, records: list[RecordedEvent]) -> None:
        """The parts of the daemon that act on durable events heard of these."""
        for one in records:
            self._hold(
                hold.nothing_is_heard_that_is_not_recorded,
                "a listener", one.seq, self.recorded, goal, type(one.event),
            )  # fmt: skip

    # -- what people ask -------------------------------------------------------------------------------

    @contextmanager
    def asking(self, goal: str) -> Iterator[None]:
        """Somebody asks for something of a goal, which has come to its last rest, if any, before."""
        ask = (goal, self.goals[goal].state.rested_seq)
        self._asked.append(ask)
        try:
            yield
        finally:
            self._asked.remove(ask)

    def _asked_since(self, state: State) -> bool:
        """Whether a request that is under way was made after the goal's last end."""
        return (state.goal_id, state.rested_seq) in self._asked

    # -- what is heard -----------------------------------------------------------------------------------

    def heard(self, goal: str, epoch: int, message: dict[str, Any]) -> None:
        """An agent of an epoch is told something."""
        if "id" in message:
            self._answered(goal)
        said = message.get("result")
        if not isinstance(said, dict):
            return
        if "transcript" in said.get("state", {}):
            self._hold(hold.a_transcript_read_back_is_valid, said["state"])
            now = tuple(said["state"][key] for key in ("iteration", "actions_total"))
            before = self._progress.get(goal, now)
            self._hold(hold.progress_never_goes_down, goal, before, now)
            self._progress[goal] = now
        if verdict := said.get("verdict"):
            self._verdict(goal, said, verdict)
        for word in (said.get("escalated_to"), (said.get("intervention") or {}).get("message")):
            if word:
                self.told(goal, word)
        if said.get("accepted"):
            self.told(goal, "ended")

    def receives(self, goal: str, message: dict[str, Any]) -> None:
        """The daemon receives a message."""
        if "id" in message:
            self._methods[goal] = str(message.get("method"))

    def _answered(self, goal: str) -> None:
        """The daemon answers a message: one after the other of each goal."""
        known, method = self.goals[goal], self._methods.get(goal)
        at_work = known.state.goal.status == "in_progress"
        if at_work and known.state.spec.agent in FOREIGN and method not in ("hello", "outcome"):
            known.messages += 1
            rule = hold.messages_without_a_turn_are_bounded
            self._hold(rule, goal, known.messages, self._world.limits.actions)

    def told(self, goal: str, words: str) -> None:
        """Somebody is told words of a goal."""
        rule = hold.nothing_is_told_of_words_that_are_not_recorded
        self._hold(rule, words, self._words[goal])

    def _verdict(self, goal: str, said: dict[str, Any], verdict: str) -> None:
        outcome = said.get("outcome")
        if outcome and str(outcome.get("output")).startswith(("accepted", "not accepted")):
            return  # `finish` as a tool: no action
        seq, kinds = said["seq"], VERDICTS
        rule = hold.nothing_is_heard_that_is_not_recorded
        self._hold(rule, verdict, seq, self.recorded, goal, kinds)
        if outcome and seq not in self._ends[goal]:
            self._hold(rule, "the outcome", seq, {}, goal, kinds)

    # -- what acts ---------------------------------------------------------------------------------------

    def acts_in(self, goal: str, folder: Files) -> None:
        """Something acts in a folder for a goal."""
        self._hold(hold.no_act_in_a_foreign_folder, goal, folder.number, self.places.get(goal))

    def counts_as_its_own(self, folder: Files) -> bool:
        """Return whether what anyone changes in a folder now counts as the change of a goal that acts there."""
        there = (self.goals.get(goal) for goal, n in self.places.items() if n == folder.number)
        return any(one and (one.state.in_flight or one.attempts.unsure) for one in there)

    def restores(self, goal: str, folder: Files, name: str) -> None:
        """An executor puts a file back to where the subtask began."""
        self.acts_in(goal, folder)
        last = folder.by.get(name, goal)
        self._hold(hold.a_restore_leaves_what_others_changed, goal, name, last)
        self.counts["restored"] += 1

    def acts(self, goal: str, epoch: int, seq: int, folder: Files) -> None:
        """The executor of an epoch begins to carry out an action in a folder."""
        self.acts_in(goal, folder)
        _, event = self.recorded.get(seq, ("", None))
        rule = hold.an_action_runs_only_when_its_permission_is_recorded
        self._hold(rule, goal, epoch, seq, event)
        self._hold(hold.an_allowed_action_runs_at_most_once, goal, seq, self._acted)
        if isinstance(event, ev.ActionAllowed) and (known := self.goals.get(goal)):
            disk, agent = self._disks.get(seq, ""), known.state.spec.agent
            self._hold(
                hold.no_claim_moves_the_hands, event.signature, disk, known.blocks.held, agent
            )
        self._acted.add(seq)
        self.counts["acts"] += 1

    def acts_itself(self, goal: str, seq: int) -> None:
        """An agent with tools of its own begins an action that was allowed."""
        self._hold(hold.an_allowed_action_runs_at_most_once, goal, seq, self._acted)
        self._acted.add(seq)

    def spawned(self, goal: str, role: str, child: Child) -> None:
        """A process of a worker begins."""
        alive = [(r, c) for r, c in self._living.get(goal, []) if c.alive]
        rivals = [r for r, _ in alive if role in ("agent", r)]
        self._hold(hold.two_epochs_never_live_at_once, goal, role, rivals)
        self._living[goal] = [*alive, (role, child)]
        if role == "agent":
            self._begins_again(goal)
            self._has_its_place(goal)

    def _has_its_place(self, goal: str) -> None:
        """Hold a new worker against those of other goals."""
        working = [g for g, ones in self._living.items() if any(c.alive for _, c in ones)]
        workers = {g: self._world.workspace(g) for g in working}
        rule, places = hold.no_two_goals_share_a_workspace, self._world.limits.workers
        self._hold(rule, goal, self._world.workspace(goal), workers, places)

    def _starts(self, goal: str, event: ev.Event, state: State) -> None:
        """Hold a beginning against dependencies, and a budget of time against the time that passed."""
        now, others = self._world.clock.now, {g: k.state.goal.status for g, k in self.goals.items()}
        spent_s, since = self._spent.setdefault(goal, (0.0, None))
        match event:
            case ev.GoalStarted():
                self._hold(hold.a_goal_begins_only_when_it_may, event, state, others)
            case ev.WorkerStarted():
                self._spent[goal] = (spent_s, now)
            case ev.WorkerExited() if since is not None:
                self._spent[goal] = (spent_s + now - since, None)
            case ev.GoalRequeued() if event.reopen:
                self._spent[goal] = (0.0, since and now)
            case ev.GoalBlocked():
                worked_s = spent_s + (now - since if since is not None else 0.0)
                budget_s = state.spec.budget_wall_s or 0.0
                rule = hold.time_spent_is_time_that_passed
                self._hold(rule, goal, event.reason, worked_s, budget_s)

    def all_dead(self) -> None:
        """The daemon died, and every worker with it."""
        for living in self._living.values():
            for _, child in living:
                child.alive = False
        self._living.clear()

    def nobody_left(self) -> None:
        """The daemon has stopped: nothing that it started lives."""
        for goal, living in self._living.items():
            alive = [role for role, child in living if child.alive]
            self._hold(hold.two_epochs_never_live_at_once, goal, "daemon's end", alive)

    def _crashed(self, goal: str, event: ev.Event) -> None:
        times = self._crashes[goal]
        if isinstance(event, ev.GoalRequeued):
            times.clear()  # a person said: go on
        if isinstance(event, ev.WorkerExited) and event.crash:
            if event.active_s >= self._world.limits.healthy_s:
                times.clear()
            times.append(self._world.clock.now)

    def _begins_again(self, goal: str) -> None:
        limits = self._world.limits
        since = self._world.clock.now - limits.window_s
        crashes = sum(t > since for t in self._crashes[goal])
        rule = hold.restart_intensity_holds
        self._hold(rule, goal, crashes, limits.restarts, limits.window_s)

    def failed(self, event: str, said: str) -> None:
        """A part of the daemon logged what should never be."""
        self._hold(hold.no_part_of_the_daemon_fails, event, said)


def _same_goals(loaded: list[str], recorded: list[str]) -> None:
    if loaded != recorded:
        raise hold.ViolationError(
            "a_snapshot_and_its_tail_are_the_whole_fold", f"{loaded} != {recorded}"
        )


def _short(event: ev.Event) -> str:
    fields = event.model_dump(exclude_defaults=True, exclude={"kind", "at", "args", "message"})
    return f"{event.kind} " + " ".join(f"{k}={str(v)[:40]}" for k, v in fields.items())


def _event_of(row: EventRow) -> ev.Event:
    if row.kind in OF_MODELS:
        return OF_MODELS[row.kind].model_validate_json(row.body)
    return decode(row.body) if row.goal else decode_playbook(row.body)
