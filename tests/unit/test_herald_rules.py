"""The rules of `clew herald`: what is counted, what becomes a span, and what a person is told."""

import itertools
import random
import re
from datetime import datetime

import pytest

from clew_daemon.herald import notices, spans
from clew_daemon.herald.counters import VALUES_MAX, Counters, MetricSeries, counted
from clew_daemon.herald.notes import GoalNote
from clew_daemon.herald.quiet import quiet_until
from clew_daemon.herald.spans import Trace
from clew_daemon.session.cell_specs import WorkerTrace
from clew_shared.config.tables import NotifySettings
from clew_shared.record import events as ev
from clew_shared.record.prompt_facts import Prompt
from clew_shared.record.spec import Spec

GOAL = "say-hello-1a2b"
ON = NotifySettings().on
KEY = "ghp_abcdefghij0123456789"
ACCEPTED = ev.GoalAccepted(at=1.0, goal_id=GOAL, spec=Spec(description="Say hello", name="hello"))
QUESTION = ev.GoalBlocked(at=9.0, reason="the agent asked", question="Which name?")
ALLOWED = ev.ActionAllowed(at=4.0, epoch=1, tool="run_cmd", args={"cmd": "ls"}, signature="s")
FINISHED = ev.ActionFinished(at=5.0, of=4, result="success", outcome="o", head="a b")
REFUSED = ev.ActionBlocked(
    at=6.0, epoch=1, tool="run_cmd", args={}, signature="s", reason="repetition", message="no"
)
TURN = ev.Reflected(
    at=8.0,
    iteration=1,
    tokens=9,
    tokens_in=7,
    tokens_out=2,
    llm_s=1.5,
    prompt=Prompt(model="m@h:1"),
)
STARTED = ev.WorkerStarted(at=3.0, epoch=1, agent="default")
EXITED = ev.WorkerExited(at=10.0, epoch=1, reason="finished")
ENDED = ev.GoalEnded(at=9.5, status="completed")
LIFE = [ACCEPTED, ev.GoalStarted(at=2.0), STARTED, ALLOWED, FINISHED, REFUSED, TURN, ENDED, EXITED]


def note_of(*events):
    note = GoalNote()
    for seq, event in enumerate(events, 1):
        note.advance(event, seq)
    return note


def spans_of(events, *, contents=False):
    trace = Trace(goal=GOAL)
    return [s for n, e in enumerate(events, 1) for s in trace.advance(e, n, contents=contents)]


def test_a_blocked_goal_is_told_with_its_question_and_the_command_that_answers():
    found = notices.of_state(GOAL, note_of(ACCEPTED, QUESTION), ON)
    assert found.kind == "blocked"
    assert found.title == "clew: hello needs an answer"
    assert found.body.splitlines()[:2] == ["Which name?", f'Answer it: clew feedback {GOAL} "…"']


def test_a_goal_whose_folder_is_gone_is_answered_by_resume():
    gone = QUESTION.model_copy(update={"gone": True})
    assert f"clew continue {GOAL}" in notices.of_state(GOAL, note_of(ACCEPTED, gone), ON).body


def test_a_goal_that_is_blocked_after_a_crash_has_been_given_up():
    crash = ev.WorkerExited(at=8.0, epoch=1, reason="exit 3", crash=True)
    note = note_of(ACCEPTED, STARTED, crash, QUESTION)
    assert notices.of_state(GOAL, note, ON).kind == "gave_up"
    assert notices.of_state(GOAL, note, ["blocked"]).kind == "blocked"
    restarted = STARTED.model_copy(update={"epoch": 2})
    assert notices.of_state(GOAL, note_of(crash, restarted, QUESTION), ON).kind == "blocked"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (ENDED, "completed"),
        (ev.GoalEnded(status="failed"), "failed"),
        (ev.GoalEnded(status="cancelled"), None),
        (ev.GoalStarted(), None),
        (ev.GoalWaiting(reason="no endpoint", until=5.0), None),
        (EXITED.model_copy(update={"crash": True}), None),
    ],
)
def test_ends_are_told_and_restarts_are_not(event, kind):
    found = notices.of_state(GOAL, note_of(ACCEPTED, event), ON)
    assert (found and found.kind) == kind
    assert notices.of_state(GOAL, note_of(ACCEPTED, event), ["blocked"]) is None


