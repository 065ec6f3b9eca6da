"""What must hold whatever happens, one named function each: it gives "" or what is wrong.

They know the record and the simulated world, and none of the daemon's own bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

from clew_shared.core.core import IN_FLIGHT_MAX
from clew_shared.judge.memory import FACTS_MAX, IDLE_MAX
from clew_shared.proof.label import ENDS
from clew_shared.record import events as ev
from clew_shared.record.model import ACTIONS_KEPT, Result, Subtask
from clew_shared.record.scope import EVERYWHERE, FINDINGS_KEPT, STEPS_KEPT
from clew_shared.record.state import FEEDBACK_KEPT, INSIGHTS_KEPT, SET_ASIDE_KEPT, State
from clew_shared.wire import protocol

CHANGES_OF_STATUS = (ev.GoalStarted, ev.GoalWaiting, ev.GoalBlocked, ev.GoalRequeued, ev.GoalEnded)


class ViolationError(AssertionError):
    """An invariant does not hold."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(f"{name}: {said}")
        self.name = name


def invariant(rule: Callable[..., str]) -> Callable[..., None]:
    """Name a rule by its function, and raise where it does not hold."""

    @wraps(rule)
    def hold(*args: Any, **named: Any) -> None:
        if said := rule(*args, **named):
            raise ViolationError(rule.__name__, said)

    return hold


@invariant
def state_is_the_fold_of_the_record(goal: str, state: bytes, folded: bytes) -> str:
    """The state that the daemon judges by is, byte for byte, the fold of what it has written."""
    if state == folded:
        return ""
    at = next((n for n, (a, b) in enumerate(zip(state, folded, strict=False)) if a != b), -1)
    return f"{goal} differs at byte {at}: {state[at - 60 : at + 60]!r} is not {folded[at - 60 : at + 60]!r}"


@invariant
def a_snapshot_and_its_tail_are_the_whole_fold(goal: str, begun: bytes, whole: bytes) -> str:
    """A start from a snapshot gives, byte for byte, the state that the whole record gives."""
    return "" if begun == whole else f"{goal} starts from another state than its record tells"


@invariant
def nothing_is_heard_that_is_not_recorded(
    what: str, seq: int, recorded: Mapping[int, tuple[str, ev.Event]], goal: str, kinds: Any
) -> str:
    """No verdict, outcome, intervention, escalation or end is told before it is durable."""
    found_goal, event = recorded.get(seq, ("", None))
    right = found_goal == goal and isinstance(event, kinds)
    return "" if right else f"{what} was told of #{seq} of {goal}; on record there is {event!r}"


@invariant
def nothing_is_told_of_words_that_are_not_recorded(what: str, known: Iterable[str]) -> str:
    """What an agent or a person is told is on record, word for word."""
    return "" if what in known else f"{what!r} was told and is not on record"


@invariant
def an_action_runs_only_when_its_permission_is_recorded(
    goal: str, epoch: int, seq: int, event: ev.Event | None
) -> str:
    """Hands move only for an action whose permission is durable, of their own epoch."""
    right = isinstance(event, ev.ActionAllowed) and event.epoch == epoch
    return (
        "" if right else f"#{seq} of {goal} was carried out in epoch {epoch}; recorded: {event!r}"
    )


@invariant
def an_allowed_action_runs_at_most_once(goal: str, seq: int, acted: set[int]) -> str:
    """One permission moves the hands once, over any number of deaths."""
    return f"#{seq} of {goal} was carried out twice" if seq in acted else ""


@invariant
def no_act_in_a_foreign_folder(goal: str, folder: int, known: int | None) -> str:
    """Whatever acts for a goal acts in the folder that is on record as its workspace, wherever that stands by then."""
    return (
        "" if folder == known else f"{goal} acts in folder {folder}; its own on record is {known}"
    )


@invariant
def a_folder_becomes_the_workspace_by_right(
    event: ev.WorkspaceKnown, state: State, *, may_make: bool
) -> str:
    """A goal keeps the folder of its first start, unless a person accepts another or has an empty one made."""
    accepted = state.stranger is not None and event.identity == state.stranger
    right = {"person": accepted, "made": may_make}.get(event.by, state.workspace is None)
    return "" if right else f"{state.goal_id} goes by {event.identity!r}, {event.by}"


