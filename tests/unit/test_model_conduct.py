"""How models make their calls, from the record: what is counted, over which goals, and what is advised."""

import pytest

from clew_daemon.learning.advice import suggestions
from clew_daemon.learning.conduct import RECENT_GOALS, ConductFold, ModelConduct, conducts
from clew_daemon.learning.playbook import PlaybookStore
from clew_daemon.learning.reviewer import unreviewed_outcomes
from clew_daemon.record.goals import GoalStore
from clew_shared.config.settings import Settings, load
from clew_shared.config.suggestion import suggested_lines
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.codec import encode
from clew_shared.record.daemon_events import CallCounts, ModelUsed
from clew_shared.record.prompt_facts import CallForms, Prompt
from clew_shared.record.spec import Spec

AT = 1_790_000_000.0
KEY = "small@127.0.0.1:8080"
COMPLETED, FAILED = ev.GoalEnded(status="completed"), ev.GoalEnded(status="failed")


def folded(*events, after=0):
    """Return what models did up to the last rest of these events, which get the numbers 1, 2, 3, …"""
    fold, found = ConductFold("g-1", after), None
    for seq, event in enumerate(events, start=1):
        found = fold.take(seq, event) or found
    return found


def counted(*events, after=0):
    """Return the counts of the one model in these events."""
    (one,) = folded(*events, COMPLETED, after=after)
    return one.counts


def started(epoch=1):
    return ev.WorkerStarted(epoch=epoch)


def turn(model=KEY, **forms):
    return ev.Reflected(iteration=1, prompt=Prompt(model=model, forms=CallForms(**forms)))


def allowed(cmd="ls", epoch=1, tool="run_cmd"):
    args = {"cmd": cmd}
    return ev.ActionAllowed(epoch=epoch, tool=tool, args=args, signature=f"{tool}::{cmd}")


def finished(of, outcome="one", **keys):
    return ev.ActionFinished(of=of, result="success", outcome=outcome, **keys)


def refused(reason="repetition"):
    keys = {"tool": "run_cmd", "args": {}, "signature": "s", "message": "no"}
    return ev.ActionBlocked(epoch=1, reason=reason, **keys)


def test_a_call_that_brings_the_same_again_in_an_unchanged_world_is_a_repeat():
    again = [allowed(), finished(1), allowed(), finished(3), turn()]
    assert counted(*again) == CallCounts(turns=1, calls=2, repeated=1)


@pytest.mark.parametrize(
    "events",
    [
        [allowed(), finished(1), allowed(), finished(3, "other")],
        [
            allowed(),
            finished(1),
            allowed("touch x"),
            finished(3, changed=True),
            allowed(),
            finished(5),
        ],
        [allowed(), finished(1, changed=True), allowed(), finished(3, changed=True)],
        [allowed(), finished(1), ev.WorldSeen(world="w"), allowed(), finished(4)],
        [
            allowed(),
            finished(1),
            ev.SubtaskStarted(task_idx=0, subtask_idx=1),
            allowed(),
            finished(4),
        ],
        [allowed(), finished(1), ev.AttemptStarted(attempt=2, reason="x"), allowed(), finished(4)],
        [allowed(), finished(1, soft=True), allowed(), finished(3, soft=True)],
        [allowed("5", tool="wait"), finished(1), allowed("5", tool="wait"), finished(3)],
    ],
)
def test_what_changes_waits_or_answers_otherwise_is_no_repeat(events):
    assert counted(*events, turn()).repeated == 0


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        ("repetition", (1, 1)),
        ("blocked_action", (1, 1)),
        ("cycle", (1, 1)),
        ("budget", (0, 0)),
        ("stopped", (0, 0)),
        ("replan_required", (0, 0)),
    ],
)
def test_a_refusal_counts_if_it_is_about_the_call(reason, counts):
    found = counted(started(), refused(reason), turn())
    assert (found.calls, found.refused) == counts


def test_answers_to_offers_of_native_calls_are_counted_once_though_each_turn_reports_all():
    found = counted(turn(native=1), turn(native=1, malformed=1), turn(native=3, malformed=1))
    assert (found.native, found.malformed, found.turns) == (3, 1, 3)