def test_an_end_is_told_with_the_checks_that_passed_before_any_work():
    ended = ev.GoalEnded(status="completed", verified=True, passed_before=("lint", "Unit"))
    body = notices.of_state(GOAL, note_of(ACCEPTED, ended), ON).body
    assert "But checks lint, Unit passed before any work: they prove nothing." in body


def test_a_long_wait_is_told_once_however_often_it_is_tried_again():
    waits = [ev.GoalWaiting(at=60.0 * n, reason="no endpoint", until=60.0 * n) for n in range(90)]
    note = note_of(ACCEPTED, *waits)
    assert notices.of_wait(GOAL, note, 3599.0, ON) is None
    found = notices.of_wait(GOAL, note, 3600.0, ON)
    assert found.seq == 2
    note.told = note.first_seq
    assert notices.of_wait(GOAL, note, 9999.0, ON) is None


def test_a_pause_is_no_long_wait():
    note = note_of(ACCEPTED, ev.GoalWaiting(at=1.0, reason="paused", paused=True))
    assert notices.of_wait(GOAL, note, 99_999.0, ON) is None
    assert not note.needs_person


def test_a_message_holds_no_terminal_escape():
    asked = QUESTION.model_copy(update={"question": "Is \x1b[31mred\u202e right?"})
    found = notices.of_state(GOAL, note_of(ACCEPTED, asked), ON)
    assert "\x1b" not in found.body
    assert "\u202e" not in found.body


def test_no_message_holds_a_key():
    asked = QUESTION.model_copy(update={"question": f"Is {KEY} right?"})
    assert KEY not in notices.of_state(GOAL, note_of(ACCEPTED, asked), ON).body


@pytest.mark.parametrize(
    ("clock", "quiet", "until"),
    [
        ("21:59", "22:00-07:00", None),
        ("22:00", "22:00-07:00", "2026-11-24 07:00"),
        ("06:59", "22:00-07:00", "2026-11-23 07:00"),
        ("07:00", "22:00-07:00", None),
        ("12:30", "12:00-13:00", "2026-11-23 13:00"),
        ("13:00", "12:00-13:00", None),
        ("03:00", "", None),
    ],
)
def test_quiet_hours_end_at_their_next_end(clock, quiet, until):
    now = datetime.fromisoformat(f"2026-11-23 {clock}")
    found = quiet_until(now, quiet)
    assert (found and found.isoformat(" ", "minutes")) == until


@pytest.mark.parametrize("quiet", ["22:00", "25:00-07:00", "7-9", "07:00-07:00"])
def test_hours_that_are_none_are_refused(quiet):
    with pytest.raises(ValueError, match="must be hours"):
        NotifySettings(quiet=quiet)


def test_counters_are_those_of_the_events():
    counters, note = Counters({}), GoalNote()
    for seq, event in enumerate([*LIFE, ev.CheckFinished(name="c", passed=False)], 1):
        note.advance(event, seq)
        for series, count in counted(event, note):
            counters.add(series, count)
    assert {tuple(series): n for series, n in counters.values.items()} == {
        ("clew_actions_total", ("allowed", "success")): 1,
        ("clew_actions_total", ("blocked", "blocked")): 1,
        ("clew_refusals_total", ("repetition",)): 1,
        ("clew_checks_total", ("failed",)): 1,
        ("clew_llm_tokens_total", ("input", "default")): 7,
        ("clew_llm_tokens_total", ("output", "default")): 2,
    }


def test_a_counter_has_a_bounded_number_of_series():
    counters = Counters({})
    for number in range(2 * VALUES_MAX):
        counters.add(MetricSeries("clew_refusals_total", (f"reason {number}",)), 1)
    assert len(counters.values) == VALUES_MAX + 1
    assert sum(counters.values.values()) == 2 * VALUES_MAX


def test_spans_are_a_tree_of_goal_epoch_tool_and_call():
    spans = {span.name: span for span in spans_of(LIFE)}
    goal, epoch = spans["invoke_workflow hello"], spans["invoke_agent default"]
    assert (goal.parent, epoch.parent) == ("", goal.id)
    assert spans["chat m"].parent == spans["execute_tool run_cmd"].parent == epoch.id
    assert (spans["chat m"].start, spans["chat m"].end) == (6.5, 8.0)
    assert (goal.start, goal.end) == (1.0, 9.5)


