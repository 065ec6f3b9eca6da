"""A simulator that cannot fail proves nothing: daemons that are broken on purpose, each by one rule."""

import pytest
import sim_account
import sim_daemon
from sim_life import LifeError, live
from sim_world import every_world

from clew_daemon.control import goal_changes
from clew_daemon.learning import playbook
from clew_daemon.ledger import lock
from clew_daemon.processes import endings, workspace_guard
from clew_daemon.processes.endings import Ended
from clew_daemon.record import goals, transcript
from clew_daemon.session import actions, conversation, epoch, lifetime, proving, session
from clew_daemon.supervision import goal_run, schedule
from clew_shared.core import core, journal
from clew_shared.record import action_events, life_events, plans, scope
from clew_shared.record.identity import Identity
from clew_shared.snapshots import plan

SEEDS = 400

BROKEN = {}
"""Each way to break the daemon: how, the rule that finds it, who and what brings it to light soon."""


def breaks(rule, *cast, seed=0):
    """Take a function for a way to break the daemon.

    `rule` finds it, soon with agents of that `cast`; `seed` brought it to light late, and is tried first.
    """

    def take(how):
        BROKEN[how.__name__] = how, rule, cast, seed
        return how

    return take


def put(owner, name, value, rule, *cast, seed=0):
    """Break the daemon by one thing put in the place of what it has."""
    BROKEN[name.strip("_")] = lambda m: m.setattr(owner, name, value), rule, cast, seed


def always(value):
    return lambda *_, **__: value


async def heard_at_once(_book, _core):
    """Forget to wait for the commit."""


@breaks("a_snapshot_and_its_tail_are_the_whole_fold", seed=61)
def forgets_blocks_at_restart(monkeypatch):
    replayed = goals.replayed

    def load(ledger, goal):
        state, events = replayed(ledger, goal)
        state.loops.scope.blocks.clear()
        return state, events

    monkeypatch.setattr(goals, "replayed", load)


@breaks("a_blocked_action_is_not_allowed", seed=2)
def allows_what_is_blocked(monkeypatch):
    judged = core.judge

    def judge(state, proposal, thresholds, **options):
        if proposal.signature in state.loops.scope.blocks:
            return None
        return judged(state, proposal, thresholds, **options)

    monkeypatch.setattr(core, "judge", judge)


@breaks("a_block_holds_in_the_world_on_the_disk", "looping", "stubborn", "pacing", seed=5)
def looks_at_no_disk_before_it_refuses(monkeypatch):
    monkeypatch.setattr(core.Core, "see_world", lambda *_, **__: False)
    # files that somebody brings back, and time to meet them
    every_world(monkeypatch, edits=40, deaths=(), requests=0, reloads=0, jumps=0)


@breaks("no_claim_moves_the_hands", "feigning", seed=12)
def believes_every_claim(monkeypatch):
    async def nothing(_epoch):
        pass

    monkeypatch.setattr(epoch.Epoch, "see_past_claims", nothing)


@breaks("an_allowed_action_runs_at_most_once")
def carries_out_twice(monkeypatch):
    once = actions.Actions._carry_out

    async def twice(self, seq, p):
        await once(self, seq, p)
        return await once(self, seq, p)

    monkeypatch.setattr(actions.Actions, "_carry_out", twice)


@breaks("state_is_the_fold_of_the_record", seed=1)
def changes_state_beside_the_record(monkeypatch):
    thought = core.Core.think

    def think(self, *args, **named):
        self.state.loops.found_total += 1
        return thought(self, *args, **named)

    monkeypatch.setattr(core.Core, "think", think)


@breaks("two_epochs_never_live_at_once")
def leaves_the_worker_alive(monkeypatch):
    async def tear_down(self):
        self._epoch.stopping = True
        await self._lifetime.cancel()

    monkeypatch.setattr(session.Session, "_tear_down", tear_down)


@breaks("every_goal_ends_or_waits_for_a_named_reason", seed=341)
def notices_no_silence(monkeypatch):
    monkeypatch.setattr(lifetime.Lifetime, "silent", lambda _: None)
    monkeypatch.setattr(lifetime.Lifetime, "stalled", lambda _: None)


