"""The rules of what is learned of models: which mode fits, what the next goal begins with, what is recorded."""

import pytest

from clew_daemon.learning.models import (
    continued,
    model_key,
    of_model,
)
from clew_shared.config.agent_tables import LlmAgentSettings, RunbookAgentSettings
from clew_shared.prompt.view import recorded_mode
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


# ---- across the epochs of a goal


def test_a_model_is_known_by_its_name_and_where_it_is_asked_without_what_opens_the_door():
    assert model_key(AGENT) == KEY
    assert of_model(Prompt(), AGENT).model == KEY
    assert of_model(Prompt(model="mine"), RunbookAgentSettings()).model == "mine"
    assert of_model(None, AGENT) is None


def test_a_goal_continues_with_its_own_last_report_unless_that_is_of_another_model():
    for own in (Prompt(chars_per_token=2.0), Prompt(model=KEY, mode="json")):
        assert continued(AGENT, own) is own
    assert continued(AGENT, Prompt(model="bigger@h", mode="json")) == Prompt(model=KEY)
    assert continued(AGENT, None) is None
    last = Prompt(model="any")
    assert continued(RunbookAgentSettings(), last) is last


def test_the_first_count_of_a_server_replaces_a_guess_and_moves_what_is_known():
    fresh, knowing = CallForm(), CallForm()
    fresh.resume(Prompt())
    knowing.resume(Prompt(model=KEY, chars_per_token=3.0))
    for meter in (fresh, knowing):
        meter.calibrate(2000, 1000)
    assert fresh.chars_per_token == 2.0
    assert knowing.chars_per_token == pytest.approx(2.7)