def test_a_refused_action_is_an_error_with_its_reason():
    refused = next(span for span in spans_of(LIFE) if span.error)
    assert refused.attributes["clew.reason"] == "repetition"
    assert refused.attributes[spans.ERROR] == "blocked"


def test_spans_are_the_same_wherever_the_process_is_stopped_between_two_events():
    expected = [span.model_dump_json() for span in spans_of(LIFE)]
    for cut in range(len(LIFE)):
        trace, found = Trace(goal=GOAL), []
        for seq, event in enumerate(LIFE, 1):
            if seq - 1 == cut:
                trace = Trace.model_validate_json(trace.model_dump_json(exclude_defaults=True))
            found += [s.model_dump_json() for s in trace.advance(event, seq, contents=False)]
        assert found == expected


def test_the_same_numbers_in_another_ledger_give_other_spans():
    later = [event.model_copy(update={"at": event.at + 0.5}) for event in LIFE]
    assert not {s.id for s in spans_of(LIFE)} & {s.id for s in spans_of(later)}


def test_programs_are_told_the_span_that_the_herald_gives_what_they_run_in():
    trace = WorkerTrace.begun(GOAL, 1, 2.75)
    started = STARTED.model_copy(update={"span": trace.span})
    life = [*LIFE[:2], started, ALLOWED, FINISHED, EXITED]
    spans = {span.name: span for span in spans_of(life)}
    worker, action = spans["invoke_agent default"], spans["execute_tool run_cmd"]
    assert worker.id == action.parent == trace.span
    assert trace.of_worker() == {"TRACEPARENT": f"00-{worker.trace}-{worker.id}-01"}
    assert trace.of_action(4, ALLOWED.at) == {"TRACEPARENT": f"00-{worker.trace}-{action.id}-01"}
    given = trace.of_action(4, ALLOWED.at)["TRACEPARENT"]
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01", given)


def test_programs_of_a_worker_that_is_not_traced_are_told_nothing():
    assert WorkerTrace().of_worker() == WorkerTrace().of_action(3, 4.0) == {}


def test_two_workers_of_one_epoch_have_two_spans():
    """A daemon that died before it recorded the first one starts the same epoch again."""
    assert WorkerTrace.begun(GOAL, 1, 2.75).span != WorkerTrace.begun(GOAL, 1, 3.75).span


def test_no_two_spans_of_a_life_have_one_id_however_it_goes():
    chosen = random.Random(7)
    kinds = [*LIFE[1:], ev.GoalRequeued(by="retry"), ev.ActionInterrupted(of=4, reason="killed")]
    for _ in range(200):
        life = [ACCEPTED, *chosen.choices(kinds, k=30)]
        ids = [span.id for span in spans_of(life)]
        assert len(ids) == len(set(ids))


def test_an_epoch_without_an_end_is_closed_by_the_next_one():
    spans = spans_of([ACCEPTED, STARTED, STARTED.model_copy(update={"epoch": 2, "at": 7.0})])
    assert [(span.name, span.end, span.error) for span in spans] == [
        ("invoke_agent default", 7.0, "lost")
    ]


def test_contents_are_in_spans_only_where_they_are_wanted():
    names = {spans.TOOL_ARGUMENTS, spans.TOOL_RESULT, "clew.goal.description"}
    for wanted in (False, True):
        found = spans_of(LIFE, contents=wanted)
        given = set(itertools.chain.from_iterable(span.attributes for span in found))
        assert names & given == (names if wanted else set())


def test_contents_hold_no_key_and_are_short():
    args = {"cmd": f"curl -H 'X: {KEY}' " + "x" * 10_000}
    assert not spans_of(
        [ACCEPTED, STARTED, ALLOWED.model_copy(update={"args": args})], contents=True
    )
    trace = Trace(goal=GOAL)
    for seq, event in enumerate([ACCEPTED, STARTED, ALLOWED.model_copy(update={"args": args})], 1):
        trace.advance(event, seq, contents=True)
    text = trace.actions[3].attributes[spans.TOOL_ARGUMENTS]
    assert KEY not in text
    assert len(text) == 4_000
