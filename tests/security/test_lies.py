"""A worker that lies to the daemon, floods it, or goes on after its end: nothing is believed, nothing is lost."""

import psutil
import pytest
from of_proc import alive

GOAL = "---\nagent: {agent}\n---\n# goal of {agent}\n"
RSS_GROWTH_MB = 80

FORGER = """
    hello()
    import re
    def refused(method, **params):
        try:
            call(method, **params)
        except RefusedError:
            return True
        return False
    other = int(Path(sys.argv[1]).with_name("seq").read_text())
    first = call("propose", tool="x", args={"n": 1})["seq"]
    say([
        refused("outcome", seq=other, result="success"),        # another goal's action
        refused("outcome", seq=first + 1000, result="success"), # one that is to come
        refused("outcome", seq=-1, result="success"),
        refused("outcome", seq=10**30, result="success"),
        refused("unblock", goal="other", signature="x"),        # what only a person may
        refused("cancel", goal="other"),
        refused("reload"),
        refused("run", id=1, seq=1, tool="run_cmd", args={}),   # what only the daemon says
        refused("verdict", verdict="allowed"),
        refused("__class__"),
    ])
    call("outcome", seq=first, result="success")
    say(call("hello", protocol=1, agent="forged/1", epoch=999, goal_id="other")["epoch"])
    notice("stop")
"""


def test_forged_numbers_methods_and_epochs_are_errors_and_change_nothing(clew):
    clew.agent("forger", FORGER, own_tools=True)
    clew.agent(
        "honest",
        "hello()\nsay(call('propose', tool='y', args={})['seq'])\nnotice('stop')",
        own_tools=True,
    )
    honest = clew.start().submit(GOAL.format(agent="honest"), "honest.md")
    seq = clew.said(honest)[0]
    (clew.folder / "agents" / "seq").write_text(str(seq))
    forger = clew.submit(GOAL.format(agent="forger"), "forger.md")
    assert clew.said(forger, count=2) == [[True] * 10, 1]  # what was refused, and its epoch
    clew.wait("action.finished", goal=forger)
    assert not clew.seen("worker.exited")
    clew.stop()
    assert not clew.seen("action.finished", goal=honest)
    assert len(clew.seen("action.finished", goal=forger)) == 1
    assert clew.verified()


OUTLIVING = """
    hello()
    if epoch == 1:
        child = os.fork()
        if child == 0:
            os.setsid()
            import time
            for number in range(100000):
                line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "record",
                                   "params": {"tool": "late", "args": {"n": number}, "result": "success"}})
                try:
                    stream.send(line.encode() + bytes([10]))
                except OSError:
                    pass
                time.sleep(0.001)
            os._exit(0)
        say(child)
        os._exit(3)
    notice("stop")
"""


@pytest.mark.long
def test_who_outlives_its_epoch_is_ended_and_not_heard(clew):
    clew.agent("outliving", OUTLIVING)
    goal = clew.start().submit(GOAL.format(agent="outliving"), "a.md")
    clew.wait("worker.ready", goal=goal, epoch=2)
    ended = clew.events.index(clew.wait("worker.exited", goal=goal, epoch=1))
    late = [e for e in clew.events[ended:] if e.get("event", "").startswith("action.")]
    assert late == []
    assert [e["epoch"] for e in clew.history(goal)] in ([], [1] * len(clew.history(goal)))
    clew.stop()
    assert clew.verified()


NONSENSE = {
    "deep lists": "raw(b'[' * 900_000 + bytes([10]))",
    "deep objects": "raw(b'{\"a\":' * 180_000 + bytes([10]))",
    "deep params": 'raw(b\'{"jsonrpc":"2.0","id":1,"method":"act","params":{"tool":"x","args":\' '
    "+ b'{\"a\":' * 100_000 + b'1' + b'}' * 100_000 + b'}}' + bytes([10]))",
    "no UTF-8": "raw(bytes([0xff, 0xfe, 10]))",
    "a gigabyte without an end": "chunk = b'x' * (1 << 20)\nfor _ in range(1024): raw(chunk)",
    "a number too long": "raw(b'{\"jsonrpc\":\"2.0\",\"id\":' + b'9' * 100_000 + b'}' + bytes([10]))",
}
ODD = {
    "a lone surrogate": r"""act("read_file", path="\ud800")""",
    "no number": """call("reflect", iteration=float("nan"), tool_calls=[])""",
    "an endless wait": """act("wait", seconds=float("inf"))""",
    "a huge number": """act("wait", seconds=10**400)""",
    "a NUL": r"""act("read_file", path="a\0b")""",
    "a name without end": """act("x" * 500_000)""",
}


