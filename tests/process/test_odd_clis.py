"""Programs in the place of coding agents that misbehave: a clear reason or a bounded cost, never a hang."""

import json
import textwrap

import pytest

from clew_worker.bridge.tools import OFFERED
from clew_worker.sandbox import grants, landlock

pytestmark = pytest.mark.skipif(landlock.abi() < 1, reason="needs Landlock")

HEAD = """\
#!{python} -I
import json, os, signal, subprocess, sys, tomllib
def event(**fields):
    print(json.dumps(fields), flush=True)
class Tools:  # clew's, by the server that the config names
    def __init__(self):
        with open(os.path.join(os.environ["CODEX_HOME"], "config.toml"), "rb") as file:
            clew = tomllib.load(file)["mcp_servers"]["clew"]
        command, pipe = [clew["command"], *clew["args"]], subprocess.PIPE
        self.relay, self.asked = subprocess.Popen(command, stdin=pipe, stdout=pipe), 0
        info = {{"name": "odd", "version": "1"}}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={{}}, clientInfo=info)
        self.ask("tools/list")
    def ask(self, method, **params):
        self.asked += 1
        message = {{"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}}
        self.relay.stdin.write(json.dumps(message).encode() + b"\\n")
        self.relay.stdin.flush()
        while json.loads(self.relay.stdout.readline()).get("id") != self.asked:
            pass
    def call(self, name, **args):
        self.ask("tools/call", name=name, arguments=args)
def started():
    event(type="thread.started", thread_id="t1")
def ended():
    event(type="turn.completed", usage={{"input_tokens": 10, "output_tokens": 1}})
def failed(message):
    event(type="turn.failed", error={{"message": message}})
"""
GOAL = "---\nagent: coder\n---\n# Write a file\n"


@pytest.fixture
def coder(make_clew, tmp_path):
    """Give a function that starts a home whose coding agent is a few lines of Python."""

    def make(body, name="codex", agent="coder", clew=None, **keys):
        folder = tmp_path / agent
        folder.mkdir()
        program = folder / name
        head = HEAD.format(python=grants.own_python())
        program.write_text(head + textwrap.dedent(body))
        program.chmod(0o755)
        clew = clew or make_clew()
        table = {"kind": "cli", "cli": name, "program": str(program), **keys}
        clew.configure({f"agents.{agent}.{key}": value for key, value in table.items()})
        clew.configure({"sandbox.mode": "enforce", "attempts.limit": 1})
        return clew

    return make


def reason(clew, goal):
    return clew.goal(goal)["reason"]


def goals_of(coder, bodies, front="", **config):
    """Start one home whose agents are these programs, with a goal for each; the home and the goals."""
    clew = None
    for number, body in enumerate(bodies):
        clew = coder(body, agent=f"coder{number}", clew=clew)
    clew.configure({"daemon.max_workers": len(bodies), **config})
    clew.start()
    text = "---\nagent: coder{}\n{}---\n# Write a file\n"
    return clew, [
        clew.submit(text.format(number, front), f"{number}.md") for number in range(len(bodies))
    ]


MUST_FIX = [
    ("sys.exit('unexpected argument')", "exited with 1 at once: unexpected argument"),
    ("for n in range(9): print('hello', n)", "none of them an event that clew knows"),
    ("sys.exit('Error: spawn /x/bin/codex EACCES')", "cannot be started: spawn /x/bin/codex"),
    ("sys.exit('Error: Missing optional dependency x. Reinstall it')", "be started: Missing"),
    ("sys.exit(127)", "cannot be started: no reason given. Name the program itself"),
    ("print('too old'); sys.exit(3)", "too old (clew doctor). too old"),
    ("started(); failed('401 Unauthorized')", "wants a login"),
    ("started(); failed('unknown model m')", "cannot go on: unknown model m"),
    ("os.write(1, b'x' * 70); [os.write(1, b'y' * 65536) for _ in range(1600)]", "over 64 MB"),
]


def test_what_a_person_must_fix_blocks_the_goal_with_the_reason(coder):
    clew, goals = goals_of(coder, [body for body, _ in MUST_FIX])
    for goal, (_, why) in zip(goals, MUST_FIX, strict=True):
        clew.wait("goal.blocked", goal=goal)
        assert why in reason(clew, goal)
        assert clew.goal(goal)["restarts"] == 0