@invariant
def an_action_ends_at_most_once(goal: str, seq: int, began: set[int], ended: set[int]) -> str:
    """Each action has one end on record: an outcome or an interruption, of something that began."""
    if seq not in began:
        return f"#{seq} of {goal} ended and had not begun"
    return f"#{seq} of {goal} ended twice" if seq in ended else ""


@invariant
def a_blocked_action_is_not_allowed(
    event: ev.ActionAllowed, world: str, blocks: Mapping[str, set[str]]
) -> str:
    """What is blocked is not allowed in its scope while the world is as it was, over any number of restarts."""
    held = blocks.get(event.signature, set())
    if world in held or EVERYWHERE in held:
        return f"{event.signature} was allowed; it is blocked in {sorted(held)}, the world is {world!r}"
    return ""


@invariant
def a_block_holds_in_the_world_on_the_disk(
    event: ev.ActionAllowed, disk: str, blocked_at: Mapping[str, set[str]]
) -> str:
    """What was blocked is not allowed while the files on the disk are those of then, whatever is believed."""
    wrong = disk and disk in blocked_at.get(event.signature, set())
    return f"{event.signature} was allowed; the files are those of the block" if wrong else ""


@invariant
def no_claim_moves_the_hands(
    signature: str, disk: str, held: Mapping[str, set[str]], agent: str
) -> str:
    """What was blocked is not carried out while the files are those of then, whatever a sandboxed agent claims."""
    wrong = agent != "own" and disk in held.get(signature, set())
    return f"{signature} is done for {agent}; the files are those of the block" if wrong else ""


@invariant
def only_a_goal_at_work_acts(event: ev.ActionAllowed, state: State) -> str:
    """An action is allowed only to the living epoch of a goal that is in progress and waits for no replan."""
    if state.goal.status != "in_progress" or not state.working or state.plan.replan_required:
        return f"allowed while {state.goal.status}, {state.working}, {state.plan.replan_required!r}"
    return "" if event.epoch == state.epoch else f"epoch {event.epoch} acts, {state.epoch} lives"


@invariant
def two_epochs_never_live_at_once(goal: str, role: str, alive: list[str]) -> str:
    """A worker begins when nothing of the one before it lives any more."""
    return f"a new {role} of {goal} began beside {', '.join(alive)}" if alive else ""


@invariant
def a_new_epoch_begins_with_clean_hands(event: ev.WorkerStarted, state: State) -> str:
    """Epochs count one by one, and what the last one left in flight is on record as interrupted before."""
    if state.in_flight or state.working:
        return f"epoch {event.epoch} begins; in flight are {list(state.in_flight)}, working {state.working}"
    return "" if event.epoch == state.epoch + 1 else f"epoch {event.epoch} follows {state.epoch}"


@invariant
def a_goal_begins_only_when_it_may(
    event: ev.GoalStarted, state: State, others: Mapping[str, str]
) -> str:
    """A goal leaves the queue when what it depends on is completed and its time has come, never from a rest."""
    if state.goal.status not in ("queued", "waiting") or state.paused:
        return f"{state.goal_id} began; it was {state.goal.status}, paused {state.paused}"
    open_ones = [goal for goal in state.spec.depends_on if others.get(goal) != "completed"]
    if state.goal.status == "queued" and open_ones:
        return f"{state.goal_id} began before {open_ones}"
    # a wait is over by the monotonic clock too, which no event tells
    late = state.spec.not_before if state.goal.status == "queued" else None
    return f"{state.goal_id} began before its time" if late and event.at < late else ""


@invariant
def an_ended_goal_stays_ended(event: ev.Event, state: State, asked: bool) -> str:
    """What has ended stays so, unless a person who asked after the end was on record reopens it."""
    if not state.ended or not isinstance(event, CHANGES_OF_STATUS):
        return ""
    if isinstance(event, ev.GoalRequeued) and asked:
        return ""
    return f"{event.kind} of {state.goal_id}, which was {state.goal.status}; asked since: {asked}"


@invariant
def a_goal_ends_with_a_label_that_lets_it(event: ev.Event, state: State) -> str:
    """A goal with checks is completed only with a label that ends it, or that the goal or a person has accepted."""
    if not (isinstance(event, ev.GoalEnded) and event.status == "completed" and state.spec.checks):
        return ""
    made = state.proofs.made
    if made and (made.label in ENDS or made.accepted or not state.snapshots.first):
        return ""
    return f"{state.goal_id} ended with {made.label if made else 'no label'}"