@breaks("what_the_record_keeps_is_bounded_by_what_was_allowed", "stubborn", seed=162)
def waits_for_replans_for_ever(monkeypatch):
    monkeypatch.setattr(sim_account, "REFUSALS_MAX", 600)  # a sound daemon stays below a hundred
    monkeypatch.setattr(conversation, "OWED_REPLAN_MAX", 10**9)
    monkeypatch.setattr(conversation.Conversation, "_count", lambda *_: None)


@breaks("a_transcript_read_back_is_valid", "diligent", "musing", seed=33)
def folds_more_than_there_is(monkeypatch):
    one_more = property(
        lambda self: vars(self)["count"] + (vars(self)["count"] > 0),
        lambda self, count: vars(self).update(count=count),
    )
    monkeypatch.setattr(transcript.TranscriptFold, "folded", one_more, raising=False)


@breaks("time_spent_is_time_that_passed", seed=9)
def times_by_the_wall_clock(monkeypatch):
    def lived_s(self):
        return session.time.time() - self._epoch.core.state.worker_since

    monkeypatch.setattr(session.Session, "lived_s", lived_s)


@breaks("no_part_of_the_daemon_fails", seed=15)
def takes_a_failed_ledger_for_a_bug(monkeypatch):
    another = type("AnotherError", (Exception,), {})
    for module in (session, lifetime, conversation):
        monkeypatch.setattr(module, "LedgerError", another)


def _much_asked(monkeypatch, *requests):
    """Let people ask for little else than these, all the time, of goals with checks."""
    monkeypatch.setattr(sim_daemon, "REQUESTS", requests)
    monkeypatch.setattr(sim_daemon, "ASKED_EVERY_S", 1.0)
    checks = {"a": "./test f0", "b": "./test f1"}
    every_world(monkeypatch, spec={"checks": checks}, requests=60, deaths=())


def _anything_follows(monkeypatch):
    for event in vars(life_events).values():
        if "may_follow" in getattr(event, "__dict__", ()):
            monkeypatch.setattr(event, "may_follow", always(True))


@breaks("an_ended_goal_stays_ended", seed=12)
def goes_on_whatever_was_asked_meanwhile(monkeypatch):
    _anything_follows(monkeypatch)
    monkeypatch.setattr(goal_changes, "request_basis", lambda _: None)
    _much_asked(monkeypatch, "pause", "resume", "cancel")


@breaks("a_rest_is_ended_by_who_may", "diligent", "quitting", seed=148)
def completes_what_was_paused_meanwhile(monkeypatch):
    _anything_follows(monkeypatch)
    _much_asked(monkeypatch, "pause --now", "resume")


@breaks("one_owner_per_inbox")
def owns_what_another_owns(monkeypatch):
    monkeypatch.setattr(lock, "_take", always(None))
    monkeypatch.setattr(sim_daemon, "RIVALS", ("another home",))


def _swaps(monkeypatch):
    """Let somebody take workspaces away and put others there, and nothing else happen."""
    every_world(monkeypatch, swaps=12, requests=8, reloads=0, jumps=0, edits=0)


@breaks("no_act_in_a_foreign_folder", seed=1)
def takes_any_folder_for_its_own(monkeypatch):
    monkeypatch.setattr(Identity, "is_same", lambda *_: True)
    _swaps(monkeypatch)


@breaks("no_act_in_a_foreign_folder", "diligent", "fragile", seed=7)
def goes_by_the_path_of_a_workspace(monkeypatch):
    def place(self):
        now = workspace_guard.os.stat(self._workspace, follow_symlinks=False)
        return now.st_dev, now.st_ino

    monkeypatch.setattr(workspace_guard.WorkspaceGuard, "missing", lambda _: None)
    monkeypatch.setattr(workspace_guard.WorkspaceGuard, "place", property(place))
    _swaps(monkeypatch)


@breaks("a_folder_becomes_the_workspace_by_right", seed=3)
def makes_a_lost_workspace_again(monkeypatch):
    entered = workspace_guard.enter

    def enter(workspace, known, *, make):
        return entered(workspace, known, make=True)

    monkeypatch.setattr(workspace_guard, "enter", enter)
    _swaps(monkeypatch)


