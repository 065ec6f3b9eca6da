"""The watch's own account of one goal: its blocks, and the attempts at its subtasks with what must hold of them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import invariants as hold
from invariants import invariant

from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.scope import EVERYWHERE, UNKNOWN
from clew_shared.record.state import State

if TYPE_CHECKING:
    from sim_world import Limits


REFUSALS_MAX = 2_500
DEADLY = "deadly"
"""Beside the worlds of a block: the worker died of it, so only a person who continues the goal lifts it."""


@dataclass
class Blocks:
    """In which worlds each action is blocked: as is believed, by the files on the disk, and whatever is claimed."""

    believed: dict[str, set[str]] = field(default_factory=dict)
    on_disk: dict[str, set[str]] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=dict)

    def add(self, event: ev.ActionBlocked, world: str, disk: str) -> None:
        where = EVERYWHERE if event.everywhere else world
        self.believed.setdefault(event.signature, set()).add(where)
        if event.makes_block == "crash":
            self.believed[event.signature].add(DEADLY)
        if disk and where == disk:
            self.on_disk.setdefault(event.signature, set()).add(disk)
            self.held.setdefault(event.signature, set()).add(disk)

    def deadly(self) -> Blocks:
        """Those that hold everywhere, since the worker died of them."""
        return Blocks(
            {one: {EVERYWHERE, DEADLY} for one, w in self.believed.items() if DEADLY in w}
        )

    def drop(self, signature: str) -> None:
        for blocks in (self.believed, self.on_disk, self.held):
            blocks.pop(signature, None)

    def forget_disk(self) -> None:
        self.on_disk, self.held = {}, {}

    def unmeasured(self, event: ev.ActionFinished) -> None:
        """Forget the files of blocks where a change that nothing measured is believed."""
        if event.changed and not event.world:
            self.on_disk.clear()
        if event.world == UNKNOWN and event.changed is not False:
            self.forget_disk()


@invariant
def attempts_follow_one_another(
    event: ev.AttemptEnded | ev.AttemptStarted, over: int, number: int
) -> str:
    """Each attempt begins after exactly one end of the attempt before it at the same subtask, and ends once."""
    if isinstance(event, ev.AttemptEnded):
        fits = not over and event.attempt == number
        return "" if fits else f"attempt {event.attempt} ends; {number} is under way, {over} over"
    fits = bool(over) and event.attempt == over + 1
    return "" if fits else f"attempt {event.attempt} begins; {over} is over"


@invariant
def attempts_are_no_more_than_allowed(event: ev.AttemptStarted, limit: int) -> str:
    """A subtask gets no more attempts than its limit."""
    return f"attempt {event.attempt} begins, {limit} are allowed" if event.attempt > limit else ""


@invariant
def an_attempt_begins_with_nothing_counted(event: ev.AttemptStarted, state: State) -> str:
    """An attempt begins with no count, streak or block but those of actions that the worker died of."""
    scope = state.loops.scope
    kinds = {kind for blocks in scope.blocks.values() for kind in blocks.values()}
    counted = (
        state.loops.blocked_proposals
        or state.loops.ignored_interventions
        or state.loops.refused.count
    )
    if event.scope == "new":
        counted = counted or scope.tallies or scope.steps or scope.loop_counts or kinds - {"crash"}
    return f"attempt {event.attempt} of {state.goal_id} begins with {counted!r}" if counted else ""


@invariant
def no_worker_in_an_attempt_that_is_over(event: ev.WorkerStarted, over: int) -> str:
    """No worker begins between the end of an attempt and the start of the next."""
    return f"epoch {event.epoch} begins, and attempt {over} is over" if over else ""


@invariant
def the_end_of_an_attempt_is_no_crash(event: ev.WorkerExited) -> str:
    """A worker that ends with its attempt counts as no restart."""
    return (
        f"epoch {event.epoch} crashed: {event.reason}"
        if event.crash and event.reason == "attempt"
        else ""
    )


@dataclass
class Attempts:
    """`over` is the attempt that has ended and that none has followed yet, 0 for none.

    `unsure`: what changes now counts as the goal's, since an action was cut off and no snapshot was taken since.
    """

    limits: Limits
    over: int = 0
    unsure: bool = False

    def take(self, event: ev.Event, state: State) -> None:
        """Hold the next event against the order of attempts and their limit; `state` is the one before it."""
        match event:
            case ev.WorkerStarted():
                no_worker_in_an_attempt_that_is_over(event, self.over)
            case ev.WorkerExited():
                the_end_of_an_attempt_is_no_crash(event)
            case ev.AttemptEnded():
                attempts_follow_one_another(event, self.over, state.attempt.number)
                self.over = event.attempt
            case ev.AttemptStarted():
                allowed = max(self.limits.attempts, state.spec.attempts or 1)
                attempts_follow_one_another(event, self.over, state.attempt.number)
                attempts_are_no_more_than_allowed(event, allowed)
                self.over = 0
            case ev.SubtaskStarted():
                self.over = 0
            case ev.ActionInterrupted():
                self.unsure = True
            case ev.SnapshotTaken():
                self.unsure = False
            case ev.GoalRequeued() if event.reopen:
                self.over = 0
            case _:
                pass

    def taken(self, event: ev.Event, state: State) -> None:
        """Hold the state after an event against what an attempt begins with."""
        if isinstance(event, ev.AttemptStarted):
            an_attempt_begins_with_nothing_counted(event, state)


@dataclass
class Goal:
    """What the watch knows of one goal: its own fold of the record, and its own account of blocks."""

    state: State
    limits: Limits
    blocks: Blocks = field(default_factory=Blocks)
    inherited: Blocks = field(default_factory=Blocks)
    began: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    refused: int = 0
    late: int = 0
    messages: int = 0
    may_remake: bool = True
    attempts: Attempts = field(init=False)

    def __post_init__(self) -> None:
        self.attempts = Attempts(self.limits)

    def take(self, seq: int, event: ev.Event, disk: str) -> None:
        """Hold an event against what was before it, then take it in; `disk` names the files of that moment."""
        self.attempts.take(event, self.state)
        self._used(event)
        match event:
            case ev.ActionAllowed():
                hold.only_a_goal_at_work_acts(event, self.state)
                hold.a_blocked_action_is_not_allowed(
                    event, self.state.loops.world, self.blocks.believed
                )
                hold.a_block_holds_in_the_world_on_the_disk(event, disk, self.blocks.on_disk)
                hold.budgets_hold(self.state, self.limits.actions)
                self.began.add(seq)
            case ev.ActionBlocked():
                self._blocked(seq, event, disk)
            case ev.ActionFinished() | ev.ActionInterrupted():
                hold.an_action_ends_at_most_once(
                    self.state.goal_id, event.of, self.began, self.ended
                )
                self.ended.add(event.of)
                if isinstance(event, ev.ActionFinished):
                    self.blocks.unmeasured(event)
            case ev.WorldSeen() if event.world == UNKNOWN:
                self.blocks.forget_disk()
            case ev.WorkerStarted():
                hold.a_new_epoch_begins_with_clean_hands(event, self.state)
                self.refused = 0
            case ev.WorkspaceKnown():
                rule = hold.a_folder_becomes_the_workspace_by_right
                rule(event, self.state, may_make=self.may_remake)
                self.may_remake = False
            case _:
                self._lift(event)
        if isinstance(event, ev.GoalRequeued) and event.make:
            self.may_remake = event.by != "retry" and self.state.gone
        answers = isinstance(event, ev.GoalRequeued) and event.after == self.state.rested_seq
        hold.an_ended_goal_stays_ended(event, self.state, answers)
        hold.a_rest_is_ended_by_who_may(event, self.state)
        hold.a_goal_ends_with_a_label_that_lets_it(event, self.state)
        self._apply(seq, event)
        self.attempts.taken(event, self.state)

    def _used(self, event: ev.Event) -> None:
        """Count what the limits are about."""
        match event:
            case ev.Reflected():
                self.late += turns_used_up(self.state, self.limits.iterations)
                hold.one_turn_at_most_exceeds_a_limit(self.state.goal_id, self.late)
                self.messages *= event.unfinished
            case ev.GoalRequeued() if event.reopen:
                self.late = self.messages = 0

    def _apply(self, seq: int, event: ev.Event) -> None:
        """Take an event in: it loses no work."""
        replan = event.replan if isinstance(event, ev.Planned) else None
        pending = self.state.replaceable(replan) if replan else []
        apply(self.state, event, seq)
        if isinstance(event, ev.Planned):
            hold.a_replan_loses_no_pending_work(event, pending, self.state)

    def _blocked(self, seq: int, event: ev.ActionBlocked, disk: str) -> None:
        self.refused += 1
        self.began.add(seq)
        if not event.done:
            self.ended.add(seq)
        hold.what_the_record_keeps_is_bounded_by_what_was_allowed(self.refused, REFUSALS_MAX)
        if event.makes_block:
            self.blocks.add(event, self.state.loops.world, disk)

    def _lift(self, event: ev.Event) -> None:
        """End blocks with their scope, or by a person's word."""
        match event:
            case ev.Planned() if event.replan:
                self.inherited = deepcopy(self.blocks)
            case ev.SubtaskStarted() if event.scope == "new":
                self.blocks = Blocks()
            case ev.AttemptStarted() if event.scope == "new":
                self.blocks = self.blocks.deadly()
            case ev.SubtaskStarted() if event.scope == "inherit":
                self.blocks = deepcopy(self.inherited)
            case ev.GoalRequeued() if event.reopen and event.lifts:
                self.blocks, self.inherited = Blocks(), Blocks()
            case ev.FeedbackGiven() | ev.GoalRequeued(reopen=True):
                self.blocks, self.inherited = self.blocks.deadly(), self.inherited.deadly()
            case ev.Unblocked():
                for blocks in (self.blocks, self.inherited):
                    blocks.drop(event.signature)


def turns_used_up(state: State, iterations: int) -> bool:
    """Return whether the turns or the tokens of a goal are used up; `iterations` is the default, not for runbooks."""
    spec, tokens = state.spec, state.cost.tokens - state.attempts.tokens_granted
    turns = state.iteration - state.attempts.iterations_granted
    most = spec.max_iterations or (1e9 if spec.agent == "runbook" else iterations)
    return turns >= most or tokens >= (spec.budget_tokens or 1e9)
