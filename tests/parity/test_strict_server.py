"""What DualTrackContext builds is accepted by a server that checks everything, whatever it was built from."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from clew_worker import DualTrackContext

SYSTEM, QUESTION = "You are careful.", "Who is it?"
ROLES = ("system", "user", "assistant", "tool")

texts = st.one_of(st.none(), st.sampled_from(["", " ", QUESTION, SYSTEM, "a thought", "x" * 400]))
contents = st.one_of(texts, st.just([{"type": "text", "text": "in parts"}]), st.just([]))
ids = st.sampled_from(["a", "b", "c", "", None])


@st.composite
def messages(draw):
    """A message as an agent's list may have it: any role or none, any part of it missing."""
    roles = [*ROLES, "assistant", "tool", "developer", "function", None]
    message = {"role": draw(st.sampled_from(roles)), "content": draw(contents)}
    if draw(st.booleans()):
        message["tool_call_id"] = draw(ids)
    if draw(st.booleans()):
        function = {"name": "read", "arguments": "{}"}
        asked = draw(st.one_of(st.none(), st.lists(ids, max_size=3)))
        message["tool_calls"] = asked and [
            {"id": one, "type": "function", "function": function} for one in asked
        ]
    return {key: value for key, value in message.items() if key == "content" or value is not None}


def pair(name):
    call = {"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": "found"},
    ]


lists = st.lists(
    st.one_of(messages().map(lambda one: [one]), st.sampled_from("abc").map(pair)), max_size=12
).map(lambda parts: [message for part in parts for message in part])


def faults(built):
    """Say what a strict server would refuse."""
    found = [] if built[0] == {"role": "system", "content": SYSTEM} else ["no system prompt first"]
    found += ["a later system prompt"] * any(one["role"] == "system" for one in built[1:])
    waiting = Counter()
    for message in built:
        role, calls = message.get("role"), message.get("tool_calls")
        if role not in ROLES:
            found.append(f"role {role}")
        if role == "tool":
            if not waiting[message.get("tool_call_id")]:
                found.append("a result without its call")
            waiting[message.get("tool_call_id")] -= 1
        elif +waiting:
            found.append("a call without its result")
        if role == "assistant":
            waiting = Counter(call["id"] for call in calls or ())
        if calls == [] or not (message.get("content") or calls or role == "tool"):
            found.append(f"an empty message of {role}")
        if calls and role != "assistant":
            found.append(f"calls of {role}")
    found += ["a call without its result"] * bool(+waiting)
    return found + ["the assistant's word last"] * (built[-1]["role"] == "assistant")


@settings(deadline=None)
@given(
    listed=lists,
    history=lists,
    streamed=st.lists(messages(), max_size=3),
    thoughts=st.lists(texts, max_size=3),
    iteration=st.integers(0, 40),
    max_tokens=st.sampled_from([1, 60, 200, 8000]),
)
def test_every_built_list_would_be_accepted(
    listed, history, streamed, thoughts, iteration, max_tokens
):
    ctx = DualTrackContext(SYSTEM, QUESTION, history, max_tokens)
    for message in streamed:
        ctx.add_tool_result(message)
    for thought in thoughts:
        ctx.add_thinking(thought)
    built = ctx.build_optimized_messages(listed, iteration)
    assert faults(built) == []
    assert faults(ctx.build_optimized_messages(built, iteration)) == []


def test_a_result_that_names_no_role_is_the_tools():
    ctx = DualTrackContext(SYSTEM, QUESTION)
    ctx.add_tool_result({"content": "42!"})
    assert ctx.tool_results == [{"role": "tool", "content": "42!"}]
    assert "- 42!" in ctx.build_optimized_messages([], 1)[-1]["content"]


def test_an_assistant_that_says_and_asks_nothing_is_left_out():
    empty = [{"role": "assistant", "content": None}, {"role": "assistant", "content": " "}]
    none = {"role": "assistant", "content": "a thought", "tool_calls": []}
    built = DualTrackContext(SYSTEM, QUESTION).build_optimized_messages([*empty, none], 1)
    assert [one["content"] for one in built[2:-1]] == ["a thought"]
    assert "tool_calls" not in built[2]


def test_what_the_system_says_later_on_is_said_by_the_user():
    later = {"role": "system", "content": "Use metric units."}
    built = DualTrackContext(SYSTEM, QUESTION).build_optimized_messages(
        [later, *pair("a"), later], 17
    )
    assert [one["role"] for one in built].count("system") == 1
    assert {"role": "user", "content": "Use metric units."} in built


def test_no_word_is_put_in_twice_when_a_built_list_is_built_again():
    ctx = DualTrackContext(SYSTEM, QUESTION)
    built = ctx.build_optimized_messages([{"role": "assistant", "content": "a thought"}], 1)
    assert built[-1]["role"] == "user"
    assert ctx.build_optimized_messages(built, 1) == built
    assert ctx.build_optimized_messages([*built, *pair("a")], 1) == [*built[:-1], *pair("a")]