@breaks("attempts_follow_one_another", "stuck")
def begins_an_attempt_twice(monkeypatch):
    begin = journal.GoalJournal.begin_attempt

    def twice(self, *args, **named):
        begin(self, *args, **named)
        begin(self, *args, **named)

    monkeypatch.setattr(journal.GoalJournal, "begin_attempt", twice)


@breaks("no_worker_in_an_attempt_that_is_over", "stuck")
def works_on_after_an_attempt(monkeypatch):
    async def nothing(*_):
        return True

    monkeypatch.setattr(goal_run.GoalRun, "_start_over", nothing)


@breaks("the_end_of_an_attempt_is_no_crash", "stuck")
def takes_an_attempt_for_a_crash(monkeypatch):
    monkeypatch.setattr(lifetime, "Ended", lambda _, reason: Ended("crash", reason))
    by_exit = endings.by_exit

    def crashed(*args, **named):
        ended = by_exit(*args, **named)
        return Ended("crash", ended.reason) if ended.reason == endings.ATTEMPT else ended

    monkeypatch.setattr(endings, "by_exit", crashed)


@breaks("a_restore_leaves_what_others_changed", "stuck", seed=41)
def restores_what_others_changed(monkeypatch):
    monkeypatch.setattr(plan._Window, "closed", _all_its_own)
    every_world(monkeypatch, edits=30, requests=0)


def _all_its_own(window, list_of):
    return set(plan.differences(list_of(window.before), list_of(window.after))), set(), set()


@breaks("a_replan_loses_no_pending_work", seed=26)
def replaces_what_is_pending(monkeypatch):
    replan = plans._replan_task
    monkeypatch.setattr(plans, "_replan_task", lambda state, new, _left: replan(state, new, []))


@breaks("a_goal_ends_with_a_label_that_lets_it", "stuck", seed=6)
def ends_with_any_label(monkeypatch):
    monkeypatch.setattr(proving.Proving, "_ends", always(True))
    calm = dict.fromkeys(("requests", "reloads", "jumps"), 0)
    every_world(monkeypatch, spec={"checks": {"ok": "./test f0"}}, deaths=(), **calm)


put(goals.GoalStore, "commit", heard_at_once, "nothing_is_heard_that_is_not_recorded", seed=6)
put(goal_run, "restart_s", always(0.0), "restart_intensity_holds", "crashing", seed=1)
put(goal_run.RestartHistory, "crashed", always(1), "restart_intensity_holds", "crashing", seed=1)
put(action_events, "STEPS_KEPT", 10**9, "nothing_grows_without_bound", seed=2)
put(schedule, "overlap", always(False), "no_two_goals_share_a_workspace", seed=17)
put(schedule, "dependencies", lambda *_, **__: [], "a_goal_begins_only_when_it_may")
put(core.Core, "interrupt", lambda *_, **__: [], "a_new_epoch_begins_with_clean_hands")
put(core.Core, "budget_spent", always(""), "budgets_hold", seed=26)
put(core.Core, "hold_to_limits", always(""), "one_turn_at_most_exceeds_a_limit", "only reflect")
put(
    conversation.Conversation,
    "_count",
    always(None),
    "messages_without_a_turn_are_bounded",
    "erratic",
    seed=4,
)
put(
    journal,
    "may_start_over",
    lambda state, _: not state.plan.replan_required,
    "attempts_are_no_more_than_allowed",
    "stuck",
    seed=8,
)
put(
    scope.Scope,
    "afresh",
    lambda old, _: old,
    "an_attempt_begins_with_nothing_counted",
    "stuck",
    "looping",
)
put(lock, "_take", always(None), "one_writer_per_ledger")
put(playbook.Reviewer, "due", always(None), "every_rest_is_reported_and_learned_from")


@pytest.mark.parametrize("broken", BROKEN)
def test_a_daemon_that_is_broken_is_found_out(broken, monkeypatch):
    how, rule, cast, late = BROKEN[broken]
    how(monkeypatch)
    names = []
    for seed in (late, *range(SEEDS)):
        try:
            live(seed, cast)
        except LifeError as failed:
            names.append(failed.name)
            if failed.name == rule:
                break
    assert rule in names


def test_a_failing_seed_fails_at_the_same_line_again(monkeypatch):
    allows_what_is_blocked(monkeypatch)
    said = []
    for seed in (2, *range(SEEDS)) * 2:
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
