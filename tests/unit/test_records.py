"""What is read back of a subtask: iteration records (section 9 of the contract) and the transcript."""

from tests.unit.test_hello import Record

from clew_daemon.record.iterations import IterationFold
from clew_shared.prompt.transcript import TranscriptFold, turn_of, warning
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.wire.hello import Call, Said

RECORD_KEYS = {
    "iteration", "timestamp", "mode", "tool_calls", "synthesis", "progress_assessment",
    "user_feedback",
}  # fmt: skip
CALL_KEYS = {
    "tool", "params", "raw_output", "outcome", "execution_time", "cost",
    "tool_selection_rationale", "insights", "learning", "relevance", "next_suggested_actions",
}  # fmt: skip


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


def transcript(record):
    fold = TranscriptFold(lambda seq: record.output(seq).decode(), 8000)
    for row in record.rows:
        fold.take(row.seq, decode(row.body))
    return fold.entries


def names(entries):
    return [e.args.get("cmd", e.name) if isinstance(e, Call) else e.text for e in entries]


def reflected(**fields):
    return ev.Reflected(iteration=1, **fields)


def test_of_an_agent_that_tells_nothing_actions_thoughts_and_warnings_stand_in_their_order():
    record = Record()
    record.add(ev.Thought(text="hm", theme="general", has_tool_calls=True))
    record.act("run_cmd", cmd="a")
    record.add(ev.Intervened(intervention="theme", message="act"))
    record.add(reflected())
    record.act("run_cmd", cmd="b")
    assert names(transcript(record)) == ["hm", "a", "Note: act", "b"]


def test_a_turn_that_was_told_of_stands_as_it_was_told():
    record = Record()
    record.add(ev.Thought(text="cut", theme="general", has_tool_calls=True))
    seq = record.act("run_cmd", cmd="a")
    entries = [Said("assistant", "the whole thought"), Call(seq, "run_cmd", {}, "success")]
    entries += [Call(-1, "finish", {"summary": "x"}, "error", "not yet"), warning("act")]
    record.add(reflected(turn=tuple(turn_of(entries))))
    found = transcript(record)
    assert names(found) == ["the whole thought", "a", "finish", "Note: act"]
    assert found[1].output == "out"
    assert found[3].warns
