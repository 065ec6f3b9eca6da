import json

import pytest

from clew_worker import DualTrackContext, Windows

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


def assert_whole(messages):
    waiting = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert not waiting


@pytest.mark.parametrize("iteration", [5, 9])
def test_the_full_window_adds_only_the_marker_from_iteration_5(iteration):
    built = context().build_optimized_messages(research(), iteration)
    assert built[:-1] == research()
    assert built[-1]["content"].startswith(f"[PROGRESS: Iteration {iteration}/30 |")


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


@pytest.mark.parametrize("iteration", [0, 7, 12, 17, 25])
@pytest.mark.parametrize("max_tokens", [50, 300, 8000])
def test_system_first_question_kept_and_only_whole_pairs(iteration, max_tokens):
    ctx = context(conversation_history=history(), max_tokens=max_tokens)
    built = ctx.build_optimized_messages(research(30), iteration)
    assert built[0] == {"role": "system", "content": SYSTEM}
    assert [message["role"] for message in built].count("system") == 1
    assert contents(built).count(QUESTION) == 1
    assert_whole(built)


def test_orphans_in_the_list_are_never_passed_on():
    lone = {"role": "tool", "tool_call_id": "gone", "content": "lone"}
    open_call = pair(9, thought="about to read")[0]
    built = context().build_optimized_messages([*opening(), lone, *pair(1), lone, open_call], 3)
    said = {"role": "assistant", "content": "about to read"}
    assert built[:-1] == [*opening(), *pair(1), said]
    assert built[-1] == {"role": "user", "content": "[Continue: one tool call, or your answer.]"}


def test_a_result_known_only_to_the_stream_is_shown_as_text():
    ctx = context()
    ctx.add_tool_result({"role": "tool", "tool_call_id": "x", "name": "search", "content": "42!"})
    for iteration in (3, 12, 17, 22):
        built = ctx.build_optimized_messages(opening(), iteration)
        assert "search: 42!" in built[2]["content"]
        assert built[2]["role"] == "user"


def test_a_result_in_the_stream_and_in_the_list_is_shown_once():
    ctx = context()
    messages = research(2)
    for message in messages:
        if message["role"] == "tool":
            ctx.add_tool_result(message)
    assert ctx.build_optimized_messages(messages, 3) == messages


def test_a_built_list_can_be_built_again():
    ctx = context()
    messages = research(12)
    for message in messages:
        if message["role"] == "tool":
            ctx.add_tool_result(message)
        elif "tool_calls" not in message and message["role"] == "assistant":
            ctx.add_thinking(message["content"])
    for iteration in (6, 12, 12, 17, 17, 22, 22):
        messages = ctx.build_optimized_messages(messages, iteration)
        assert sum("[PROGRESS" in text for text in contents(messages)) == 1
        assert sum("[EARLIER RESULTS]" in text for text in contents(messages)) <= 1
        assert contents(messages).count(QUESTION) == 1
        again = ctx.build_optimized_messages(messages, iteration)
        assert again == messages


def test_the_last_thoughts_come_from_the_stream_when_the_list_has_none():
    ctx = context()
    for n in range(4):
        ctx.add_thinking(f"thought {n}", has_tool_calls=True)
    built = ctx.build_optimized_messages([*opening(), *pair(0)], 12)
    assert [text for text in contents(built) if "thought" in text] == ["thought 2", "thought 3"]
    built = ctx.build_optimized_messages([*opening(), *pair(0)], 16)
    assert not [text for text in contents(built) if "thought" in text]


def test_the_history_of_the_constructor_is_used_when_the_list_has_none():
    ctx = context(conversation_history=history())
    built = ctx.build_optimized_messages(opening(), 1)
    assert built == [opening()[0], *history(), opening()[1]]
    with_it = [opening()[0], *history(), opening()[1]]
    assert ctx.build_optimized_messages(with_it, 1) == with_it


def test_what_the_user_said_last_is_kept_at_every_stage():
    correction = {"role": "user", "content": "Use metric units."}
    for iteration in (3, 12, 17, 25):
        built = context(max_tokens=60).build_optimized_messages(
            [*research(), correction], iteration
        )
        assert correction in built


def test_of_the_users_words_only_the_last_stay_in_the_later_windows():
    first, last = ({"role": "user", "content": text} for text in ("In French.", "In metric units."))
    for iteration in (17, 25):
        messages = [*opening(), *pair(1), first, *pair(2), last, *pair(3)]
        built = context().build_optimized_messages(messages, iteration)
        assert first not in built
        assert last in built


def test_in_the_loop_of_the_design_only_the_urgency_of_this_iteration_is_shown():
    ctx, messages = context(), opening()
    for iteration in range(22):
        stuck = "no_progress" if iteration in (6, 12, 16, 17) else None
        if urgency := ctx.inject_urgency(iteration, stuck):
            messages.append({"role": "user", "content": urgency})
        if iteration >= 10:
            messages = ctx.build_optimized_messages(messages, iteration)
            shown = "\n".join(contents(messages))
            assert shown.count("Take action immediately") == bool(stuck)
            assert shown.count("[PROGRESS") == 1
            left = f"{30 - iteration} iterations"
            assert shown.count(" iterations left. ") + shown.count(" iterations remaining. ") == (
                iteration >= 15
            )
            assert (left in shown) == (iteration >= 15)
            assert messages == ctx.build_optimized_messages(messages, iteration)
        messages += pair(iteration, thought="thinking")
        ctx.add_tool_result(messages[-1])


