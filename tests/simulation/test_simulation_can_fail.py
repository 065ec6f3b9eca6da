"""A simulator that cannot fail proves nothing: daemons that are broken on purpose, each by one rule."""

from contextlib import nullcontext

import pytest
import sim_daemon
import sim_watch
from sim_life import LifeError, live
from sim_world import World

from clew_daemon.control import goal_changes
from clew_daemon.learning import reviewer
from clew_daemon.processes import endings, workspace_guard
from clew_daemon.processes.endings import Ended
from clew_daemon.record import goals
from clew_daemon.session import actions, conversation, epoch, lifetime, proving, session
from clew_daemon.supervision import goal_run, restart, schedule
from clew_shared.core import attempts, core, journal, suggestions
from clew_shared.ledger import lock
from clew_shared.prompt import transcript
from clew_shared.record.fold import loops as fold_loops
from clew_shared.record.fold import tree
from clew_shared.record.identity import Identity
from clew_shared.record.model import Goal
from clew_shared.snapshots import plan

SEEDS = 400


async def _heard_at_once(_book, _core):
    """Forget to wait for the commit."""


def _forgets_blocks_at_restart(monkeypatch):
    replayed = goals.replayed

    def load(ledger, goal):
        state, events = replayed(ledger, goal)
        state.scope.blocks.clear()
        return state, events

    monkeypatch.setattr(goals, "replayed", load)


def _allows_what_is_blocked(monkeypatch):
    judged = core.judge

    def judge(state, proposal, thresholds, **options):
        if proposal.signature in state.scope.blocks:
            return None
        return judged(state, proposal, thresholds, **options)

    monkeypatch.setattr(core, "judge", judge)


def _looks_at_no_disk_before_it_refuses(monkeypatch):
    monkeypatch.setattr(core.Core, "see_world", lambda *_, **__: False)
    made = World.__init__

    def make(self, seed, cast=()):
        made(self, seed, cast)
        self.edits, self.deaths = 40, []  # files that somebody brings back, and time to meet them
        self.requests = self.reloads = self.jumps = 0

    monkeypatch.setattr(World, "__init__", make)


def _accepts_every_label(monkeypatch):
    monkeypatch.setattr(proving.Proving, "_ends", lambda *_: True)


def _believes_every_claim(monkeypatch):
    async def nothing(_epoch):
        pass

    monkeypatch.setattr(epoch.Epoch, "see_past_claims", nothing)


def _answers_before_the_commit(monkeypatch):
    monkeypatch.setattr(goals.GoalStore, "commit", _heard_at_once)


def _carries_out_twice(monkeypatch):
    once = actions.Actions._carry_out

    async def twice(self, seq, p):
        await once(self, seq, p)
        return await once(self, seq, p)

    monkeypatch.setattr(actions.Actions, "_carry_out", twice)


def _restarts_for_ever(monkeypatch):
    monkeypatch.setattr(restart.Crashes, "restart_s", lambda *_: 0.0)


def _forgives_crashes_at_a_wait(monkeypatch):
    monkeypatch.setattr(restart.RestartHistory, "crashes", lambda *_: restart.Crashes())


def _changes_state_beside_the_record(monkeypatch):
    thought = core.Core.think

    def think(self, *args, **named):
        self.state.loops_total += 1
        return thought(self, *args, **named)

    monkeypatch.setattr(core.Core, "think", think)


def _leaves_the_worker_alive(monkeypatch):
    async def tear_down(self):
        self._epoch.stopping = True
        await self._lifetime.cancel()

    monkeypatch.setattr(session.Session, "_tear_down", tear_down)


def _notices_no_silence(monkeypatch):
    monkeypatch.setattr(lifetime.Liveness, "silent", lambda _: None)
    monkeypatch.setattr(lifetime.Liveness, "stalled", lambda _: None)


def _waits_for_replans_for_ever(monkeypatch):
    monkeypatch.setattr(sim_watch, "REFUSALS_MAX", 600)  # a sound daemon stays below a hundred
    monkeypatch.setattr(conversation, "OWED_REPLAN_MAX", 10**9)
    monkeypatch.setattr(conversation.Conversation, "_counting", lambda _: nullcontext())


def _keeps_every_step(monkeypatch):
    monkeypatch.setattr(fold_loops, "STEPS_KEPT", 10**9)