@invariant
def a_rest_is_ended_by_who_may(event: ev.Event, state: State) -> str:
    """A paused or blocked goal neither starts, waits nor completes until a person lets it go on."""
    accepted = state.proofs.made is not None and state.proofs.made.accepted == "person"
    rests = state.paused or (state.goal.status == "blocked" and not accepted)
    ends = isinstance(event, ev.GoalEnded) and event.status != "cancelled"
    if rests and (ends or isinstance(event, ev.GoalStarted)):
        return f"{event.kind} of {state.goal_id}: {state.goal.status}, paused {state.paused}"
    return ""


@invariant
def one_writer_per_ledger(writers: list[str]) -> str:
    """One process at a time has a ledger open to write: a second daemon, or a restore, is refused."""
    return f"{' and '.join(writers)} write one ledger" if len(writers) > 1 else ""


@invariant
def one_owner_per_inbox(drop: str, owners: set[str]) -> str:
    """A dropped file becomes a goal of one home, however many daemons are told to look at one inbox."""
    return f"{drop} was taken by {' and '.join(sorted(owners))}" if len(owners) > 1 else ""


@invariant
def no_two_goals_share_a_workspace(
    goal: str, workspace: str, workers: Mapping[str, str], places: int
) -> str:
    """At most `max_workers` goals have a worker, and no two of them in one workspace."""
    if rivals := [g for g, w in workers.items() if w == workspace and g != goal]:
        return f"{goal} works in {workspace} beside {rivals}"
    return f"{len(workers)} goals have workers of {places}" if len(workers) > places else ""


@invariant
def a_restore_leaves_what_others_changed(goal: str, name: str, last: str) -> str:
    """Before an attempt, nothing is put back that someone else has changed last."""
    return "" if last == goal else f"{name} is restored for {goal}; {last or 'someone'} changed it"


@invariant
def budgets_hold(state: State, max_actions: int) -> str:
    """No action is allowed beyond the budgets of actions, iterations and tokens."""
    spec = state.spec
    if state.actions_total - state.attempts.actions_granted >= max_actions:
        return f"{state.goal_id} had {max_actions} actions already"
    if (
        spec.max_iterations
        and state.iteration - state.attempts.iterations_granted >= spec.max_iterations
    ):
        return f"{state.goal_id} had {spec.max_iterations} iterations already"
    if (
        spec.budget_tokens
        and state.cost.tokens - state.attempts.tokens_granted >= spec.budget_tokens
    ):
        return f"{state.goal_id} had {spec.budget_tokens} tokens already"
    return ""


@invariant
def one_turn_at_most_exceeds_a_limit(goal: str, late: int) -> str:
    """After the turn that uses up the iterations or the tokens, one more is recorded at most."""
    return f"{late} turns of {goal} were recorded after a limit was reached" if late > 1 else ""


@invariant
def messages_without_a_turn_are_bounded(goal: str, messages: int, most: int) -> str:
    """An agent that reports no turns is stopped after as many messages as it may have actions."""
    return f"{goal}: {messages} messages, {most} are allowed" if messages > most + 1 else ""


@invariant
def time_spent_is_time_that_passed(goal: str, reason: str, spent_s: float, budget_s: float) -> str:
    """A budget of seconds is used up by work, not by a clock that was set."""
    if not reason.startswith("budget") or "seconds" not in reason or spent_s >= budget_s - 0.5:
        return ""
    return f"{goal} is out of time after {spent_s:.1f} s of {budget_s:g} s"


@invariant
def restart_intensity_holds(goal: str, crashes: int, allowed: int, window_s: float) -> str:
    """After `max_restarts` crashes in `window_s` no worker begins until a person was asked."""
    said = f"a worker of {goal} began after {crashes} crashes in {window_s:g} s, {allowed} allowed"
    return said if crashes > allowed else ""


@invariant
def every_goal_ends_or_waits_for_a_named_reason(goal: str, state: State, why: str) -> str:
    """In a bounded time a goal ends, or says for what or for whom it waits."""
    if state.ended or why:
        return ""
    named = state.reason and (state.paused or state.wait_until is not None or state.question)
    if state.goal.status in ("waiting", "blocked") and named:
        return ""
    return f"{goal} is {state.goal.status}, reason {state.reason!r}, and nobody is asked"


@invariant
def every_rest_is_reported_and_learned_from(goal: str, state: State) -> str:
    """When all is quiet, the last end or block of a goal has its report, and its lessons were drawn, once."""
    if not (state.ended or state.goal.status == "blocked"):
        return ""
    if state.reported_seq >= state.rested_seq and state.reviewed_seq >= state.rested_seq:
        return ""
    return f"{goal} rests since #{state.rested_seq}; reported #{state.reported_seq}, reviewed #{state.reviewed_seq}"