def test_lines_that_are_nonsense_end_their_worker_and_cost_the_daemon_little(clew):
    clew.configure({"restart.max_restarts": 1})
    for number, body in enumerate(NONSENSE.values()):
        clew.agent(f"nonsense{number}", f"hello()\n{body}\nnotice('stop')")
    clew.start()
    before_mb = psutil.Process(clew.daemon.pid).memory_info().rss >> 20
    for number, what in enumerate(NONSENSE):
        goal = clew.submit(GOAL.format(agent=f"nonsense{number}"), f"{number}.md")
        clew.wait("goal.blocked", goal=goal)
        reasons = {e["reason"] for e in clew.seen("worker.exited", goal=goal)}
        assert reasons == {"protocol"}, what
    after_mb = psutil.Process(clew.daemon.pid).memory_info().rss >> 20
    assert after_mb - before_mb < RSS_GROWTH_MB
    assert not clew.seen("daemon.bug")
    clew.stop()
    assert clew.verified()


@pytest.mark.long
def test_a_flood_of_messages_holds_up_nobody_else(clew):
    beat = "json.dumps({'jsonrpc': '2.0', 'method': 'heartbeat'}).encode() + bytes([10])"
    clew.agent("flooding", f"hello()\nline = {beat}\nsay('begins')\nwhile True: raw(line * 1000)")
    clew.agent("working", "hello()\nrun('echo x > made')\ndone()")
    clew.start()
    before_mb = psutil.Process(clew.daemon.pid).memory_info().rss >> 20
    flooding = clew.submit(GOAL.format(agent="flooding"), "flooding.md")
    clew.said(flooding)
    clew.completed(GOAL.format(agent="working"), "working.md")
    assert alive(clew.agent_pid(flooding))
    assert (psutil.Process(clew.daemon.pid).memory_info().rss >> 20) - before_mb < RSS_GROWTH_MB


ESCAPES = "\x1b]0;taken over\x07\x1b[2J\x1b[31m\x9b31m\u202e\r"
PRINTED = r"\033]0;taken over\007\033[2J\033[31m\302\23331m\342\200\256\r"


def test_escapes_of_a_terminal_reach_no_terminal(clew):
    body = f"""
        hello()
        escapes = {ESCAPES!r}
        print(escapes, "printed")
        run("printf '{PRINTED}'; exit 1")
        act("read_file", path="no" + escapes)
        call("think", text=escapes, has_tool_calls=True)
        call("complete_subtask", success=False, failure=escapes)
        call("finish", success=False, summary=escapes)
    """
    clew.agent("poisoning", body)
    clew.start()
    goal = clew.submit(f"---\nagent: poisoning\n---\n# goal {ESCAPES[:-1]} of poison\n", "a.md")
    clew.wait("goal.failed", goal=goal)
    said = [clew.report(goal)]
    commands = ("status", f"status {goal}", f"history {goal}", f"loops {goal}", f"context {goal}")
    said += [clew.clew(*command.split()) for command in (*commands, f"logs {goal}", "verify")]
    bad = [text for text in said if set(text) & set("\x1b\x07\x9b\u202e")]
    assert bad == []
    assert not set(clew.log.read_text()) & set("\x1b\x07\x9b")


@pytest.mark.long
def test_odd_values_are_answered_or_end_their_worker_and_are_no_bug(clew):
    clew.configure({"restart.max_restarts": 1, "limits.action_timeout_s": 1})
    for number, body in enumerate(ODD.values()):
        script = f"hello()\ntry:\n    {body}\nexcept (RefusedError, ValueError):\n    pass\nsay('heard')\ndone()"
        clew.agent(f"odd{number}", script)
    clew.start()
    for number, what in enumerate(ODD):
        goal = clew.submit(GOAL.format(agent=f"odd{number}"), f"{number}.md")
        ended = clew.until(
            lambda goal=goal: (
                clew.seen("goal.completed", goal=goal) or clew.seen("goal.blocked", goal=goal)
            ),
            what,
        )
        assert ended, what
    assert not clew.seen("daemon.bug")
    clew.stop()
    assert clew.verified()
