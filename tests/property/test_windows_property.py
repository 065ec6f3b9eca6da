import json
import math

from hypothesis import given
from hypothesis import strategies as st

from clew_shared.prompt.windows import window_at
from clew_worker.library.dual_track import DualTrackContext

IDS = st.sampled_from([f"c{n}" for n in range(6)])
TEXT = st.one_of(
    st.none(), st.text(max_size=300), st.text("ab\n", min_size=400, max_size=2000), st.just("Q")
)


def called(ids):
    return [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
    ]


TOOL = st.builds(lambda i, c: {"role": "tool", "tool_call_id": i, "content": c or ""}, IDS, TEXT)
CALL = st.builds(
    lambda ids, c: {"role": "assistant", "content": c, "tool_calls": called(ids)},
    st.lists(IDS, min_size=1, max_size=4),
    TEXT,
)
PLAIN = st.builds(
    lambda role, c: {"role": role, "content": c or ""},
    st.sampled_from(["user", "assistant", "system", "developer", "function"]),
    TEXT,
)
GROUP = st.builds(
    lambda ids, c, shift: [
        {"role": "assistant", "content": c, "tool_calls": called(ids)},
        *(
            {"role": "tool", "tool_call_id": i, "content": f"{c} {i}"}
            for i in (*ids[shift:], *ids[:shift])
        ),
    ],
    st.lists(IDS, min_size=1, max_size=4),
    TEXT,
    st.integers(0, 3),
)
PIECES = st.one_of(
    GROUP, GROUP, TOOL.map(lambda m: [m]), CALL.map(lambda m: [m]), PLAIN.map(lambda m: [m])
)
MESSAGES = st.lists(PIECES, max_size=25).map(lambda groups: [m for group in groups for m in group])
ITERATIONS = st.integers(0, 40)


def orphans(messages):
    waiting, found = [], []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                found.append(message)
        else:
            found += waiting
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    return found + waiting


@given(MESSAGES, ITERATIONS, st.integers(1, 3000), st.data())
def test_no_cut_of_any_list_orphans_a_call_or_a_result(messages, iteration, max_tokens, data):
    streamed = data.draw(st.lists(st.sampled_from(messages), max_size=5)) if messages else []
    context = DualTrackContext("SYSTEM", "Q", data.draw(MESSAGES), max_tokens=max_tokens)
    for message in streamed:
        context.add_tool_result(message)
    built = context.build_optimized_messages(messages, iteration)
    assert orphans(built) == []
    assert built[0] == {"role": "system", "content": "SYSTEM"}
    assert {"role": "user", "content": "Q"} in built


@given(MESSAGES, ITERATIONS, st.integers(400, 3000))
def test_the_built_list_fits_the_budget_when_what_must_stay_does(messages, iteration, max_tokens):
    messages = [*messages, {"role": "assistant", "content": "so be it"}]
    context = DualTrackContext("SYSTEM", "Q", max_tokens=max_tokens)
    built = context.build_optimized_messages(messages, iteration)
    assert sum(math.ceil(len(json.dumps(m, ensure_ascii=False)) / 3.5) for m in built) <= max_tokens


def test_the_default_windows_are_those_of_the_contract():
    names = [window_at(n).name for n in (0, 9, 10, 14, 15, 19, 20, 99)]
    assert names == ["FULL"] * 2 + ["MODERATE"] * 2 + ["AGGRESSIVE"] * 2 + ["EMERGENCY"] * 2
