"""Nonsense on live connections: an agent that says anything, and anything on the control socket.

The harness asserts after each test that the daemon met no bug of its own.
"""

import os
import sys

import pytest

SEED = os.environ["SEED"]
ROUNDS = int(os.environ.get("ROUNDS", "1"))

BABBLES = """
import random

rng = random.Random({seed!r} + str(epoch))
NAMES = ["hello", "heartbeat", "plan", "act", "propose", "outcome", "record", "think", "reflect",
         "complete_subtask", "advance", "learn", "finish", "llm_slot", "leave", "shout", "__init__"]
WORDS = ["protocol", "agent", "tasks", "description", "subtasks", "replan", "tool", "args", "rationale", "seq",
         "result", "output", "changed", "exit_code", "duration_s", "text", "has_tool_calls", "iteration", "usage",
         "hindsight", "turn", "prompt", "tool_calls", "success", "failure", "summary", "deltas", "open", "kind",
         "reason", "retry_after_s", "cmd", "path", "id", "op", "content", "section"]
TEXTS = ["", "run_cmd", "read_file", "true", "success", "failure", "task", "goal", "temporary", "add", "\\ud800",
         "x" * 3000, "\\x1b[2J", "\\0", "recall", "wait", "finish", "interrupted"]
NUMBERS = [0, 1, 2, 3, -1, 2**31, 2**63, 2**64, 10**30, 0.5, -0.0, 1e300]

def value(depth=0):
    kind = rng.randrange(9 if depth < 5 else 6)
    if kind < 2:
        return rng.choice(TEXTS)
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 6:
        return rng.choice([None, True, False])
    if kind == 6:
        return [value(depth + 1) for _ in range(rng.randrange(4))]
    return {{rng.choice(WORDS): value(depth + 1) for _ in range(rng.randrange(5))}}

def sane(method):
    return {{
        "plan": {{"tasks": [{{"description": "t", "subtasks": [{{"description": "s"}}]}}],
                 "replan": rng.choice([None, "task", "goal"])}},
        "act": {{"tool": rng.choice(["run_cmd", "write_file", "list_files", "recall", "wait", "shout"]),
                "args": rng.choice([{{"cmd": rng.choice(["true", "false", "echo x >> f"])}}, {{"seq": 3}},
                                    {{"path": "f", "content": str(rng.random())}}, {{"seconds": 0}}])}},
        "propose": {{"tool": "mine", "args": {{"n": rng.randrange(3)}}}},
        "outcome": {{"seq": rng.randrange(40), "result": rng.choice(["success", "failure", "interrupted"])}},
        "record": {{"tool": "mine", "args": {{}}, "result": "success", "output": "x"}},
        "think": {{"text": "I plan"}}, "reflect": {{"iteration": rng.randrange(9)}},
        "complete_subtask": {{"success": rng.random() < 0.5, "failure": "f"}}, "finish": {{"success": True}},
        "learn": {{"deltas": [{{"op": "add", "section": "testing", "content": "Run tests twice"}}]}},
        "llm_slot": {{"open": rng.random() < 0.5, "base_url": "http://127.0.0.1/"}},
        "leave": {{"kind": "temporary", "reason": "tired"}},
    }}.get(method, {{}})

def message():
    method = rng.choice(NAMES)
    params = sane(method)
    if rng.random() < 0.5:
        params = value() if rng.random() < 0.3 else {{**params, rng.choice(WORDS): value()}}
    whole = {{"jsonrpc": "2.0", "id": rng.choice([1, 2, "a", None, 1.5, [], {{}}, 2**70]), "method": method,
             "params": params}}
    if rng.random() < 0.2:
        whole.pop(rng.choice(["id", "params"]))
    if rng.random() < 0.05:
        whole = rng.choice([{{"jsonrpc": "2.0", "id": 1, "result": {{}}}}, {{**whole, "method": 7}}])
    return json.dumps(whole).encode()

RUBBISH = [b"", b" ", b"{{", b"null", b"[]", b'[{{"jsonrpc":"2.0","id":1,"method":"hello"}}]', b"\\xff\\xfe", b"NaN",
           b'{{"jsonrpc":"2.0","id":1,"method":"think","params":{{"text":NaN}}}}', b"[" * 100000,
           b'{{"jsonrpc":"2.0","jsonrpc":"1.0","id":1}}', b"x" * ((1 << 20) + 1), b'{{"jsonrpc":"2.0"}}']

hello()
for _ in range(120):
    raw(message() + b"\\n")
if epoch < 4:
    raw(rng.choice(RUBBISH) + b"\\n")
    raw(message()[:-3])
    os._exit(rng.choice([0, 1, 75]))
stopped.wait(60)
"""


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_agent_that_says_anything_ends_as_a_crash_or_hears_an_error(clew, number):
    sys.stdout.write(f"SEED={SEED} ROUNDS={ROUNDS}, round {number}\n")
    clew.configure({"restart.max_restarts": 4, "limits.max_actions": 400})
    agent = clew.agent("babbler", BABBLES.format(seed=f"{SEED}/{number}/"), own_tools=True)
    goal = clew.start().submit(f"---\nagent: {agent}\n---\nListen\n")
    clew.until(lambda: over(clew, goal), "the end of it")
    assert clew.answers()
    clew.stop()
    assert clew.verified()
    numbers = [action["seq"] for action in clew.history(goal)]
    assert len(numbers) == len(set(numbers))


def over(clew, goal):
    found = clew.goal(goal)
    return found["status"] not in ("in_progress", "queued", "waiting") or found["epoch"] >= 4


def test_arguments_that_grow_beyond_the_wire_are_an_outcome_and_no_crash(clew):
    body = """
        hello()
        many = ",".join(["1e15"] * 80_000)
        raw(('{"jsonrpc":"2.0","id":1,"method":"act","params":{"tool":"run_cmd","args":{"cmd":"echo ran > ran",'
             '"n":[' + many + ']}}}').encode() + b"\\n")
        answer = answers.get(timeout=60)["result"]
        say([answer["verdict"], answer["outcome"]["result"], answer["outcome"]["output"][:60]])
        done()
    """
    agent = clew.agent("grower", body)
    goal = clew.start().submit(f"---\nagent: {agent}\n---\nGrow\n")
    (heard,) = clew.said(goal)
    assert heard[:2] == ["allowed", "error"]
    assert "too long" in heard[2]
    clew.wait("goal.completed", goal=goal)
    assert clew.goal(goal)["restarts"] == 0
    assert not (clew.workspace(goal) / "ran").exists()


NAMES = (
    "goal", "text", "signature", "id", "bullets", "threshold", "form", "query", "text",
    "section",
)  # fmt: skip