@invariant
def nothing_grows_without_bound(state: State) -> str:
    """Each list of a state keeps to its limit, each table to the number of things that were done."""
    subtasks = [s for t in state.goal.tasks for s in t.subtasks]
    done = state.actions_total + state.loops.blocked_total
    sizes = (
        ("steps", len(state.loops.scope.steps), STEPS_KEPT),
        ("facts", len(state.loops.scope.memory.facts), FACTS_MAX),
        ("idle", len(state.loops.scope.memory.idle), IDLE_MAX),
        ("in_flight", len(state.in_flight), IN_FLIGHT_MAX),
        ("feedback", len(state.guidance.feedback), FEEDBACK_KEPT),
        ("feedback_untold", len(state.guidance.feedback_untold), FEEDBACK_KEPT),
        ("set_aside", len(state.plan.set_aside), SET_ASIDE_KEPT),
        ("covered", len(state.plan.covered), SET_ASIDE_KEPT),
        ("actions", max((len(s.actions) for s in subtasks), default=0), ACTIONS_KEPT),
        ("findings", len(state.loops.findings), FINDINGS_KEPT),
        ("insights", max((len(s.insights) for s in subtasks), default=0), INSIGHTS_KEPT),
        ("raised", len(state.loops.attention.raised), 6),
        ("loop_counts", len(state.loops.scope.loop_counts), done),
        ("blocks", len(state.loops.scope.blocks), done),
        ("tallies", sum(map(len, state.loops.scope.tallies.values())), done),
        ("writers", len(state.loops.scope.writers), done),
        ("changes", len(state.loops.changes), done),
    )
    return ", ".join(f"{name}: {size} of {most}" for name, size, most in sizes if size > most)


@invariant
def a_replan_loses_no_pending_work(
    event: ev.Planned, pending: Sequence[Subtask], after: State
) -> str:
    """What was pending before a replan is still to do after it, unless the plan covers it by its number."""
    there = {id(s) for t in after.goal.tasks for s in t.subtasks if s.status == "pending"}
    numbered = [(n, one) for n, one in enumerate(pending, 1) if n not in (event.covers or ())]
    lost = [f"{n}. {one.description}" for n, one in numbered if id(one) not in there]
    return f"{after.goal_id} lost {', '.join(lost)} by {event!r}" if lost else ""


@invariant
def progress_never_goes_down(goal: str, before: Sequence[float], now: Sequence[float]) -> str:
    """Iterations and tools used only grow."""
    fell = any(new < old for old, new in zip(before, now, strict=True))
    return f"{goal} went from {tuple(before)} to {tuple(now)}" if fell else ""


@invariant
def what_the_record_keeps_is_bounded_by_what_was_allowed(refused: int, limit: int) -> str:
    """An agent that goes on proposing what is refused is handed to a person; the record does not fill for ever."""
    return f"{refused} refusals in one epoch, {limit} are plenty" if refused > limit else ""


@invariant
def a_transcript_read_back_is_valid(told: Mapping[str, Any]) -> str:
    """What a new epoch is told of its subtask fits a line, is folded within its length, and has no loose end."""
    entries, folded = told["transcript"], told["folded"]
    if not 0 <= folded <= len(entries):
        return f"{folded} of {len(entries)} entries are folded"
    if len(protocol.line({"transcript": entries})) > protocol.LINE_BYTES_MAX:
        return "it does not fit a line"
    for entry in entries:
        if "role" not in entry and entry["seq"] > 0 and entry.get("result") not in [*Result]:
            return f"{entry!r} is on record, and has no end"
    seqs = [entry["seq"] for entry in entries if entry.get("seq", 0) > 0]
    return "" if len(set(seqs)) == len(seqs) else f"a call stands in it twice: {seqs}"


@invariant
def history_has_every_action_once(goal: str, shown: list[int], ended: set[int]) -> str:
    """The history of a goal has each action that ended exactly once."""
    same = sorted(shown) == sorted(ended)
    return "" if same else f"{goal}: {sorted(set(shown) ^ ended)} differ, or one stands there twice"


@invariant
def no_part_of_the_daemon_fails(event: str, said: str) -> str:
    """No task of the daemon ends by an error that nobody expected."""
    return f"{event} {said}"