def _folds_more_than_there_is(monkeypatch):
    one_more = property(
        lambda self: vars(self)["count"] + (vars(self)["count"] > 0),
        lambda self, count: vars(self).update(count=count),
    )
    monkeypatch.setattr(transcript.TranscriptFold, "folded", one_more, raising=False)


def _times_by_the_wall_clock(monkeypatch):
    def lived_s(self):
        return session.time.time() - self._epoch.core.state.worker_since

    monkeypatch.setattr(session.Session, "lived_s", lived_s)


def _forgets_who_works_where(monkeypatch):
    monkeypatch.setattr(schedule, "overlap", lambda *_: False)


def _begins_before_its_dependencies(monkeypatch):
    monkeypatch.setattr(schedule, "dependencies", lambda *_: [])


def _leaves_actions_in_flight(monkeypatch):
    monkeypatch.setattr(core.Core, "interrupt", lambda *_, **__: [])


def _knows_no_budget(monkeypatch):
    monkeypatch.setattr(core.Core, "budget_spent", lambda *_, **__: "")


def _asks_for_limits_before_actions_only(monkeypatch):
    monkeypatch.setattr(core.Core, "hold_to_limits", lambda *_, **__: "")


def _counts_no_messages(monkeypatch):
    monkeypatch.setattr(conversation.Conversation, "_counting", lambda _: nullcontext())


def _never_looks_back(monkeypatch):
    monkeypatch.setattr(reviewer.Reviewer, "_on_records", lambda *_: None)


def _takes_a_failed_ledger_for_a_bug(monkeypatch):
    another = type("AnotherError", (Exception,), {})
    for module in (session, lifetime, conversation):
        monkeypatch.setattr(module, "LedgerError", another)


def _much_asked(monkeypatch, *requests):
    """Let people ask for little else than these, all the time, of goals with checks."""
    monkeypatch.setattr(sim_daemon, "REQUESTS", requests)
    monkeypatch.setattr(sim_daemon, "ASKED_EVERY_S", 1.0)
    made = World.__init__

    def make(self, seed, cast=()):
        made(self, seed, cast)
        self.requests, self.deaths = 60, []
        for n, goal in enumerate(self.goals):
            spec = goal.spec.model_copy(update={"checks": {"a": "test f0", "b": "test f1"}})
            self.goals[n] = goal.model_copy(update={"spec": spec})

    monkeypatch.setattr(World, "__init__", make)


def _goes_on_whatever_was_asked_meanwhile(monkeypatch):
    monkeypatch.setattr(journal, "refusal", lambda *_: "")
    monkeypatch.setattr(goal_changes, "request_basis", lambda _: None)
    _much_asked(monkeypatch, "pause", "resume", "cancel")


def _completes_what_was_paused_meanwhile(monkeypatch):
    monkeypatch.setattr(journal, "refusal", lambda *_: "")
    _much_asked(monkeypatch, "pause --now", "resume")


def _locks_nothing(monkeypatch):
    monkeypatch.setattr(lock, "_take", lambda *_: None)


def _owns_what_another_owns(monkeypatch):
    _locks_nothing(monkeypatch)
    monkeypatch.setattr(sim_daemon, "RIVALS", ("another home",))


def _swaps(monkeypatch):
    """Let somebody take workspaces away and put others there, and nothing else happen."""
    made = World.__init__

    def make(self, seed, cast=()):
        made(self, seed, cast)
        self.swaps, self.requests = 12, 8
        self.reloads = self.jumps = self.edits = 0

    monkeypatch.setattr(World, "__init__", make)


def _takes_any_folder_for_its_own(monkeypatch):
    monkeypatch.setattr(Identity, "is_same", lambda *_: True)
    _swaps(monkeypatch)


def _goes_by_the_path_of_a_workspace(monkeypatch):
    def place(self):
        now = workspace_guard.os.stat(self._workspace, follow_symlinks=False)
        return now.st_dev, now.st_ino

    monkeypatch.setattr(workspace_guard.WorkspaceGuard, "missing", lambda _: None)
    monkeypatch.setattr(workspace_guard.WorkspaceGuard, "place", property(place))
    _swaps(monkeypatch)


