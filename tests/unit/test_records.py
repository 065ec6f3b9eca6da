"""What is read back of a subtask: the transcript."""

from tests.unit.test_hello import Record

from clew_daemon.record.transcript import TranscriptFold
from clew_shared.prompt.messages import warning
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.wire.hello import Call, Said
from clew_worker.agent.work import turn_of


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
