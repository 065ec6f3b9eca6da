"""What a model needed in its verified goals, from the record, and how attempts and windows follow it."""

import pytest

from clew_daemon.config.profiles import settings_for
from clew_daemon.learning.models import recorded_needs
from clew_daemon.learning.playbook import PlaybookStore
from clew_daemon.learning.review import ReviewFold
from clew_daemon.learning.reviewer import unreviewed_outcomes
from clew_daemon.record.goal_limits import attempt_limits
from clew_daemon.record.goals import GoalStore
from clew_shared.config.settings import load
from clew_shared.config.tables import PlaybookSettings, Settings
from clew_shared.core.attempts import iterations_used_up
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.prompt_facts import Prompt
from clew_shared.record.spec import Spec
from clew_shared.record.state import State

KEY = "small@127.0.0.1:8080"
CHECKED, UNCHECKED = Spec(description="x", checks={"a": "true"}), Spec(description="x")
COMPLETED, FAILED = ev.GoalEnded(status="completed"), ev.GoalEnded(status="failed")
BEGUN, AGAIN = (
    ev.SubtaskStarted(task_idx=0, subtask_idx=0),
    ev.AttemptStarted(attempt=2, reason="over"),
)
TURN = ev.Reflected(iteration=1, prompt=Prompt(model=KEY))
OTHER = ev.Reflected(iteration=1, prompt=Prompt(model="big@h"))
DONE, GIVEN_UP = (
    ev.SubtaskEnded(status="completed"),
    ev.SubtaskEnded(status="failed"),
)


@pytest.mark.parametrize(
    ("events", "needed"),
    [
        ([BEGUN, *[TURN] * 3, DONE, BEGUN, TURN, DONE, COMPLETED], {KEY: 4}),
        ([BEGUN, TURN, TURN, COMPLETED], {KEY: 3}),
        ([BEGUN, *[TURN] * 9, AGAIN, TURN, TURN, DONE, COMPLETED], {KEY: 3}),
        ([BEGUN, *[TURN] * 9, GIVEN_UP, BEGUN, TURN, DONE, COMPLETED], {KEY: 2}),
        ([BEGUN, TURN, AGAIN, OTHER, DONE, COMPLETED], {"big@h": 2}),
        ([BEGUN, TURN, ev.WorkerStarted(epoch=2), TURN, DONE, COMPLETED], {KEY: 3}),
        ([BEGUN, TURN, DONE, FAILED], {}),
        ([BEGUN, TURN, ev.GoalBlocked(reason="a person"), TURN, DONE, COMPLETED], {}),
    ],
)
def test_the_longest_attempt_that_completed_anything_counts(events, needed):
    fold, found = ReviewFold("g", CHECKED, str), ()
    for seq, event in enumerate(events, 1):
        rest = fold.take(seq, event)
        found = rest.models if rest is not None else found
    assert {one.model: one.needed for one in found} == needed


@pytest.mark.parametrize(
    ("config", "needed", "first", "later", "full_until"),
    [
        ("", 0, 10, 10, 10),
        ("", 2, 6, 10, 10),
        ("", 6, 9, 10, 10),
        ("", 10, 15, 15, 15),
        ("[attempts]\nadapt = false", 10, 10, 10, 10),
        ("[attempts]\niterations = 4", 10, 4, 4, 10),
        ('[context.models."small*"]\niterations = 7', 2, 7, 7, 10),
        ("[context]\nfull_until = 8", 10, 15, 15, 8),
    ],
)
def test_attempts_and_windows_follow_what_was_needed_unless_the_config_sets_them(
    config, needed, first, later, full_until
):
    agent = f'{config}\n[agents.a]\nmodel = "small"\nbase_url = "http://127.0.0.1:8080/v1"\n'
    settings = load(agent + '[agents]\ndefault = "a"\n', {}, "c.toml").settings
    state = State(turns_needed=needed)
    limits = attempt_limits(state, settings)
    assert [limits.turns(n) for n in (1, 2, 3)] == [first, later, later]
    context = settings_for(settings, settings.agents.get("a"), needed).context
    assert context.full_until == full_until < context.moderate_until < context.aggressive_until
    state.iteration = first
    assert iterations_used_up(state, limits)
    state.attempt.number = 2
    assert iterations_used_up(state, limits) is (first == later)


async def test_what_was_needed_is_recorded_once_with_the_review_and_outlives_the_goal(tmp_path):
    off = PlaybookSettings(enabled=False)
    ledger = Ledger.open(tmp_path / "ledger.db")
    goals = GoalStore(ledger, Settings())
    goals.listeners.clear()
    playbook = PlaybookStore(goals)
    await goals.accept(ev.GoalAccepted(goal_id="g-1", spec=CHECKED), b"goal")
    core = goals.cores["g-1"]
    with goals.entering(core):
        for event in (ev.GoalStarted(), ev.WorkerStarted(epoch=1), TURN, COMPLETED):
            core.emit(event)
    await goals.commit(core)
    for _ in range(2):
        if due := unreviewed_outcomes(ledger, core.state):
            await playbook.review(core, due, off)
    await goals.purge("g-1")
    assert list(recorded_needs(ledger.own("model_used", 100)).by_model[KEY]) == [2]
    await ledger.close(5)