def test_the_token_budget_cuts_in_the_full_window_too():
    ctx = context(max_tokens=600)
    messages = opening() + [m for n in range(40) for m in (thought(n), *pair(n, "x" * 200))]
    built = ctx.build_optimized_messages(messages, 2)
    assert len(json.dumps(built)) / 4 <= 600
    assert built[-1]["tool_call_id"] == "c39"
    assert not any("iterations left" in text for text in contents(built))
    assert_whole(built)


def test_an_output_larger_than_the_budget_is_shortened_in_its_middle():
    ctx = context(max_tokens=400)
    built = ctx.build_optimized_messages([*opening(), *pair(1, "begin" + "x" * 9000 + "end")], 2)
    (shown,) = results(built)
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert "characters left out" in shown
    assert len(json.dumps(built)) / 4 <= 400


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


def test_trimming_begins_at_iteration_10_or_beyond_the_token_budget():
    ctx = context(max_tokens=1000)
    assert [n for n in range(30) if ctx.should_trim_context(n)] == list(range(10, 30))
    ctx.add_tool_result({"role": "tool", "tool_call_id": "c", "content": "x" * 5000})
    assert ctx.should_trim_context(0)


def test_three_thoughts_of_one_theme_are_a_theme_loop():
    ctx = context()
    for text in ("I need to plan", "Let me plan my approach", "Planning to search"):
        assert ctx.detect_stuck_loop(1) is None
        ctx.add_thinking(text)
    assert ctx.detect_stuck_loop(3) == "theme_loop"


def test_three_thoughts_without_a_tool_are_repeated_planning():
    ctx = context()
    for text in ("Hm", "Well", "Sri Lanka is an island"):
        ctx.add_thinking(text)
    assert ctx.detect_stuck_loop(3) == "repeated_planning"


@pytest.mark.parametrize("first", [0, 1])
def test_no_progress_is_said_at_iteration_5_without_any_result(first):
    ctx = context()
    said = [n for n in range(first, 9) if ctx.detect_stuck_loop(n) == "no_progress"]
    assert said == [5, 6, 7, 8]


def test_the_thresholds_are_those_of_the_constructor():
    ctx = context(
        consecutive_threshold=2,
        theme_window=4,
        max_iterations=10,
        windows=Windows(
            full_until=2,
            moderate_until=3,
            aggressive_until=4,
            progress_from=1,
            iterations_without_facts=2,
        ),
    )
    assert ctx.detect_stuck_loop(1) is None
    assert ctx.detect_stuck_loop(2) == "no_progress"
    ctx.add_thinking("plan")
    ctx.add_thinking("plan")
    assert ctx.detect_stuck_loop(1) == "repeated_planning"
    ctx.add_thinking("plan")
    ctx.add_thinking("plan")
    assert ctx.detect_stuck_loop(1) == "theme_loop"
    assert not ctx.should_trim_context(1)
    assert ctx.should_trim_context(2)
    assert ctx.inject_urgency(3) == "[7 iterations left. Complete your answer.]"
    assert ctx.inject_urgency(4) == "[EMERGENCY: 6 iterations remaining. Synthesize NOW.]"
    assert "Iteration 1/10" in ctx.build_optimized_messages(opening(), 1)[-1]["content"]


@pytest.mark.parametrize("stuck_type", ["theme_loop", "repeated_planning", "no_progress"])
def test_every_way_of_being_stuck_has_a_text_that_asks_for_action(stuck_type):
    ctx = context()
    assert "Take action immediately" in ctx.inject_urgency(3, stuck_type)
    late = ctx.inject_urgency(16, stuck_type)
    assert "Take action immediately" in late
    assert "[14 iterations left. Complete your answer.]" in late


def thinking_research(steps):
    """Every call with a thought beside it, as models with `<think>` write them."""
    return opening() + [
        m for n in range(steps) for m in pair(n, thought=f"<think>idea {n}</think>")
    ]


def thoughts(messages):
    return [m["content"] for m in messages if m["role"] == "assistant" and m["content"]]


@pytest.mark.parametrize(
    ("iteration", "kept"), [(9, range(20)), (10, (18, 19)), (14, (18, 19)), (15, ()), (20, ())]
)
def test_thoughts_beside_calls_are_dropped_by_window(iteration, kept):
    ctx, messages = context(), thinking_research(20)
    for text in thoughts(messages):
        ctx.add_thinking(text, has_tool_calls=True)
    built = ctx.build_optimized_messages(messages, iteration)
    assert thoughts(built) == [f"<think>idea {n}</think>" for n in kept]
    shown = results(built)
    assert len(shown) == (3 if iteration >= 20 else 20)
    assert shown[-1] == "result 19"
    assert_whole(built)


def test_reasoning_that_a_server_gives_in_a_field_of_its_own_is_dropped_with_the_thoughts():
    call, result = pair(0)
    messages = [*opening(), {**call, "reasoning_content": "hm"}, result]
    assert context().build_optimized_messages(messages, 3) == messages
    built = context().build_optimized_messages(messages, 16)
    assert "reasoning_content" not in built[2]
    assert built[2]["tool_calls"] == call["tool_calls"]


def test_a_list_over_its_tokens_loses_thoughts_before_results():
    ctx = context(max_tokens=1400)
    messages = opening() + [m for n in range(8) for m in pair(n, thought=f"{n}" * 800)]
    built = ctx.build_optimized_messages(messages, 2)
    assert results(built) == [f"result {n}" for n in range(8)]
    assert len(thoughts(built)) == 2
