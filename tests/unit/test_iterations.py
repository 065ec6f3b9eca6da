"""Iteration records put together from events, as section 9 of the contract has them."""

import pytest

from clew_daemon.record.iterations import IterationFold
from clew_shared.record import events as ev

RECORD_KEYS = {
    "iteration", "timestamp", "mode", "tool_calls", "synthesis", "progress_assessment",
    "user_feedback",
}  # fmt: skip
CALL_KEYS = {
    "tool", "params", "raw_output", "outcome", "execution_time", "cost",
    "tool_selection_rationale", "insights", "learning", "relevance", "next_suggested_actions",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The library's log is kept in the current folder."""
    monkeypatch.chdir(tmp_path)


def records_of(events):
    fold = IterationFold()
    found = [fold.take(seq, event) for seq, event in enumerate(events, start=1)]
    return [record for record in found if record]


def turn(*tools, hindsight=(), assessment="", **record):
    told = [{"tool": name, "params": {"n": 1}, "raw_output": "out"} for name in tools]
    return ev.Reflected(
        at=1_790_000_000.0,
        iteration=0,
        assessment=assessment,
        record={"tool_calls": told, **record},
        hindsight=hindsight,
    )


def found(*records):
    return [[call["insights"] for call in record["tool_calls"]] for record in records]


def test_a_record_has_every_field_of_the_contract_and_empty_ones_where_nothing_was_said():
    (record,) = records_of([turn("look")])
    assert set(record) == RECORD_KEYS
    (call,) = record["tool_calls"]
    assert set(call) == CALL_KEYS
    assert record["timestamp"].startswith("2026-09-21T")
    assert (record["iteration"], record["mode"], record["progress_assessment"]) == (1, "fast", "")
    assert (call["outcome"], call["relevance"], call["insights"]) == ("success", "medium", "")
    assert call["cost"] == {"tokens": 0, "time": 0.0}


def test_synthesis_and_assessment_are_put_to_the_turn_that_they_are_about():
    def part(synthesis, assessment):
        return {"synthesis": synthesis, "assessment": assessment}

    def later(*tools, synthesis, assessment):
        hindsight = (part(synthesis, assessment),)
        return turn(*tools, hindsight=hindsight, assessment=assessment, synthesis=synthesis)

    records = records_of(
        [
            turn("look"),
            later("list", synthesis="it is empty", assessment="stuck"),
            later(synthesis="it is there", assessment="advancing"),
            turn("write", assessment="stuck", hindsight=({"insights": "a"},)),
        ]
    )
    said = [(r["synthesis"], r["progress_assessment"]) for r in records]
    assert said == [("it is empty", "stuck"), ("it is there", "advancing"), ("", ""), ("", "stuck")]