def test_after_another_model_the_counts_of_its_answers_begin_again():
    other = turn("other@h", native=5)
    both = folded(started(1), turn(native=2), started(2), other, COMPLETED)
    assert [(one.model, one.counts.native) for one in both] == [(KEY, 2), ("other@h", 5)]


def test_a_retried_goal_does_not_count_again_what_its_last_review_counted():
    rests = [turn(native=2, malformed=1), turn(native=3, malformed=1)]
    assert counted(*rests, after=7).native == 1


def test_calls_belong_to_the_model_of_their_worker_and_to_none_where_no_turn_was_reported():
    events = [started(1), allowed(), turn(), started(2), allowed(epoch=2), allowed(epoch=2)]
    (one,) = folded(*events, FAILED)
    assert (one.model, one.counts.calls, one.completed, one.goal) == (KEY, 1, False, "g-1")
    assert folded(started(1), allowed(), COMPLETED) is None


def used(goal, completed=True, model=KEY, **counts):
    return encode(
        ModelUsed(model=model, goal=goal, completed=completed, counts=CallCounts(**counts))
    )


def test_the_last_goals_of_each_model_count_each_with_all_its_rests():
    bodies = [used(f"g-{n}", calls=1, turns=n) for n in range(30, 0, -1)]
    bodies.insert(1, used("g-30", completed=False, calls=4, turns=9))
    bodies.append(used("old", model="other@h", calls=7))
    known = conducts(bodies)
    one = known[KEY]
    assert (one.goals, one.completed, one.counts.calls) == (RECENT_GOALS, 20, RECENT_GOALS + 4)
    assert known["other@h"].counts.calls == 7


CONFIG = '[agents.small]\nmodel = "small"\nbase_url = "http://127.0.0.1:8080/v1"\n'


def advised(text=CONFIG, goals=8, only=None, **counts):
    known = {KEY: ModelConduct(KEY, goals, 0, CallCounts(**counts))}
    return suggestions(known, load(text, {}, "c.toml").settings, only)


GOOD = {"calls": 100, "refused": 2, "repeated": 3, "native": 100}
CIRCLING = {"calls": 100, "refused": 15, "repeated": 15, "native": 100}
BROKEN = {"calls": 80, "native": 80, "malformed": 20}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (GOOD, []),
        (BROKEN, [("mode", "json")]),
        (CIRCLING, [("temperature", 0.4), ("iterations", 6), ("attempts", 5)]),
        (CIRCLING | {"goals": 2}, []),
        ({"calls": 20, "refused": 20}, []),
        ({"calls": 30, "refused": 7}, []),
        (CIRCLING | {"only": ["other", "runbook"]}, []),
        (CIRCLING | {"only": [""]}, []),
    ],
)
def test_advice_needs_enough_calls_and_a_share_that_is_surely_too_large(keys, expected):
    assert [(one.key, one.value) for one in advised(**keys)] == expected


def test_the_reason_of_an_advice_is_in_figures():
    mode, warm, short, more = advised(**ALL)
    assert mode.reason == "20 of 100 native calls of its last 8 goals could not be read"
    wasted = "30 of 100 calls of its last 8 goals were refused as loops (15) or repeated (15)"
    assert warm.reason == f"{wasted}, at temperature 0.2"
    assert short.reason == f"{wasted}, in attempts of up to 10 turns"
    assert more.reason == "5 attempts of 6 are 30 turns, 3 of 10 are 30"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("[attempts]\niterations = 6\n", ["temperature"]),
        ("[attempts]\nlimit = 6\n", ["temperature", "iterations"]),
        ('[context.models."sm*"]\ntemperature = 1.0\n', ["iterations", "attempts"]),
        ('[context.models."sm*"]\ntemperature = 1.0\niterations = 4\n', []),
    ],
)
def test_what_is_set_already_is_not_advised(more, expected):
    assert [one.key for one in advised(CONFIG + more, **CIRCLING)] == expected


ALL = CIRCLING | BROKEN | {"calls": 100}