def _makes_a_lost_workspace_again(monkeypatch):
    entered = workspace_guard.enter

    def enter(workspace, known, *, make):
        return entered(workspace, known, make=True)

    monkeypatch.setattr(workspace_guard, "enter", enter)
    _swaps(monkeypatch)


def _runs_suggested_checks_twice(monkeypatch):
    due = suggestions.due
    monkeypatch.setattr(suggestions, "due", lambda state: due(state) * 2)


def _starts_over_for_ever(monkeypatch):
    monkeypatch.setattr(attempts, "may_start_over", lambda state, _: not state.replan_required)


def _begins_an_attempt_twice(monkeypatch):
    begin = attempts.AttemptCommands.begin_attempt

    def twice(self, *args, **named):
        begin(self, *args, **named)
        begin(self, *args, **named)

    monkeypatch.setattr(attempts.AttemptCommands, "begin_attempt", twice)


def _counts_on_over_attempts(monkeypatch):
    monkeypatch.setattr(tree, "afresh", lambda old, _: old)


def _works_on_after_an_attempt(monkeypatch):
    async def nothing(*_):
        return True

    monkeypatch.setattr(goal_run.GoalRun, "_start_over", nothing)


def _takes_an_attempt_for_a_crash(monkeypatch):
    monkeypatch.setattr(lifetime, "Ended", lambda _, reason: Ended("crash", reason))
    by_exit = endings.by_exit

    def crashed(*args, **named):
        ended = by_exit(*args, **named)
        return Ended("crash", ended.reason) if ended.reason == endings.ATTEMPT else ended

    monkeypatch.setattr(endings, "by_exit", crashed)


def _restores_what_others_changed(monkeypatch):
    monkeypatch.setattr(plan._Window, "closed", _all_its_own)
    made = World.__init__

    def make(self, seed, cast=()):
        made(self, seed, cast)
        self.edits, self.requests = 30, 0

    monkeypatch.setattr(World, "__init__", make)


def _all_its_own(window, list_of):
    return set(plan.differences(list_of(window.before), list_of(window.after))), set(), set()


CASTS = {
    _starts_over_for_ever: ("stuck",),
    _begins_an_attempt_twice: ("stuck",),
    _counts_on_over_attempts: ("stuck", "looping"),
    _works_on_after_an_attempt: ("stuck",),
    _takes_an_attempt_for_a_crash: ("stuck",),
    _restores_what_others_changed: ("stuck",),
    _goes_by_the_path_of_a_workspace: ("diligent", "fragile"),
    _looks_at_no_disk_before_it_refuses: ("looping", "stubborn", "pacing"),
    _believes_every_claim: ("feigning",),
    _restarts_for_ever: ("crashing",),
    _forgives_crashes_at_a_wait: ("crashing",),
    _waits_for_replans_for_ever: ("stubborn",),
    _asks_for_limits_before_actions_only: ("only reflect",),
    _counts_no_messages: ("erratic",),
    _folds_more_than_there_is: ("diligent", "musing"),
    _runs_suggested_checks_twice: ("diligent",),
    _accepts_every_label: ("diligent",),
    _completes_what_was_paused_meanwhile: ("diligent", "quitting"),
}
"""Agents that bring it to light soon."""


def _replaces_what_is_pending(monkeypatch):
    replan = tree._replan_task
    monkeypatch.setattr(tree, "_replan_task", lambda state, new, _left: replan(state, new, []))


def _shows_the_share_of_the_present_plan(monkeypatch):
    def note(self):
        done = [s.status in ("completed", "skipped") for t in self.tasks for s in t.subtasks]
        self.reached = sum(done) / max(len(done), 1)

    monkeypatch.setattr(Goal, "note_progress", note)


