"""The fold of a goal's life: its status, its worker, its checks, and what people ask of it."""

from __future__ import annotations

from clew_shared.judge.memory import paid
from clew_shared.record import events as ev
from clew_shared.record.fold.loops import settle
from clew_shared.record.fold.tree import change_plan, crash_blocks, new_task, settle_task
from clew_shared.record.model import Goal, GoalStatus, StepStatus, Subtask, Task
from clew_shared.record.scope import Scope
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import AttemptState, State

FEEDBACK_KEPT = 50
FOLLOW_UP = "Feedback"  # the task for the subtasks that people's feedback after an end has added


def goal_accepted(state: State, e: ev.GoalAccepted, seq: int) -> None:
    state.goal_id, state.spec, state.identity = e.goal_id, e.spec, e.identity
    state.accepted_seq, state.accepted_at = seq, e.at
    state.plan.planned = bool(e.tasks)
    tasks = e.tasks or (_implicit(e.spec),)
    state.goal = Goal(e.spec.description, [new_task(t) for t in tasks])
    for task in state.goal.tasks:
        settle_task(task)
    state.goal.note_progress()


def _implicit(spec: Spec) -> PlannedTask:
    subtasks = (PlannedSubtask(description=spec.description),)
    return PlannedTask(description=spec.description, subtasks=subtasks)


def goal_started(state: State, e: ev.GoalStarted, _seq: int) -> None:
    state.goal.status = GoalStatus.IN_PROGRESS
    state.started_at = state.started_at or e.at
    state.reason, state.question, state.wait_until = "", "", None


def goal_waiting(state: State, e: ev.GoalWaiting, _seq: int) -> None:
    if state.goal.status != GoalStatus.WAITING or e.paused != state.paused:
        state.waiting_since = e.at
    state.goal.status = GoalStatus.WAITING
    state.reason, state.wait_until, state.paused = e.reason, e.until, e.paused


def goal_blocked(state: State, e: ev.GoalBlocked, seq: int) -> None:
    state.rested_seq = seq
    state.goal.status = GoalStatus.BLOCKED
    state.reason, state.question, state.wait_until = e.reason, e.question, None
    state.paused = False
    state.stranger, state.gone, state.attempts.asked_step = e.stranger, e.gone, e.step


def goal_requeued(state: State, e: ev.GoalRequeued, _seq: int) -> None:
    if e.reopen:
        _reopen(state, crashes=e.lifts)
        _reset_suggestions(state)
        tried = state.attempts
        tried.may_rerun, tried.asked_step = tried.asked_step or tried.may_rerun, 0
    if e.subtask:
        _add_subtask(state, e.subtask)
    state.goal.status = GoalStatus.QUEUED
    state.waiting_since, state.verified = e.at, None
    state.reason, state.question, state.wait_until, state.paused = "", "", None, False
    state.may_make, state.removed = state.may_make or e.make, False
    state.stranger, state.gone = None, False


def _reopen(state: State, *, crashes: bool) -> None:
    """Reset what was used up: attempts, failed replans, streaks, the budgets, and deaths of the worker (`crashes`)."""
    state.plan.replan_required = ""
    state.goal.failed_replans, state.goal.replanned = 0, False
    _reset_counts(state, crashes=crashes)
    used = state.attempts
    used.messages = 0
    used.iterations_granted, used.actions_granted = state.iteration, state.actions_total
    used.tokens_granted, used.active_granted_s = state.cost.tokens, state.cost.active_s
    for task in state.goal.tasks:
        task.failed_replans, task.replanned = 0, False
        for subtask in task.subtasks:
            if subtask.status in (StepStatus.BLOCKED, StepStatus.FAILED):
                subtask.status, subtask.attempts = StepStatus.PENDING, 0
        settle_task(task)
    if state.subtask and state.subtask.status == StepStatus.PENDING and state.task:
        state.subtask.status = state.task.status = StepStatus.IN_PROGRESS
    seq, from_actions = state.attempt.seq, state.attempt.from_actions
    state.attempt = AttemptState(seq=seq, from_iteration=state.iteration, from_actions=from_actions)


def _add_subtask(state: State, description: str) -> None:
    """Add what a person asked for after the end to the task for all such subtasks."""
    tasks = state.goal.tasks
    if not tasks or tasks[-1].description != FOLLOW_UP:
        tasks.append(Task(FOLLOW_UP))
    tasks[-1].subtasks.append(Subtask(description))
    state.plan.planned = True  # a first plan would replace it
    settle_task(tasks[-1])
    state.goal.note_progress()


