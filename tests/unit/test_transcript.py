"""The transcript of a subtask, read back from events."""

from clew_shared.prompt.transcript import TranscriptFold, turn_of, warning
from clew_shared.record import events as ev
from clew_shared.wire.hello import Call, Said


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
