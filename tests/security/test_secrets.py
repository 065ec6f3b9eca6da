"""A key is nowhere in what clew writes, says or shows, whatever agents, commands, people and servers do with it."""

import base64
import contextlib
import json
import signal
import sqlite3
import urllib.parse
import zlib

import pytest
from llm_server import Reply, ScriptedLlm, calls, fails, says
from of_proc import children, of_process

from clew_shared.ledger import chain

KEY = "Clew/test+4fT9bQ2mW8sLcVnR5yH1dKj0aG3pE6uIoXzB7iUeMq"
NEXT = "Next/test+Pq81mVx3Zr6tYb0KdLw5cHs9GfJa2NoEiUu7RyTkMe"
HANGS = Reply(hang=True)

GOAL = """\
---
checks:
  quiet: test ! -e said || { cat said; exit 1; }
---
# Look at the environment
"""


def forms(key):
    """Pieces of the key as tools write it: each in plain, URL, hexadecimal and the three base64 alignments."""
    found = {"plain": key, "url": urllib.parse.quote(key, safe=""), "hex": key.encode().hex()}
    found["json"] = json.dumps(key)[1:-1].replace("/", "\\/")
    for before in range(3):
        found[f"base64 {before}"] = base64.b64encode(bytes(before) + key.encode()).decode()[4:-4]
    halves = {}
    for name, form in found.items():
        middle = len(form) // 2
        halves |= {f"{name}, head": form[:middle], f"{name}, tail": form[middle:]}
    return halves


def leaks(data, key=KEY):
    """Which forms of the key are in bytes, also over line breaks."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    texts = (text, text.replace("\\n", "").replace("\n", ""))
    return [name for name, form in forms(key).items() if any(form in t for t in texts)]


def written(clew, key=KEY):
    """Files that clew has written and that hold the key; what is the user's or an agent's own is theirs."""
    found = {}
    paths = [p for p in clew.folder.rglob("*") if p.is_file() and not p.is_symlink()]
    for path in paths:
        name = str(path.relative_to(clew.folder))
        theirs = name.startswith(("key", "agents/", "credentials/"))
        theirs = theirs or name == "home/inbox/rejected/with-key.md"
        theirs = theirs or ("workspaces/" in name and ".agent_context" not in name)
        if not theirs and (leaked := leaks(path.read_bytes(), key)):
            found[name] = leaked
    kept = unpacked(clew)
    assert kept
    return found | {name: leaked for name, one in kept.items() if (leaked := leaks(one, key))}


def unpacked(clew):
    """Outputs and snapshots as they were: what is kept compressed shows no key to who searches the file."""
    with contextlib.closing(sqlite3.connect(clew.ledger)) as ledger:
        outputs = ledger.execute("SELECT seq, data, digest FROM outputs JOIN events USING (seq)")
        found = {f"output {seq}": chain.whole(data, digest) for seq, data, digest in outputs}
        snapshots = ledger.execute("SELECT goal, state FROM snapshots")
        return found | {f"snapshot of {goal}": zlib.decompress(state) for goal, state in snapshots}


def in_processes(clew):
    """Processes of the tree whose command line or environment shows the key."""
    found, waiting = {}, [clew.daemon.pid]
    while waiting:
        pid = waiting.pop()
        waiting += children(pid)
        for name in ("cmdline", "environ"):
            with contextlib.suppress(PermissionError):  # what its own user may not read, either
                if leaked := leaks(of_process(pid, name)):
                    found[pid, name] = leaked
    return found


def given(clew, way):
    """Give the key to the daemon in one of the ways; its environment."""
    if way == "environment":
        clew.configure({"agents.scripted.api_key_env": "MY_LLM"})
        return {"MY_LLM": KEY}
    folder = clew.folder / "credentials"
    folder.mkdir()
    (folder / "llm").write_text(KEY + "\n")
    (folder / "llm").chmod(0o600)
    clew.configure({"agents.scripted.api_key_file": str(folder / "llm")})
    return {}


def shell(cmd, text=None):
    return calls(("run_cmd", {"cmd": cmd}), text=text)


LIFE = [
    shell("env; cat /proc/self/environ; ls -R /run/user /proc/1/fd 2>&1 | head -5"),
    shell(f"echo the key is {KEY}", text=f"The key is {KEY}, I think."),
    shell(f"printf %s {KEY} | base64; printf 'a%s' {KEY} | base64 -w0; printf %s {KEY} | od -An -tx1"),
    shell(f"head -c {32768 - 30} /dev/zero | tr '\\0' x; printf %s {KEY}; seq 20000"),
    shell(f"seq 20000; printf %s {KEY}; head -c {32768 - 30} /dev/zero | tr '\\0' x"),
    shell(f"printf '%s ' {KEY} {urllib.parse.quote(KEY, safe='')} '{json.dumps([KEY])}'; exit 3"),
    calls(("write_file", {"path": "said", "content": KEY})),
    calls(("read_file", {"path": "said"})),
    calls((KEY, {KEY: KEY, "password": "in plain words"})),
    says(f"I say {KEY} and propose nothing."),
    calls(("finish", {"summary": f"found {KEY}"})),
    fails(500, f"who are you, {KEY}?"),
    Reply(f"no completion for {KEY}".encode(), 200),
    fails(401, f"the key {KEY} is not known here"),
]  # fmt: skip


@pytest.mark.cold  # a forked daemon has no environment of its own in /proc
@pytest.mark.parametrize("way", ["environment", pytest.param("file", marks=pytest.mark.long)])
def test_a_key_is_nowhere_after_a_life_that_did_everything_to_spread_it(clew, way):
    with ScriptedLlm(*LIFE, then=HANGS) as llm:
        clew.model(llm)
        clew.configure({"attempts.iterations": 30})  # all in one conversation
        env = given(clew, way)
        clew.start(**env)
        goal = clew.submit(GOAL)
        question = clew.wait("goal.blocked", goal=goal)
        assert "401" in question["reason"]
        assert llm.headers[0]["authorization"] == f"Bearer {KEY}"
        clew.clew(
            "feedback", goal, f"The key is {KEY}, or {base64.b64encode(KEY.encode()).decode()}"
        )
        clew.until(lambda: len(llm.requests) > len(LIFE), "the question that hangs")
        clew.drop(f"# Use the key\n\nIt is {KEY}\n", "with-key.md")
        assert "line 3" in clew.wait("goal.rejected", name="with-key.md")["error"]
        assert in_processes(clew) == {}
        if way == "environment":  # the same for all, and slow
            assert said(clew, goal, env) == {}
        clew.kill_agent(goal)
        clew.wait("worker.exited", goal=goal, crash=True)
        assert written(clew) == {}
        clew.stop()
    assert clew.verified()
    assert written(clew) == {}


def said(clew, goal, env):
    """Commands whose output holds the key, run where the key is in the environment as for the daemon."""
    commands = [
        ("config",),
        ("config", "--json"),
        ("status", "--json"),
        ("status", goal),
        ("context", goal),
        ("context", goal, "--json"),
        ("history", goal, "--json"),
        ("loops", goal, "--json"),
        ("logs", goal),
        ("playbook", "export"),
        ("reload",),
    ]
    clew.env = env
    printed = {command: clew.cli(*command) for command in commands}
    printed["doctor"] = clew.clew("doctor", code=None)
    assert "agent scripted" in printed["doctor"]
    return {command: leaked for command, text in printed.items() if (leaked := leaks(text))}


def test_a_new_key_in_the_file_is_used_by_the_next_worker_and_hidden_with_the_old_one(clew):
    refusal = fails(401, f"{KEY} has been replaced")
    with ScriptedLlm(refusal, shell(f"echo {KEY} {NEXT}"), then=HANGS) as llm:
        clew.model(llm)
        given(clew, "file")
        goal = clew.start().submit("Look around\n")
        clew.wait("goal.blocked", goal=goal)
        (clew.folder / "credentials" / "llm").write_text(NEXT)
        clew.daemon.send_signal(signal.SIGHUP)
        clew.wait("config.reloaded")
        clew.ask("resume", goal=goal)
        clew.until(lambda: len(llm.requests) > 2, "the question that hangs")
        assert [h["authorization"] for h in llm.headers] == [f"Bearer {KEY}"] + 2 * [
            f"Bearer {NEXT}"
        ]
        clew.stop()
    assert written(clew) == {}
    assert written(clew, NEXT) == {}


TELLS_ALL = """
KEY = {key!r}

