"""No line of an agent does more than raise a ProtocolError, and what is taken can be recorded."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew_shared.record import events as ev
from clew_shared.record.codec import decode, encode
from clew_shared.record.signature import signature
from clew_shared.wire import protocol

NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none())
TEXT = st.text(st.characters(), max_size=20)
JSON = st.recursive(
    st.one_of(NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=20,
)
METHODS = st.sampled_from(sorted(protocol.METHODS))
NAMES = sorted({name for model in protocol.METHODS.values() for name in model.model_fields})
PARAMS = st.one_of(JSON, st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6))


def taken(line):
    """Do with a line what the daemon does, up to the method itself; None where it is refused."""
    try:
        message = protocol.parse(line)
        request_id, method, raw = protocol.request(message)
        return request_id, method, protocol.params(method, raw)
    except protocol.ProtocolError as error:
        answer = protocol.error(error.request_id, error.code, str(error))
    assert len(answer) < protocol.LINE_BYTES_MAX
    return None


@given(st.binary(max_size=300))
@example(b'{"jsonrpc":"2.0","method":"act","id":1,"params":{"tool":"\\ud800"}}')
def test_any_bytes_are_a_message_or_a_protocol_error(line):
    taken(line)


@settings(deadline=None)
@given(method=METHODS, raw=PARAMS, request_id=st.one_of(JSON))
def test_any_params_are_taken_or_a_protocol_error(method, raw, request_id):
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": raw}
    taken(json.dumps(message).encode())


@settings(deadline=None)
@given(args=st.dictionaries(TEXT, JSON, max_size=4), workspace=st.sampled_from(["", "/w"]))
def test_any_args_that_are_taken_can_be_recorded_and_come_back_the_same(args, workspace):
    message = {"jsonrpc": "2.0", "id": 1, "method": "act", "params": {"tool": "t", "args": args}}
    found = taken(json.dumps(message).encode())
    if found is None:
        return  # NaN and infinities
    act = found[2]
    name = signature(act.tool, act.args, workspace)
    event = ev.ActionAllowed(epoch=1, tool=act.tool, args=act.args, signature=name)
    assert decode(encode(event)) == event
    assert signature(act.tool, decode(encode(event)).args, workspace) == name


@given(value=JSON)
def test_what_is_written_is_one_line(value):
    assert protocol.result(1, value).count(b"\n") == 1
