import pytest

from clew_worker import DualTrackContext

SYSTEM = "You are careful.\nAlways answer."
QUESTION = "Who is the president of Sri Lanka?"


def context(**more):
    return DualTrackContext(SYSTEM, QUESTION, **more)


def pair(number, text=None, thought=None):
    call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": thought, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text or f"result {number}"},
    ]


def thought(number):
    return {"role": "assistant", "content": f"thought {number}"}


def opening():
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]


def history(exchanges=4):
    return [
        {"role": role, "content": f"{role} said {n}"}
        for n in range(exchanges)
        for role in ("user", "assistant")
    ]


def research(steps=8):
    return opening() + [m for n in range(steps) for m in (thought(n), *pair(n))]


def contents(messages):
    return [message["content"] for message in messages if message["content"]]


def results(messages):
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize("iteration", [10, 14])
def test_the_moderate_window_keeps_results_two_exchanges_and_two_thoughts(iteration):
    messages = [opening()[0], *history(), opening()[1], *research()[2:]]
    built = context().build_optimized_messages(messages, iteration)
    assert results(built) == [f"result {n}" for n in range(8)]
    assert [text for text in contents(built) if text.startswith("thought")] == [
        "thought 6",
        "thought 7",
    ]
    said = [text for text in contents(built) if " said " in text]
    assert said == ["user said 2", "assistant said 2", "user said 3", "assistant said 3"]


@pytest.mark.parametrize("iteration", [15, 19])
def test_the_aggressive_window_keeps_results_and_drops_thoughts_and_history(iteration):
    messages = [opening()[0], *history(), opening()[1], *research()[2:]]
    built = context().build_optimized_messages(messages, iteration)
    assert results(built) == [f"result {n}" for n in range(8)]
    assert not any("thought" in text or " said " in text for text in contents(built))
    assert f"[{30 - iteration} iterations left. Complete your answer.]" in built[-1]["content"]


@pytest.mark.parametrize("iteration", [20, 27, 35])
def test_the_emergency_window_keeps_the_last_three_results(iteration):
    built = context().build_optimized_messages(research(), iteration)
    assert results(built) == ["result 5", "result 6", "result 7"]
    left = max(0, 30 - iteration)
    urgency = f"[EMERGENCY: {left} iterations remaining. Synthesize NOW.]"
    assert urgency in built[-1]["content"]
    assert built[:2] == opening()


def test_a_result_in_the_stream_and_in_the_list_is_shown_once():
    ctx = context()
    messages = research(2)
    for message in messages:
        if message["role"] == "tool":
            ctx.add_tool_result(message)
    assert ctx.build_optimized_messages(messages, 3) == messages


def test_the_marker_has_the_agreed_form_and_leaves_the_system_prompt_alone():
    ctx = context()
    for n in range(3):
        ctx.add_tool_result(pair(n)[1])
    ctx.research_context["pages_read"] = 2
    built = ctx.build_optimized_messages([*opening(), *pair(0), *pair(1), *pair(2)], 7)
    assert built[-1] == {
        "role": "user",
        "content": "[PROGRESS: Iteration 7/30 | 3 tools used | 2 pages read]",
    }
    assert built[0]["content"] == SYSTEM


@pytest.mark.parametrize(("pages", "read"), [(["a", "b"], 2), (2, 2), ("two", 0), (None, 0)])
def test_the_marker_counts_pages_that_are_listed_or_numbered(pages, read):
    ctx = context()
    ctx.research_context["pages_read"] = pages
    assert f"| {read} pages read]" in ctx.build_optimized_messages(opening(), 7)[-1]["content"]


@pytest.mark.parametrize(
    ("thoughts", "acts", "stuck"),
    [
        (["The planet Mars", "A planet again", "Planets all"], True, None),
        (["I plan to do it", "Let me plan first", "A plan"], True, "theme_loop"),
        (["One", "Two", "Three"], False, "repeated_planning"),
    ],
)
def test_thoughts_of_one_theme_or_without_a_tool_are_a_loop(thoughts, acts, stuck):
    ctx = context()
    for text in thoughts:
        ctx.add_thinking(text, has_tool_calls=acts)
    assert ctx.detect_stuck_loop(3) == stuck
    assert ctx.detect_stuck_loop(8) == (stuck or "no_progress")


def test_what_a_stuck_agent_was_told_last_is_said_once():
    ctx, messages = context(), research(2)
    for _ in range(2):
        said = ctx.inject_urgency(3, "repeated_planning")
        messages = ctx.build_optimized_messages([*messages, {"role": "user", "content": said}], 3)
    assert [text for text in contents(messages) if "Take action" in text] == [said]
    assert messages[-1]["content"] == said
    again = ctx.build_optimized_messages([*messages, *pair(3)], 3)
    assert not any("Take action" in text for text in contents(again))


def test_markers_of_an_earlier_process_are_left_out_and_all_that_was_said_last_stays():
    before = context().build_optimized_messages(research(2), 7)
    said = [{"role": "user", "content": text} for text in ("also this", "and that")]
    built = contents(context().build_optimized_messages([*before, *pair(3), *said], 16))
    assert sum("[PROGRESS:" in text for text in built) == 1
    assert {"also this", "and that"} <= {*built}
