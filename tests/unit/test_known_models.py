"""The rules of what is learned of models: which mode fits, what the next goal begins with, what is recorded."""

import pytest

from clew_daemon.learning.models import (
    continued,
    is_news,
    known_models,
    learned,
    model_key,
    of_model,
)
from clew_shared.config.agent_tables import LlmAgentSettings, RunbookAgentSettings
from clew_shared.prompt.view import recorded_mode
from clew_shared.record.codec import encode
from clew_shared.record.daemon_events import ModelKnown
from clew_shared.record.prompt_facts import CallForms, Prompt
from clew_shared.wire.hello import AgentOptions, HelloAnswer, HelloOptions, HelloState
from clew_worker.agent.completion import Completion, NativeCall
from clew_worker.agent.json_mode import ModelAnswer, ToolRequest
from clew_worker.agent.memory import CallForm

AGENT = LlmAgentSettings(model="small", base_url="http://me:secret@127.0.0.1:8080/v1")
KEY = "small@127.0.0.1:8080"
NATIVE = Completion(calls=(NativeCall("finish", "{}"),), served="small b1")
TEXT = Completion(text="...", served="small b1")
CALL = ModelAnswer((ToolRequest("finish"),))
BROKEN = ModelAnswer((ToolRequest("finish", fault="no JSON"),))
NOTHING = ModelAnswer()


@pytest.mark.parametrize(
    ("forms", "mode"),
    [
        (CallForms(), "tools"),
        (CallForms(native=1), "tools"),
        (CallForms(as_text=1), "json"),
        (CallForms(malformed=1), "json"),
        (CallForms(native=1, as_text=1), "tools"),
        (CallForms(native=30, as_text=1, malformed=2, absent=9), "tools"),
        (CallForms(native=1, as_text=1, malformed=1), "json"),
        (CallForms(absent=1), "tools"),
        (CallForms(absent=2), "json"),
        (CallForms(native=1, absent=3), "tools"),
        (CallForms(native=9, refused=1), "json"),
    ],
)
def test_json_fits_where_native_calls_fail_more_often_than_they_succeed(forms, mode):
    assert forms.mode == mode


@pytest.mark.parametrize(
    ("answers", "mode", "forms"),
    [
        ([(TEXT, CALL)], "json", CallForms(as_text=1)),
        ([(NATIVE, CALL), (TEXT, CALL)], "tools", CallForms(native=1, as_text=1)),
        ([(NATIVE, BROKEN)], "json", CallForms(malformed=1)),
        ([(TEXT, NOTHING), (TEXT, NOTHING)], "json", CallForms(absent=2)),
        ([(TEXT, CALL), (TEXT, CALL), (TEXT, NOTHING)], "json", CallForms(as_text=1)),
        ([(Completion(finish_reason="length"), NOTHING)] * 3, "tools", CallForms()),
    ],
)
def test_the_mode_follows_from_the_answers_to_offers_of_native_calls(answers, mode, forms):
    form = CallForm()
    for completion, answer in answers:
        form.answered(completion, answer, auto=True)
    report = Prompt.model_validate(form.report())
    assert (report.mode, report.forms) == (mode, forms)


def test_a_configured_mode_stays_and_its_answers_are_counted():
    form = CallForm()
    form.answered(TEXT, CALL, auto=False)
    assert form.mode == "tools"
    assert form.report()["forms"]["as_text"] == 1


def test_the_next_epoch_continues_with_mode_format_and_counts():
    form, again = CallForm(), CallForm()
    form.refused()
    form.rung = 2
    report = Prompt.model_validate(form.report())
    again.resume(report)
    again.mode = recorded_mode(hello("auto", report))
    assert again.report() == form.report()


def hello(mode, last):
    options = HelloOptions(agent=AgentOptions(mode=mode))
    return HelloAnswer(state=HelloState(prompt=last), options=options)


