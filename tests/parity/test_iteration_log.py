from datetime import UTC, datetime

import pytest

from clew_worker import IterationLog

CALL = {
    "tool": "search",
    "params": {"pattern": "flask logging"},
    "raw_output": "3 hits",
    "outcome": "success",
    "execution_time": 1.5,
    "cost": {"tokens": 120, "time": 1.5},
    "tool_selection_rationale": "faster than reading",
    "insights": "found setup docs",
    "learning": "werkzeug has its own logger",
    "relevance": "high",
    "next_suggested_actions": "read the docs",
}


def record(iteration=1, assessment="advancing", calls=(CALL,), **more):
    return {
        "iteration": iteration,
        "timestamp": "2026-01-01T00:00:00Z",
        "mode": "fast",
        "tool_calls": list(calls),
        "synthesis": "closer",
        "progress_assessment": assessment,
        "user_feedback": "",
        **more,
    }


def call(tool, relevance="medium", **more):
    return {"tool": tool, "relevance": relevance, **more}


def test_a_record_is_an_object_with_its_fields_as_attributes():
    log = IterationLog()
    assert log.add(record()) is None
    kept = log.records[0]
    assert kept.iteration == 1
    assert kept.timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert (kept.mode, kept.synthesis, kept.user_feedback) == ("fast", "closer", "")
    assert kept.progress_assessment == "advancing"
    for field, value in CALL.items():
        if field != "cost":
            assert getattr(kept.tool_calls[0], field) == value
    assert kept.tool_calls[0].cost.tokens == 120
    assert log.reasoning_context() == [
        "did search flask logging → found setup docs; werkzeug has its own logger"
    ]
    log.add(record(calls=[{"name": "read_file", "args": {"path": "a"}, "result": "text of a"}]))
    named = log.records[1].tool_calls[0]
    assert (named.tool, named.params, named.raw_output) == ("read_file", {"path": "a"}, "text of a")


def test_a_wrong_record_is_refused_with_every_fault_named_and_not_kept():
    log = IterationLog()
    with pytest.raises(ValueError, match="invalid iteration record") as caught:
        log.add(record("x", "sideways", calls=[{"tool": "t", "outcome": "great"}]))
    for place in ("iteration", "progress_assessment", "tool_calls.0.outcome"):
        assert place in str(caught.value)
    assert log.records == []


@pytest.mark.parametrize("assessments", [["stuck"] * 3, ["regressing", "stuck", "regressing"]])
def test_three_in_a_row_without_progress_give_a_prompt_that_names_what_was_tried(assessments):
    log = IterationLog()
    assert [log.add(record(n, name)) for n, name in enumerate(assessments[:2])] == [None, None]
    tried = call("run_cmd", params={"cmd": "make"}, outcome="error", raw_output="no rule")
    prompt = log.add(record(2, assessments[2], calls=[tried]))
    assert prompt.kind == "stuck"
    for part in ("recover", "search flask logging", "run_cmd make → found error: no rule"):
        assert part in prompt.message


def test_reasoning_context_goes_by_relevance_and_by_time_within_it():
    log = IterationLog()
    log.add(record(1, calls=[call("a", "low"), call("b", "high"), call("c")]))
    log.add(record(2, calls=[call("d", "high"), call("e", "low"), call("f")]))
    tools = [line.split()[1] for line in log.reasoning_context()]
    assert tools == ["b", "d", "c", "f", "a", "e"]
