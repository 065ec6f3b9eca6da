import json
import math

from hypothesis import given
from hypothesis import strategies as st

from clew_shared.prompt.windows import Windows, is_marker
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


def without_marker(text):
    """Return a text without the marker at its end, after an empty line."""
    before, gap, last = text.rpartition("\n\n")
    return before if gap and is_marker(last) else text


def without_markers(messages):
    return [message for message in messages if not is_marker(message["content"] or "")]


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


@given(MESSAGES, ITERATIONS)
def test_building_is_deterministic_and_leaves_its_input_alone(messages, iteration):
    before = json.dumps(messages)
    first = DualTrackContext("S", "Q").build_optimized_messages(messages, iteration)
    second = DualTrackContext("S", "Q").build_optimized_messages(messages, iteration)
    assert first == second
    assert json.dumps(messages) == before


WORDS = st.sampled_from(["", "hm", "<think>plan</think> go", "found it " * 9, "x" * 400])
STEPS = st.tuples(st.sampled_from(["call", "two calls", "thought", "user"]), WORDS, WORDS)


def step(number, kind, words, output):
    """Return the messages of one step: a call with a thought beside it, a thought alone, or a user's words."""
    if kind in ("thought", "user"):
        return [{"role": "assistant" if kind == "thought" else "user", "content": words or "?"}]
    ids = [f"c{number}", f"d{number}"][: 2 if kind == "two calls" else 1]
    call = {"role": "assistant", "content": words or None, "tool_calls": called(ids)}
    return [call, *({"role": "tool", "tool_call_id": i, "content": output} for i in ids)]


@given(st.lists(STEPS, max_size=12), st.integers(10, 40), st.integers(1, 3000))
def test_a_cut_list_is_never_longer_than_the_list_that_it_was_cut_from(
    steps, iteration, max_tokens
):
    context = DualTrackContext("SYSTEM", "Q", max_tokens=max_tokens)
    opening = [{"role": "system", "content": "SYSTEM"}, {"role": "user", "content": "Q"}]
    work = [step(n, *parts) for n, parts in enumerate([*steps, ("call", "then", "the end")])]
    messages = [*opening, *(message for one in work for message in one)]
    for message in messages:
        if message["role"] == "tool":
            context.add_tool_result(message)
        elif message["role"] == "assistant":
            context.add_thinking(message["content"], bool(message.get("tool_calls")))
    built = context.build_optimized_messages(messages, iteration)
    assert len(without_markers(built)) <= len(messages)
    shown = [{**m, "content": without_marker(m["content"] or "")} for m in without_markers(built)]
    assert sum(map(context.windows.tokens, shown)) <= sum(map(context.windows.tokens, messages))
    assert len(json.dumps(shown)) <= len(json.dumps(messages))
    thoughts = [m for m in shown if m["role"] == "assistant" and m["content"].strip()]
    assert len(thoughts) <= (2 if iteration < 15 else 0)


@given(MESSAGES, ITERATIONS)
def test_building_twice_changes_nothing_more(messages, iteration):
    context = DualTrackContext("S", "Q")
    once = context.build_optimized_messages(
        [*messages, {"role": "assistant", "content": "x"}], iteration
    )
    twice = context.build_optimized_messages(once, iteration)
    assert without_markers(twice) == without_markers(once)


@given(st.integers(0, 60))
def test_windows_only_grow_stricter(iteration):
    assert Windows().at(iteration) <= Windows().at(iteration + 1)


def test_the_default_windows_are_those_of_the_contract():
    names = [Windows().at(n).name for n in (0, 9, 10, 14, 15, 19, 20, 99)]
    assert names == ["FULL"] * 2 + ["MODERATE"] * 2 + ["AGGRESSIVE"] * 2 + ["EMERGENCY"] * 2