@pytest.mark.parametrize(
    ("asked", "last", "mode"),
    [
        ("auto", None, "tools"),
        ("auto", Prompt(mode="json"), "json"),
        ("auto", Prompt(mode="json", forms=CallForms(native=3)), "tools"),
        ("auto", Prompt(mode="tools", forms=CallForms(refused=1)), "json"),
        ("json", Prompt(mode="tools"), "json"),
        ("tools", Prompt(mode="json"), "tools"),
    ],
)
def test_a_new_epoch_begins_in_the_mode_that_fits_unless_one_is_configured(asked, last, mode):
    assert recorded_mode(hello(asked, last)) == mode


# ---- across goals


def report(**keys):
    return Prompt(**{"model": KEY, "served": "small b1", "chars_per_token": 3.0, **keys})


def taught(*reports, known=None):
    """Return what is known after these reports, each the first of its goal."""
    for at, one in enumerate(reports):
        known = learned(known, one, float(at), first=True)
    return known


IN_JSON = report(mode="json", forms=CallForms(as_text=1))


def test_a_model_is_known_by_its_name_and_where_it_is_asked_without_what_opens_the_door():
    assert model_key(AGENT) == KEY
    assert of_model(Prompt(), AGENT).model == KEY
    assert of_model(Prompt(model="mine"), RunbookAgentSettings()).model == "mine"
    assert of_model(None, AGENT) is None


def test_the_next_goal_begins_with_the_mode_the_format_and_the_size_of_tokens():
    known = taught(report(mode="json", forms=CallForms(as_text=1), rung=2))
    begin = continued(AGENT, None, {KEY: known})
    assert (begin.mode, begin.rung, begin.chars_per_token) == ("json", 2, 3.0)
    assert not begin.forms.seen


def test_another_server_or_version_begins_with_native_calls_and_the_known_tokens():
    known = taught(IN_JSON, report(mode="json", served="small b2"))
    assert (known.mode, known.chars_per_token) == ("tools", 3.0)


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ({}, False),
        ({"at": 99.0}, False),
        ({"chars_per_token": 3.1}, False),
        ({"chars_per_token": 3.2}, True),
        ({"mode": "tools"}, True),
        ({"rung": 1}, True),
    ],
)
def test_only_what_a_later_goal_would_do_differently_is_recorded(change, news):
    known = taught(IN_JSON)
    assert is_news(known, known.model_copy(update=change)) == news
    assert is_news(None, known)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (None, ("json", 3.0)),
        (Prompt(chars_per_token=2.0), ("tools", 2.0)),  # of an old ledger
        (Prompt(model=KEY, chars_per_token=2.0), ("tools", 2.0)),
        (Prompt(model="bigger@h", chars_per_token=2.0), ("json", 3.0)),
    ],
)
def test_a_goal_continues_with_its_own_last_report_unless_that_is_of_another_model(last, expected):
    found = continued(AGENT, last, {KEY: taught(IN_JSON)})
    assert (found.mode, found.chars_per_token) == expected


def test_nothing_is_known_of_a_model_that_was_never_asked():
    assert continued(AGENT, None, {}) is None
    assert continued(AGENT, Prompt(model="bigger@h", mode="json"), {}) == Prompt(model=KEY)
    last = Prompt(model="any")
    assert continued(RunbookAgentSettings(), last, {}) is last


def test_the_first_count_of_a_server_replaces_a_guess_and_moves_what_is_known():
    fresh, knowing = CallForm(), CallForm()
    fresh.resume(Prompt())
    knowing.resume(report())
    for meter in (fresh, knowing):
        meter.calibrate(2000, 1000)
    assert fresh.chars_per_token == 2.0
    assert knowing.chars_per_token == pytest.approx(2.7)


def test_the_last_record_of_each_model_is_read_from_the_ledger():
    events = [ModelKnown(model=m, goals=n, at=1.0) for m, n in (("a", 1), ("b", 1), ("a", 2))]
    bodies = [encode(event) for event in reversed(events)]
    assert {key: one.goals for key, one in known_models(bodies).items()} == {"a": 2, "b": 1}
