"""How small models go wrong, as it was seen: each of these goals is reached nevertheless."""

import json

import pytest
from goal_daemon import GoalDaemon
from llm_server import ScriptedLlm, calls, completion, says, writes

FINISH = calls(("finish", {"summary": "done"}))
WRITE = {"path": "answer.txt", "content": "right\n"}
RIGHT = calls(("write_file", WRITE))
AS_JSON = json.dumps({"tool": "write_file", "args": WRITE})
JSON_FINISH = writes("finish", summary="done")

NATIVE = {
    "finishes at once": [FINISH, RIGHT],
    "writes prose, then calls": [says("Sure, I will write the answer now."), RIGHT],
    "writes the call as text": [says(f"I call the tool:\n```json\n{AS_JSON}\n```"), RIGHT],
    "two calls in one": [calls(("write_file", WRITE), ("read_file", {"path": "answer.txt"}))],
    "the same call three times in one": [calls(*[("write_file", WRITE)] * 3)],
    "a call and the finish in one": [calls(("write_file", WRITE), ("finish", {"summary": "done"}))],
    "arguments that are no JSON": [
        calls(("write_file", '{"path": "answer.txt", "content": ')),
        RIGHT,
    ],
    "a path in a list": [calls(("write_file", {**WRITE, "path": ["answer.txt"]})), RIGHT],
    "lines in a list": [calls(("write_file", {**WRITE, "content": ["right"]})), RIGHT],
    "a number as text": [RIGHT, calls(("read_file", {"path": "answer.txt", "max_lines": "10"}))],
    "an object as content": [calls(("write_file", {**WRITE, "content": {"is": "right"}}))],
    "another name of an argument": [calls(("write_file", {"file": "answer.txt", "text": "right"}))],
    "a code fence around the content": [
        calls(("write_file", {**WRITE, "content": "```text\nright\n```"}))
    ],
    "a tool that does not exist": [calls(("create_file", WRITE)), RIGHT],
    "an edit of a text that is not there": [
        calls(("write_file", {**WRITE, "content": "wrong"})),
        calls(("edit_file", {"path": "answer.txt", "old": "right", "new": "right"})),
        RIGHT,
    ],
    "an option of zero": [
        calls(("write_file", {**WRITE, "content": "wrong"})),
        calls(("edit_file", {"path": "answer.txt", "old": "wrong", "new": "right", "count": 0})),
    ],
    "an empty answer": [says(""), RIGHT],
    "no answer": [says(None), RIGHT],
    "a message without anything": [completion({}), RIGHT],
    "an answer in parts": [
        completion({"role": "assistant", "content": [{"type": "text", "text": "hm"}]}),
        RIGHT,
    ],
    "no to what it is asked": [
        completion({"role": "assistant", "content": None, "refusal": "I cannot help with that."}),
        RIGHT,
    ],
    "a command that is no object": [calls(("run_cmd", "echo right > answer.txt"))],
    "another name of the command": [calls(("run_cmd", {"command": "echo right > answer.txt"}))],
    "a command in a list": [calls(("run_cmd", {"cmd": ["echo right > answer.txt"]}))],
}
JSON = {
    "a fence around the call": [says(f"```json\n{AS_JSON}\n```")],
    "prose around the call": [says(f"First I write the file.\n{AS_JSON}\nThen I am done.")],
    "prose, then a call": [says("I will write it."), says(AS_JSON)],
    "a call that is cut off": [says(AS_JSON[:40], "length"), says(AS_JSON)],
    "three calls in a row that are cut off": [
        *[says(AS_JSON[:40] * 500, "length")] * 3,
        says(AS_JSON),
    ],
    "the name of the tool as the key": [says(json.dumps({"write_file": WRITE})), says(AS_JSON)],
}


@pytest.fixture
def daemon(tmp_path):
    return GoalDaemon(tmp_path, checks={"right": "grep -q right answer.txt"})


@pytest.mark.parametrize("script", NATIVE.values(), ids=list(NATIVE))
async def test_native_calls_that_go_wrong(daemon, run_llm, script):
    daemon.agent["mode"] = "tools"
    with ScriptedLlm(*script, then=FINISH) as llm:
        assert await run_llm(daemon, llm) == 0
    assert daemon.finished[0] is True


async def test_a_call_written_as_text_is_used_and_asked_for_as_json_from_then_on(daemon, run_llm):
    with ScriptedLlm(*JSON["a fence around the call"], then=JSON_FINISH) as llm:
        assert await run_llm(daemon, llm) == 0
    assert daemon.finished[0] is True
    assert ["response_format" in request for request in llm.requests] == [False, True]


@pytest.mark.parametrize("script", JSON.values(), ids=list(JSON))
async def test_json_answers_that_go_wrong(daemon, run_llm, script):
    daemon.agent["mode"] = "json"
    with ScriptedLlm(*script, then=JSON_FINISH) as llm:
        assert await run_llm(daemon, llm) == 0
    assert daemon.finished[0] is True
