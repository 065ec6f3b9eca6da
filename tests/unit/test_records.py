"""What is read back of a subtask: iteration records (section 9 of the contract) and the transcript."""

from clew_daemon.record.iterations import IterationFold
from clew_shared.prompt.transcript import TranscriptFold, turn_of, warning
from clew_shared.record import events as ev
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


class Record:
    """Events with numbers and outputs, as a ledger gives them."""

    def __init__(self):
        self.rows = []
        self.outputs = {}

    def add(self, event, output=""):
        seq = len(self.rows) + 1
        self.rows.append((seq, event))
        self.outputs[seq] = output
        return seq

    def act(self, cmd="ls", output="out", result="success"):
        args = {"cmd": cmd}
        seq = self.add(ev.ActionAllowed(epoch=1, tool="run_cmd", args=args, signature=cmd))
        self.add(ev.ActionFinished(of=seq, result=result, outcome="x"), output)
        return seq

    def read(self, max_tokens=8000):
        fold = TranscriptFold(self.outputs.__getitem__, max_tokens)
        for seq, event in self.rows:
            fold.take(seq, event)
        return fold


def names(entries):
    return [e.args.get("cmd", e.name) if isinstance(e, Call) else e.text for e in entries]


def reflected(**fields):
    return ev.Reflected(iteration=1, **fields)


def test_of_an_agent_that_tells_nothing_actions_thoughts_and_warnings_stand_in_their_order():
    record = Record()
    record.add(ev.Thought(text="hm", theme="general", has_tool_calls=True))
    record.act("a")
    record.add(ev.Intervened(intervention="theme", message="act"))
    record.add(reflected())
    record.act("b")
    assert names(record.read().entries) == ["hm", "a", "Note: act", "b"]


def test_a_turn_that_was_told_of_stands_as_it_was_told():
    record = Record()
    record.add(ev.Thought(text="cut", theme="general", has_tool_calls=True))
    seq = record.act("a")
    entries = [Said("assistant", "the whole thought"), Call(seq, "run_cmd", {}, "success")]
    entries += [Call(-1, "finish", {"summary": "x"}, "error", "not yet"), warning("act")]
    record.add(reflected(turn=tuple(turn_of(entries))))
    found = record.read().entries
    assert names(found) == ["the whole thought", "a", "finish", "Note: act"]
    assert found[1].output == "out"
    assert found[3].warns