def tell(method, **params):
    try:
        return call(method, **params)
    except RefusedError as error:
        sys.stderr.write(str(error))
        return {{}}

hello()
tell("plan", tasks=[{{"description": KEY, "subtasks": [{{"description": KEY}}]}}])
tell("hello", agent=KEY)
tell("think", text=KEY)
tell("reflect", iteration=1, synthesis=KEY, insights=[KEY], hindsight=[{{KEY: KEY}}], turn=[{{KEY: KEY}}],
     tool_calls=[{{"tool": KEY, "params": {{KEY: KEY}}, "raw_output": "x" * 970 + KEY, "outcome": KEY}}])
seq = tell("propose", tool=KEY, args={{KEY: [KEY]}}, rationale=KEY).get("seq", 0)
tell("outcome", seq=seq, result="failure", output="x" * 60 + KEY)
tell("record", tool=KEY, args={{"a": KEY}}, result="error", output=KEY)
tell("learn", deltas=[{{"op": "add", "section": KEY, "content": f"use {{KEY}} for it"}}, {{"op": KEY}}])
tell(KEY)
tell("act", **{{KEY: KEY}})
tell("outcome", seq=KEY, result=KEY)
tell("complete_subtask", success=False, failure=KEY, summary=KEY)
sys.stdout.write("x" * 450 + KEY + "y" * 100)
for part in (KEY[:20], KEY[20:40], KEY[40:]):
    sys.stdout.write(part)
    sys.stdout.flush()
    call("think", text="a while")
print("x" * 1980 + KEY)
if epoch == 1:
    raw(json.dumps({{"jsonrpc": KEY}}).encode() + b"\\n" + KEY.encode() + b"\\n")
    answers.get()
if epoch == 2:
    call("leave", kind="temporary", reason=KEY, retry_after_s=0)
    sys.stdout.flush()
    os._exit(75)
if epoch == 3:
    raise ValueError(KEY)
call("finish", success=False, summary=KEY)
"""


def test_an_agent_that_says_a_key_in_every_field_and_prints_it_leaves_it_nowhere(clew):
    given(clew, "file")
    clew.configure({"agents.scripted.kind": "llm", "agents.scripted.model": "scripted"})
    clew.configure({"loops.failure_limit": 9})
    agent = clew.agent("teller", TELLS_ALL.format(key=KEY))
    goal = clew.start().submit(f"---\nagent: {agent}\n---\nTell all\n")
    clew.wait("worker.exited", goal=goal, reason="protocol")
    clew.wait("goal.failed", goal=goal)
    clew.stop()
    printed = [e["line"] for e in clew.seen("worker.output", goal=goal)]
    assert any("ValueError: [redacted]" in line for line in printed)
    assert written(clew) == {}