BROKEN = {
    _forgets_blocks_at_restart: "a_snapshot_and_its_tail_are_the_whole_fold",
    _allows_what_is_blocked: "a_blocked_action_is_not_allowed",
    _takes_any_folder_for_its_own: "no_act_in_a_foreign_folder",
    _goes_by_the_path_of_a_workspace: "no_act_in_a_foreign_folder",
    _makes_a_lost_workspace_again: "a_folder_becomes_the_workspace_by_right",
    _looks_at_no_disk_before_it_refuses: "a_block_holds_in_the_world_on_the_disk",
    _believes_every_claim: "no_claim_moves_the_hands",
    _answers_before_the_commit: "nothing_is_heard_that_is_not_recorded",
    _carries_out_twice: "an_allowed_action_runs_at_most_once",
    _restarts_for_ever: "restart_intensity_holds",
    _forgives_crashes_at_a_wait: "restart_intensity_holds",
    _changes_state_beside_the_record: "state_is_the_fold_of_the_record",
    _leaves_the_worker_alive: "two_epochs_never_live_at_once",
    _notices_no_silence: "every_goal_ends_or_waits_for_a_named_reason",
    _waits_for_replans_for_ever: "what_the_record_keeps_is_bounded_by_what_was_allowed",
    _keeps_every_step: "nothing_grows_without_bound",
    _folds_more_than_there_is: "a_transcript_read_back_is_valid",
    _times_by_the_wall_clock: "time_spent_is_time_that_passed",
    _forgets_who_works_where: "no_two_goals_share_a_workspace",
    _begins_before_its_dependencies: "a_goal_begins_only_when_it_may",
    _leaves_actions_in_flight: "a_new_epoch_begins_with_clean_hands",
    _knows_no_budget: "budgets_hold",
    _asks_for_limits_before_actions_only: "one_turn_at_most_exceeds_a_limit",
    _counts_no_messages: "messages_without_a_turn_are_bounded",
    _starts_over_for_ever: "attempts_are_no_more_than_allowed",
    _begins_an_attempt_twice: "attempts_follow_one_another",
    _counts_on_over_attempts: "an_attempt_begins_with_nothing_counted",
    _works_on_after_an_attempt: "no_worker_in_an_attempt_that_is_over",
    _takes_an_attempt_for_a_crash: "the_end_of_an_attempt_is_no_crash",
    _restores_what_others_changed: "a_restore_leaves_what_others_changed",
    _runs_suggested_checks_twice: "a_suggested_check_runs_once",
    _takes_a_failed_ledger_for_a_bug: "no_part_of_the_daemon_fails",
    _goes_on_whatever_was_asked_meanwhile: "an_ended_goal_stays_ended",
    _completes_what_was_paused_meanwhile: "a_rest_is_ended_by_who_may",
    _locks_nothing: "one_writer_per_ledger",
    _accepts_every_label: "a_goal_ends_with_a_label_that_lets_it",
    _owns_what_another_owns: "one_owner_per_inbox",
    _never_looks_back: "every_rest_is_reported_and_learned_from",
    _replaces_what_is_pending: "a_replan_loses_no_pending_work",
    _shows_the_share_of_the_present_plan: "progress_never_goes_down",
}


FOUND_AT = {
    _looks_at_no_disk_before_it_refuses: 310,
    _completes_what_was_paused_meanwhile: 937,
    _accepts_every_label: 189,
    _forgets_blocks_at_restart: 2,
    _believes_every_claim: 8,
    _counts_no_messages: 4,
    _runs_suggested_checks_twice: 2,
    _answers_before_the_commit: 6,
    _notices_no_silence: 36,
    _replaces_what_is_pending: 47,
    _shows_the_share_of_the_present_plan: 36,
    _waits_for_replans_for_ever: 558,
    _folds_more_than_there_is: 2,
    _times_by_the_wall_clock: 9,
    _forgets_who_works_where: 17,
    _knows_no_budget: 4,
    _takes_a_failed_ledger_for_a_bug: 54,
}
"""A seed that brought it to light late: tried first, and all others where it no longer does."""


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__.lstrip("_"))
def test_a_daemon_that_is_broken_is_found_out(broken, monkeypatch):
    broken(monkeypatch)
    names = []
    for seed in (FOUND_AT.get(broken, 0), *range(SEEDS)):
        try:
            live(seed, CASTS.get(broken, ()))
        except LifeError as failed:
            names.append(failed.name)
            if failed.name == BROKEN[broken]:
                break
    assert BROKEN[broken] in names


def test_a_failing_seed_fails_at_the_same_line_again(monkeypatch):
    _allows_what_is_blocked(monkeypatch)
    said = []
    for seed in (*range(SEEDS),) * 2:
        try:
            live(seed)
        except LifeError as failed:
            said.append((failed.seed, failed.line, str(failed)))
            if len(said) == 2:
                break
    first = said[0]
    with pytest.raises(LifeError) as again:
        live(first[0])
    assert (again.value.seed, again.value.line, str(again.value)) == first
