"""Lines of the stream: whatever arrives is read, or refused as unreadable."""

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.reading.follow import News, read_line
from clew_shared.ledger.errors import SEQ_MAX
from clew_shared.ledger.reader import Cursor

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=20,
)


@given(st.binary() | values.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_read_or_refused(line):
    with suppress(ValueError):
        assert isinstance(read_line(line), News)


fields = st.dictionaries(st.text(), st.text() | st.integers()).map(lambda e: e | {"kind": "noted"})
events = st.fixed_dictionaries({"seq": st.integers(1, SEQ_MAX), "goal": st.text(), "event": fields})


@given(st.lists(events, max_size=5))
def test_events_arrive_as_they_were_sent(sent):
    line = json.dumps({"params": {"after": "7-", "events": sent}}).encode("utf-8", "replace")
    batch = read_line(line)
    assert batch.after == "7-"
    assert [(e.seq, e.goal, e.kind) for e in batch.events] == [
        (one["seq"], one["goal"], one["event"]["kind"]) for one in sent
    ]
    assert [json.loads(e.body) for e in batch.events] == [one["event"] for one in sent]


@given(st.text())
def test_any_text_is_a_cursor_or_refused(text):
    with suppress(ValueError):
        assert str(Cursor.parse(text)) == text