def test_a_tool_that_it_should_not_offer_ends_it_before_it_is_used(coder):
    init = {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"]}
    body = f"event(**{init!r}); signal.pause()"
    clew = coder(body, "claude").start()
    goal = clew.submit(GOAL)
    clew.wait("goal.blocked", goal=goal)
    assert "offers Bash although told not to" in reason(clew, goal)


def test_turns_without_an_action_are_a_failure_of_the_subtask(coder):
    clew = coder("started(); Tools(); ended()").start()
    goal = clew.submit(GOAL)
    clew.wait("goal.blocked", goal=goal)
    assert "called none of clew's tools in 3 turns" in clew.report(goal)


PLAN = {"tasks": [{"description": "All", "subtasks": ["First", "Then"]}]}
CALLS = {
    "clew_run": {"cmd": "date +%N"},
    "clew_read": {"path": "a"},
    "clew_write": {"path": "a", "content": "a"},
    "clew_edit": {"path": "a", "old": "a", "new": "b"},
    "clew_list": {},
    "clew_search": {"pattern": "a"},
    "clew_recall": {"seq": 1},
    "clew_wait": {"seq": 1},
    "clew_done": {"success": True},
    "clew_plan": PLAN,
    "clew_ask": {"question": "What now?"},
    "clew_nothing": {},
}
OFTEN_WRONG = ("clew_run", "clew_done", "clew_plan")
ODD_CALLS = [
    ("clew_plan", {"tasks": []}),
    ("clew_ask", {"question": ""}),
    ("clew_done", {"success": False}),
]


@pytest.mark.parametrize(
    "calls",
    [
        [(tool, CALLS[tool]) for tool in OFTEN_WRONG],
        pytest.param([*CALLS.items(), *ODD_CALLS], marks=pytest.mark.long),
    ],
    ids=["often wrong", "all"],
)
def test_one_that_calls_one_tool_for_ever_is_stopped_by_its_limits(coder, calls):
    front = "max_iterations: 2\nchecks: {no: 'false'}\n"
    body = "started(); tools = Tools()\nwhile True: tools.call({!r}, **{!r})"
    limits = {"limits.max_actions": 20}
    clew, goals = goals_of(coder, [body.format(*one) for one in calls], front, **limits)
    for goal, (tool, _) in zip(goals, calls, strict=True):
        why = clew.wait("goal.blocked", goal=goal)["reason"]
        assert clew.goal(goal)["restarts"] == 0, (tool, why)
        assert clew.goal(goal)["iteration"] <= 2, tool
        carried_out = [one for one in clew.history(goal) if one["result"] != "blocked"]
        assert len(carried_out) <= 20, tool


def test_every_tool_of_clew_has_its_brake_tested():
    assert {one.name for one in OFFERED} < CALLS.keys()


CALLS_AND_DIES = """
    started()
    runs = os.path.join(os.environ["CODEX_HOME"], "sessions")
    os.makedirs(runs, exist_ok=True)
    number = len(os.listdir(runs))
    open(os.path.join(runs, str(number)), "w").close()
    tools = Tools()
    tools.call("clew_run", cmd=f"echo {number} >> effects")
    if number < 4:
        os.kill(os.getpid(), signal.SIGKILL)
    tools.call("clew_done", success=True)
    ended()
"""


def test_turns_that_a_crash_cuts_off_use_up_no_attempt(coder):
    clew = coder(CALLS_AND_DIES)
    clew.configure({"attempts.limit": 3, "attempts.iterations": 2})
    goal = clew.start().completed(GOAL)
    assert clew.goal(goal)["restarts"] == 4
    assert clew.lines(goal, "effects") == ["0", "1", "2", "3", "4"]
    assert "attempt.started" not in clew.log.read_text()


def test_one_that_thinks_longer_than_an_agent_of_clew_may_is_not_stalled(coder):
    clew = coder("import time; started(); time.sleep(2); failed('unknown model m')")
    clew.configure({"heartbeat.stall_timeout_s": 1.0})
    goal = clew.start().submit(GOAL)
    clew.wait("goal.blocked", goal=goal)
    assert "unknown model m" in reason(clew, goal)
    assert clew.goal(goal)["restarts"] == 0


def test_one_that_hangs_is_stalled_in_the_end_and_started_again(coder):
    clew = coder("started(); signal.pause()")
    clew.configure({"heartbeat.stall_timeout_s": 0.2, "restart.max_restarts": 1})
    goal = clew.start().submit(GOAL)
    clew.wait("worker.gave_up", goal=goal)
    assert clew.wait("worker.exited", goal=goal)["reason"] == "stalled"


def test_its_login_file_is_its_own_copy_and_appears_nowhere_else(coder, tmp_path):
    token = "rt-zQ81kXw02LmPt7yVbN44aa"
    login = tmp_path / "auth.json"
    login.write_text(json.dumps({"tokens": {"refresh_token": token}}))
    login.chmod(0o600)
    body = """
        path = os.path.join(os.environ["HOME"], "auth.json")
        mode = os.stat(path).st_mode & 0o777
        started()
        text = f"{mode:o} {open(path).read()}"
        event(type="item.completed", item={"type": "agent_message", "text": text})
        failed("unknown model m " + text)
    """
    clew = coder(body, credentials=[str(login)]).start()
    goal = clew.submit(GOAL)
    clew.wait("goal.blocked", goal=goal)
    assert "600" in reason(clew, goal)
    clew.stop()
    kept = clew.home / "state" / "goals" / goal / "cli"
    for path in clew.home.rglob("*"):
        if path.is_file() and not path.is_relative_to(kept):
            assert token.encode() not in path.read_bytes(), path
    assert token not in clew.log.read_text()


def test_a_refreshed_token_is_written_back_if_so_configured(coder, tmp_path):
    login = tmp_path / "auth.json"
    login.write_text(json.dumps({"tokens": {"refresh_token": "rt-old-zQ81kXw02LmPt7yVbN"}}))
    login.chmod(0o600)
    body = """
        path = os.path.join(os.environ["HOME"], "auth.json")
        started()
        text = open(path).read().replace("rt-old-", "rt-new-")
        open(path, "w").write(text)
        failed("unknown model m")
    """
    clew = coder(body, credentials=[str(login)], refresh_credentials=True).start()
    goal = clew.submit(GOAL)
    clew.wait("goal.blocked", goal=goal)
    clew.until(lambda: "rt-new-" in login.read_text(), "the new token")
    assert login.stat().st_mode & 0o777 == 0o600