def goal_ended(state: State, e: ev.GoalEnded, seq: int) -> None:
    state.rested_seq = seq
    status = state.goal.status = GoalStatus(e.status)
    state.ended_at = e.at
    state.reason, state.summary, state.question, state.wait_until = e.reason, e.summary, "", None
    state.paused, state.stranger, state.gone = False, None, False
    current = state.subtask
    state.verified = status is GoalStatus.COMPLETED and state.checked
    if status is GoalStatus.COMPLETED:
        settle(state, "heeded")
        for task in state.goal.tasks:
            for subtask in task.subtasks:
                if not StepStatus(subtask.status).done:
                    done = subtask is current
                    subtask.status = StepStatus.COMPLETED if done else StepStatus.SKIPPED
            settle_task(task)
        state.goal.note_progress()
    elif status is GoalStatus.FAILED and state.task and current:
        if current.open:
            current.status = StepStatus.FAILED
        settle_task(state.task)


def goal_edited(state: State, e: ev.GoalEdited, seq: int) -> None:
    """Take in what a person changed; what was done stays, and so does what is known of checks that are the same."""
    before, state.spec, state.edited_seq = state.spec, e.spec, seq
    for name, cmd in before.checks.items():
        if e.spec.checks.get(name) != cmd:
            state.proofs.checks.pop(name, None)
            state.proofs.before.pop(name, None)
            state.last_probe_state.pop(name, None)
            state.proofs.probes_seen.pop(name, None)
    state.goal.description = e.spec.description
    for task in state.goal.tasks:  # without a plan the goal's text is its only subtask
        named: list[Task | Subtask] = [task, *task.subtasks]
        for one in named:
            if one.description == before.description:
                one.description = e.spec.description
    if e.tasks is not None:
        state.plan.planned = bool(e.tasks)
        change_plan(state, e.tasks or (_implicit(e.spec),))
        for task in state.goal.tasks:
            settle_task(task)
        state.goal.note_progress()


def goal_removed(state: State, _e: ev.GoalRemoved, _seq: int) -> None:
    state.removed = True


def workspace_known(state: State, e: ev.WorkspaceKnown, _seq: int) -> None:
    state.workspace, state.may_make = e.identity, False


def reported(state: State, _e: ev.Reported, seq: int) -> None:
    state.reported_seq = seq


def reviewed(state: State, e: ev.Reviewed, _seq: int) -> None:
    state.reviewed_seq = e.of


def worker_started(state: State, e: ev.WorkerStarted, _seq: int) -> None:
    state.epoch, state.pid, state.pid_created = e.epoch, e.pid, e.created
    state.agent = e.agent
    state.working, state.worker_since, state.may_make = True, e.at, False
    state.attempts.turn_at, state.attempts.turns_needed = state.place, e.turns_needed
    state.guidance.there = e.there or state.guidance.there


def worker_exited(state: State, e: ev.WorkerExited, _seq: int) -> None:
    state.working, state.pid = False, None
    state.restarts += e.crash
    state.cost.active_s += e.active_s
    state.attempts.messages += e.messages


def strategies_shown(state: State, e: ev.StrategiesShown, _seq: int) -> None:
    state.guidance.strategies = e.ids


def _reset_suggestions(state: State) -> None:
    for one in state.proofs.suggested.values():
        one.started, one.result = False, None


def feedback_given(state: State, e: ev.FeedbackGiven, seq: int) -> None:
    """Reset the streaks and lift the blocks of the subtask except `crash` (docs/loops.md, Blocks)."""
    told = state.guidance
    told.feedback_seq = seq
    for texts in (told.feedback, told.feedback_untold):
        texts.append(e.text)
        del texts[:-FEEDBACK_KEPT]
    _reset_counts(state)
    if not state.ended:
        _reset_suggestions(state)


def _reset_counts(state: State, *, crashes: bool = False) -> None:
    """Drop counts, streaks and blocks, with `crashes` those after deaths of the worker, too; known worlds stay."""
    loops = state.loops
    loops.begin(_without_counts(loops.scope, crashes=crashes))
    loops.inherited = loops.inherited and _without_counts(loops.inherited, crashes=crashes)
    loops.claims = 0


def _without_counts(old: Scope, *, crashes: bool) -> Scope:
    kept = Scope(worlds=old.worlds, writers=old.writers, memory=paid(old.memory))
    if not crashes:
        kept.crashes, kept.blocks = old.crashes, crash_blocks(old)
    return kept


def unblocked(state: State, e: ev.Unblocked, _seq: int) -> None:
    for scope in filter(None, (state.loops.scope, state.loops.inherited)):
        for counts in (scope.blocks, scope.tallies, scope.crashes, scope.loop_counts):
            counts.pop(e.signature, None)
        scope.steps = [s for s in scope.steps if s.signature != e.signature]
    if not state.loops.scope.blocks:
        state.loops.blocked_proposals = 0  # they were made at what is no longer blocked