@pytest.mark.parametrize(
    ("more", "table"),
    [
        ("", '[context.models."small*"]'),
        ('[context.models."SMALL"]\nmax_tokens = 4000\n', '[context.models."SMALL"]'),
        ('[context.models."small*"]\nmax_tokens = 4000\n', '[context.models."small*"]'),
        ('[context.models."sm*"]\ntemperature = 0.1\n', '[context.models."small*"]'),
    ],
)
def test_advised_lines_are_valid_take_effect_and_are_not_advised_again(more, table):
    found = advised(CONFIG + more, **ALL)
    head, *keys = suggested_lines(found)
    assert head.startswith(table)
    assert keys == ['mode = "json"', "temperature = 0.4", "iterations = 6", "attempts = 5"]
    text = CONFIG + more
    added = "\n".join(keys) + "\n"
    text = (
        text.replace(f"{table}\n", f"{table}\n{added}")
        if table in text
        else f"{text}{table}\n{added}"
    )
    assert advised(text, **ALL) == []


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        ("other:70b", ["temperature", "iterations", "attempts"]),
        ("mistral-small:24b", ["iterations", "attempts"]),
        ("llama3.2:1b", []),
    ],
)
def test_a_temperature_is_left_alone_where_a_built_in_profile_knows_better(model, keys):
    text = CONFIG.replace('model = "small"', f'model = "{model}"')
    key = f"{model}@127.0.0.1:8080"
    known = {key: ModelConduct(key, 8, 0, CallCounts(**CIRCLING))}
    found = suggestions(known, load(text, {}, "c.toml").settings)
    assert [one.key for one in found] == keys


def test_what_the_agents_own_table_sets_is_advised_there():
    found = advised(CONFIG + 'mode = "tools"\ntemperature = 0.0\n', **ALL)
    assert suggested_lines(found) == [
        "[agents.small]  # your config has this table already",
        'mode = "json"',
        "temperature = 0.4",
        '[context.models."small*"]',
        "iterations = 6",
        "attempts = 5",
    ]


@pytest.mark.parametrize("model", ["q[4]*?", 'a"b', "Org/Model-7B:q4", "ünï"])
def test_odd_names_of_models_give_profiles_that_match_them(model):
    base = {"agents": {"a": {"model": model, "base_url": "http://127.0.0.1:8080/v1"}}}
    settings = Settings.model_validate({"agents": {"named": base["agents"]}})
    key = f"{model}@127.0.0.1:8080"
    known = {key: ModelConduct(key, 8, 0, CallCounts(**BROKEN))}
    lines = suggested_lines(suggestions(known, settings))
    read = load("\n".join(lines), {}, "c.toml").settings
    again = settings.model_copy(update={"context": read.context})
    assert suggestions(known, again) == []


def test_each_model_is_advised_once_though_two_agents_use_it():
    other = '[agents.tiny]\nmodel = "small"\nbase_url = "http://127.0.0.1:8080/v1"\n'
    assert len(advised(CONFIG + other, **BROKEN)) == 1


# ---- on record


async def test_the_counts_of_a_goal_are_recorded_once_with_its_review_also_without_a_playbook(
    tmp_path,
):
    off = Settings(playbook={"enabled": False}).playbook
    ledger = Ledger.open(tmp_path / "ledger.db")
    goals = GoalStore(ledger, Settings())
    goals.listeners.clear()
    playbook = PlaybookStore(goals)
    await goals.accept(ev.GoalAccepted(at=AT, goal_id="g-1", spec=Spec(description="x")), b"goal")
    core = goals.cores["g-1"]
    with goals.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.emit(started())
        core.start(AT)
        core.propose("run_cmd", {"cmd": "ls"}, AT)
        core.emit(turn(native=1))
        core.emit(COMPLETED)
    await goals.commit(core)
    for _ in range(2):
        if due := unreviewed_outcomes(ledger, core.state):
            await playbook.review(core, due, off)
    known = conducts(ledger.used_models(100))
    await goals.purge("g-1")
    assert conducts(ledger.used_models(100)) == known
    assert known[KEY].counts == CallCounts(turns=1, calls=1, native=1)
    assert known[KEY].goals == 1
    await ledger.close(5)
