import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_prompt import view_of

from clew_shared.prompt.compact import compact_context
from clew_shared.prompt.layout import lay_out
from clew_shared.prompt.view import PromptView
from clew_shared.record.model import Goal, Subtask, Task
from clew_shared.record.state import State
from clew_shared.tools import BY_NAME, TOOLS
from clew_shared.wire.hello import (
    Call,
    ContextOptions,
    FinishedSubtask,
    HelloOptions,
    Said,
    SentProbe,
)
from clew_worker.agent import written
from clew_worker.agent.written import fitted

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)
results = st.sampled_from(["success", "failure", "error", "timeout", "blocked", "interrupted"])
call = st.builds(
    Call,
    seq=st.integers(-99, 99_999),
    name=st.sampled_from([t.name for t in TOOLS]),
    args=st.dictionaries(st.text(max_size=8), json_values, max_size=3),
    result=results,
    output=st.text(max_size=50) | st.integers(0, 9000).map("x".__mul__),
    message=st.text(max_size=50),
    changed=st.none() | st.booleans(),
    insight=st.text(max_size=30),
    relevance=st.sampled_from(["", "high", "medium", "low"]),
)
said = st.builds(
    Said,
    role=st.sampled_from(["assistant", "user"]),
    text=st.text(max_size=100),
    warns=st.booleans(),
)
finished = st.builds(
    FinishedSubtask,
    description=st.text(max_size=60),
    summary=st.text(max_size=300),
    status=st.just("completed"),
    insights=st.just(("it",)),
)
views = st.builds(
    view_of,
    goal=st.text(max_size=100),
    notes=st.text(max_size=100),
    task=st.text(max_size=20),
    subtask=st.text(max_size=20),
    transcript=st.lists(call | said, max_size=25).map(tuple),
    finished=st.lists(finished, max_size=40).map(tuple),
    blocked_actions=st.lists(st.text(max_size=30), max_size=5).map(tuple),
    feedback=st.lists(st.text(max_size=30), max_size=3).map(tuple),
    probes=st.dictionaries(st.text(max_size=8), st.builds(SentProbe), max_size=3),
    replan_required=st.sampled_from([None, "task", "goal"]),
    iteration=st.integers(0, 40),
    max_tokens=st.integers(256, 8000),
)
"""Any view, as if nothing of it were folded yet."""


@st.composite
def cut_views(draw):
    """A view whose transcript is folded at any place."""
    view = draw(views)
    folded, tightness = draw(st.integers(0, len(view.state.transcript))), draw(st.integers(0, 4))
    mode, per_token = draw(st.sampled_from(["tools", "json"])), draw(st.floats(0.5, 9))
    return PromptView(view.hello, mode, per_token, tightness, folded)


@given(cut_views())
def test_every_result_follows_its_call_and_no_call_is_left_alone(view):
    messages = lay_out(view).messages
    for before, message in pairwise(messages):
        if message["role"] == "tool":
            assert before["tool_calls"][0]["id"] == message["tool_call_id"]
        elif before.get("tool_calls"):
            raise AssertionError(message)
    assert not messages[-1].get("tool_calls")


@given(cut_views(), st.integers(2500, 8000))
def test_a_settled_prompt_keeps_to_its_tokens(view, max_tokens):
    """By its own count, where the server's agrees with the usual four characters a token."""
    options = HelloOptions(context=ContextOptions(max_tokens=max_tokens))
    hello = view.hello.model_copy(update={"options": options})
    laid = lay_out(replace(view, hello=hello, chars_per_token=4.0))
    live = len(view.state.transcript) - laid.view.folded
    total = laid.sizes["total"]["tokens"]
    assert total <= max_tokens or live == 1


INLINE = '{"tool": "run_cmd", "cmd": "ls", "insights": "x"}'
BESIDE = (
    '{"reflect": {"insights": "x"}, "tool_calls": [{"tool": "run_cmd", "args": {"cmd": "ls"}}]}'
)
WITHIN = (
    '{"function": {"name": "run_cmd", "arguments": {"cmd": "ls"}}, "reflect": {"insights": "x"}}'
)


@pytest.mark.parametrize("said", [INLINE, BESIDE, WITHIN])
def test_a_reflection_is_taken_out_of_the_call_wherever_it_stands(said):
    found = written.answer_of(*written.read(said, TOOLS))
    assert [call.args for call in found.calls] == [{"cmd": "ls"}]
    assert found.hindsight == ({"insights": "x"},)


@given(st.text() | json_values.map(json.dumps) | st.text().map('{"tool": "write_file", '.__add__))
def test_whatever_a_model_writes_can_be_read(text):
    for found in written.answer_of(*written.read(text, TOOLS)).calls:
        assert isinstance(found.name, str)
        assert isinstance(found.args, dict)


@given(
    st.sampled_from(["tool", "name", "function"]),
    st.sampled_from(["args", "arguments", "parameters"]),
    st.dictionaries(st.text(max_size=8), json_values, max_size=3),
    st.booleans(),
    st.sampled_from(["{}", "Sure!\n```json\n{}\n```\nDone.", "<tool_call>{}</tool_call>"]),
)
def test_the_common_slips_of_small_models_are_read_as_what_they_mean(
    name_key, args_key, args, as_text, around
):
    given_args = json.dumps(args) if as_text else args
    call = json.dumps({name_key: "write_file", args_key: given_args})
    calls, _ = written.read(around.replace("{}", call), TOOLS)
    meant = fitted(BY_NAME["write_file"], args)
    assert [(c.name, c.args) for c in calls] == [("write_file", meant)]


@given(st.sampled_from(TOOLS), st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_whatever_arguments_a_model_gives_can_be_fitted_and_stay_so(tool, args):
    once = fitted(tool, args)
    assert fitted(tool, once) == once


@given(
    st.text(max_size=400),
    st.text(max_size=400),
    st.lists(st.text(max_size=200), max_size=20),
    st.integers(500, 3000),
)
def test_the_compact_context_keeps_to_its_limit(goal, subtask, blocked, max_chars):
    tasks = [Task("a task", [Subtask(subtask), Subtask("next")])]
    state = State(goal=Goal(goal, tasks))
    state.loops.scope.blocks = {name: {"*": "repetition"} for name in blocked}
    text = compact_context(state, max_chars)
    assert len(text) <= max_chars
    assert text.startswith("GOAL")
    assert text.count("\nB") == len(state.loops.scope.blocks)
