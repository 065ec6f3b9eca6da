"""The worker protocol: framing, and the shape of every method's params."""

import pytest

from clew_shared.wire import protocol
from clew_shared.wire.protocol import ProtocolError


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b'{"method":"act"}',
        b'{"jsonrpc":"1.0","method":"act"}', b'{"jsonrpc":"2.0","x":NaN}', b'{"jsonrpc":"2.0","x":-Infinity}',
        b'{"jsonrpc":"2.0","x":1e999}', b'{"jsonrpc":"2.0","x":"\xed\xa0\x80"}',
        '{"jsonrpc":"2.0"}'.encode("utf-16"), b'{"jsonrpc":"2.0","x":' + b"9" * 5000 + b"}",
        b'{"jsonrpc":"2.0"} {}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(line):
    with pytest.raises(ProtocolError):
        protocol.parse(line)


def test_a_mebibyte_is_a_message_and_one_byte_more_is_not():
    start = b'{"jsonrpc":"2.0","x":"'
    line = start + b"x" * (protocol.LINE_BYTES_MAX - len(start) - 2) + b'"}'
    assert protocol.parse(line)
    with pytest.raises(ProtocolError):
        protocol.parse(line + b" ")


def nested(depth):
    return b'{"jsonrpc":"2.0","x":' + b"[" * depth + b"]" * depth + b"}"


def test_what_is_nested_too_deep_to_be_recorded_is_refused():
    assert protocol.parse(nested(protocol.DEPTH_MAX))
    with pytest.raises(ProtocolError, match="deep"):
        protocol.parse(nested(protocol.DEPTH_MAX + 1))


def test_lone_surrogates_become_question_marks():
    message = protocol.parse(rb'{"jsonrpc":"2.0","x":["\ud800a"],"\udfff":"\ud83d\ude00"}')
    assert message == {"jsonrpc": "2.0", "x": ["?a"], "?": "\N{GRINNING FACE}"}


GOOD = {
    "hello": {"protocol": 1, "agent": "a/1"},
    "heartbeat": {},
    "plan": {"tasks": [{"description": "t", "subtasks": [{"description": "s"}]}], "replan": None},
    "act": {"tool": "t", "args": {}},
    "propose": {"tool": "t", "args": {}},
    "outcome": {"seq": 1, "result": "success"},
    "record": {"tool": "t", "args": {}, "result": "failure", "output": "x", "changed": False},
    "think": {"text": "x", "has_tool_calls": True},
    "ask": {"question": "Which colour?"},
    "login": {"place": ".codex/auth.json", "text": "{}"},
    "reflect": {"iteration": 1, "progress_assessment": "stuck", "synthesis": "kept"},
    "complete_subtask": {"success": False, "failure": "x"},
    "advance": {},
    "learn": {"deltas": [{"op": "remove", "id": "fil-00001"}]},
    "check": {"within_s": 5},
    "finish": {"success": True, "summary": "x"},
    "llm_slot": {"open": True},
    "leave": {"kind": "temporary", "reason": "x"},
}


def test_every_method_has_an_example_here():
    assert set(GOOD) == set(protocol.METHODS)


@pytest.mark.parametrize("method", GOOD)
def test_the_params_of_every_method_are_taken_with_fields_of_later_versions(method):
    assert protocol.params(method, GOOD[method] | {"from_the_future": 1})


@pytest.mark.parametrize(
    ("method", "raw", "place"),
    [
        ("act", {}, "tool"),
        ("act", {"tool": "t", "args": []}, "args"),
        ("act", {"tool": ""}, "tool"),
        ("outcome", {"seq": 1, "result": "great"}, "result"),
        ("outcome", {"seq": "x", "result": "success"}, "seq"),
        ("outcome", {"seq": 1, "result": "success", "duration_s": -1}, "duration_s"),
        ("record", {"tool": "t", "result": "interrupted"}, "result"),
        ("plan", {"tasks": []}, "tasks"),
        ("plan", {"tasks": [{"description": "t", "subtasks": []}]}, "tasks.0.subtasks"),
        ("plan", {"tasks": GOOD["plan"]["tasks"], "replan": "person"}, "replan"),
        ("reflect", {"progress_assessment": "great"}, "progress_assessment"),
        ("finish", {}, "success"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(method, raw, place):
    with pytest.raises(ProtocolError, match=f"`{method}`: .*{place}"):
        protocol.params(method, raw)


def test_an_unknown_method_is_named_with_those_that_there_are():
    with pytest.raises(ProtocolError, match="no method `acts`; available: hello") as caught:
        protocol.params("acts", {})
    assert caught.value.code == protocol.METHOD_NOT_FOUND


def test_what_is_written_is_one_line_that_can_be_read():
    for line in (
        protocol.result(1, {"a": "x\ny"}),
        protocol.error("id", -1, "\ud800"),
        protocol.notification("stop", {"reason": "é"}),
    ):
        assert line.count(b"\n") == 1
        assert protocol.parse(line)["jsonrpc"] == "2.0"
