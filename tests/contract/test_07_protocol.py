"""Section 7: the worker protocol, with a worker that uses nothing of clew."""

import json
from pathlib import Path

import pytest

ONE = "---\nagent: {}\n---\n# Do a thing\n"


@pytest.fixture
def played(clew):
    """A function that runs a script as the agent of a goal, and gives the goal's id."""

    def play(script, *, goal=ONE, own_tools=False, config=None):
        clew.agent("played", script, own_tools=own_tools)
        clew.configure(config or {})
        clew.start()
        return clew.submit(goal.format("played"))

    return play


def test_a_worker_finds_its_socket_goal_epoch_and_workspace(clew, played):
    goal = played(
        "import os\nhello()\nsay([os.environ['CLEW_FD'], os.environ['CLEW_GOAL_ID'], epoch, os.getcwd()])\ndone()\n"
    )
    folder = Path(clew.seen("goal.accepted", goal=goal)[0]["workspace"]).resolve()
    assert clew.said(goal)[0] == ["3", goal, 1, str(folder)]


def test_hello_answers_with_the_keys_of_the_contract(clew, played):
    goal = played(
        "say(sorted(h := hello()))\nsay(h['attempt'])\nsay([t['name'] for t in h['tools']])\ndone()\n"
    )
    keys, attempt, tools = clew.said(goal, count=3)
    assert set(keys) >= {
        "goal_id", "epoch", "state", "thresholds", "playbook", "heartbeat_s", "tools", "notes",
        "feedback", "attempt",
    }  # fmt: skip
    assert set(attempt) >= {"n", "limit", "reason", "tried", "rung"}
    assert set(tools) >= {
        "run_cmd", "read_file", "write_file", "edit_file", "list_files", "search", "wait",
        "recall", "finish",
    }  # fmt: skip


ACTS = {"echo hi": ("success", "hi", 0), "echo no >&2; exit 3": ("failure", "no", 3)}


@pytest.mark.parametrize("cmd", ACTS)
def test_act_answers_with_verdict_and_outcome(clew, played, cmd):
    goal = played(f"hello()\na = run({cmd!r})\nsay(a)\ndone()\n")
    (answer,) = clew.said(goal)
    result, output, code = ACTS[cmd]
    assert (answer["verdict"], answer["outcome"]["result"]) == ("allowed", result)
    assert (answer["outcome"]["output"].strip(), answer["outcome"]["exit_code"]) == (output, code)
    assert {"seq", "intervention", "escalated_to"} <= set(answer)
    assert {"duration_s", "changed"} <= set(answer["outcome"])


TOOLS = [
    ("write_file", {"path": "a", "content": "one\ntwo\n"}, "success", "created"),
    ("write_file", {"path": "a", "content": "one\ntwo\n"}, "success", "unchanged"),
    ("read_file", {"path": "a", "start_line": 2}, "success", "two"),
    ("edit_file", {"path": "a", "old": "two", "new": "2"}, "success", "+2"),
    ("edit_file", {"path": "a", "old": "absent", "new": "x"}, "error", "not in a"),
    ("list_files", {}, "success", "a"),
    ("search", {"pattern": "one"}, "success", "a:1"),
    ("read_file", {"path": "/etc/passwd/../shadow"}, "error", ""),
    ("write_file", {"path": "../outside", "content": "x"}, "error", "outside"),
]


def test_the_built_in_tools_do_what_the_table_says(clew, played):
    script = "hello()\n" + "".join(
        f"a = act({tool!r}, **{args!r})['outcome']\nsay([a['result'], a['output'][:200]])\n"
        for tool, args, _, _ in TOOLS
    )
    goal = played(script + "notice('stop')\n")
    for (tool, args, result, part), said in zip(
        TOOLS, clew.said(goal, count=len(TOOLS)), strict=True
    ):
        assert said[0] == result, (tool, args, said)
        assert part in said[1], (tool, args, said)


def test_recall_gives_an_earlier_output_in_full(clew, played):
    goal = played(
        "hello()\nfirst = run('seq 300')\nagain = act('recall', seq=first['seq'])\n"
        "say(again['outcome']['output'] == first['outcome']['output'])\ndone()\n"
    )
    assert clew.said(goal) == [True]


def test_a_path_through_a_link_leads_nowhere(clew, played):
    goal = played(
        "hello()\nrun('ln -s / root')\na = act('write_file', path='root/tmp/x', content='x')\n"
        "say([a['verdict'], a['outcome']['result']])\ndone()\n"
    )
    assert clew.said(goal) == [["allowed", "error"]]


def test_what_a_command_leaves_in_the_background_neither_holds_it_up_nor_outlives_the_epoch(
    clew, played
):
    goal = played(
        "hello()\na = run('sleep 987654 & echo up')\nsay(a['outcome']['output'])\ndone()\n"
    )
    assert clew.said(goal) == ["up\n"]
    clew.wait("goal.completed", goal=goal)
    clew.stop()  # checks that nothing is left


def test_an_action_is_cut_off_at_its_timeout(clew, played):
    goal = played(
        "hello()\na = act('run_cmd', cmd='sleep 600', timeout_s=1)\nsay(a['outcome']['result'])\ndone()\n"
    )
    assert clew.said(goal) == ["timeout"]


PLAN = """
tasks = [{"description": "t", "subtasks": [{"description": "one"}, {"description": "two"}]}]
"""


def test_a_plan_replaces_the_implicit_task_and_starts_its_first_subtask(clew, played):
    goal = played(
        PLAN
        + """
hello()
state = call("plan", tasks=tasks, replan=None)["state"]
say([s["status"] for s in state["goal"]["tasks"][0]["subtasks"]])
try:
    call("plan", tasks=tasks, replan=None)
except RefusedError as error:
    say("refused")
call("complete_subtask", success=True)
say(call("advance")["subtask"]["description"])
call("complete_subtask", success=True)
say(call("advance")["subtask"])
say(call("finish", success=True, summary="x")["accepted"])
"""
    )
    assert clew.said(goal, count=5) == [["in_progress", "pending"], "refused", "two", None, True]
    clew.wait("goal.completed", goal=goal)


def test_finish_is_not_accepted_with_open_subtasks_or_a_failing_check(clew, played):
    goal = played(
        "hello()\nf = call('finish', success=True, summary='x')\nsay([f['accepted'], f['message']])\n"
        "call('complete_subtask', success=True)\nf = call('finish', success=True, summary='x')\n"
        "say([f['accepted'], f['failing_checks']])\nrun('touch made')\n"
        "say(call('finish', success=True, summary='x')['accepted'])\n",
        goal="---\nagent: {}\nchecks: {{made: 'test -f made || echo missing && test -f made'}}\n---\n# Make\n",
    )
    first, second, last = clew.said(goal, count=3)
    assert first[0] is False
    assert second[0] is False
    assert set(second[1][0]) >= {"name", "cmd", "exit_code", "output"}
    assert "missing" in second[1][0]["output"]
    assert last is True


def test_finish_without_success_makes_the_goal_failed(clew, played):
    goal = played("hello()\ncall('finish', success=False, summary='cannot')\n")
    clew.wait("goal.failed", goal=goal)


def test_ask_blocks_the_goal_and_stops_the_worker(clew, played):
    goal = played(
        "hello()\ncall('ask', question='left or right?')\nsay(notice('stop')['reason'])\n"
    )
    clew.wait("goal.blocked", goal=goal)
    assert "left or right?" in clew.report(goal)
    assert clew.said(goal)


def test_own_tools_propose_before_and_report_after(clew, played):
    goal = played(
        """
hello()
for n in range(3):
    p = call("propose", tool="look", args={"at": "x"})
    say([p["verdict"], p.get("reason")])
    if p["verdict"] == "allowed":
        o = call("outcome", seq=p["seq"], result="failure", output="nope")
        call("outcome", seq=p["seq"], result="failure", output="nope")
notice("stop")
""",
        own_tools=True,
    )
    assert clew.said(goal, count=3) == [
        ["allowed", None],
        ["allowed", None],
        ["blocked", "repetition"],
    ]


def test_record_stores_what_was_done_and_says_when_it_was_a_loop(clew, played):
    goal = played(
        """
hello()
for n in range(3):
    r = call("record", tool="look", args={"at": "x"}, result="failure", output="nope")
    say([r["allowed"], r.get("reason")])
notice("stop")
""",
        own_tools=True,
    )
    assert clew.said(goal, count=3) == [[True, None], [True, None], [False, "repetition"]]


def test_a_line_that_breaks_the_protocol_is_a_crash_and_nothing_is_lost(clew, played):
    goal = played(
        "hello()\nif epoch == 1:\n    run('touch kept')\n    raw(b'no json\\n')\n    notice('stop')\ndone()\n"
    )
    clew.wait("goal.completed", goal=goal)
    (end,) = clew.seen("worker.exited", goal=goal, epoch=1)
    assert "protocol" in json.dumps(end)
    assert len(clew.history(goal)) == 1


def test_learn_changes_the_playbook(clew, played):
    goal = played(
        "hello()\np = call('learn', deltas=[{'op': 'add', 'section': 'File Operations', 'content': 'List first'}])\n"
        "say('List first' in str(p['playbook']))\ndone()\n"
    )
    assert clew.said(goal) == [True]
    clew.wait("goal.completed", goal=goal)
    assert "List first" in clew.cli("playbook", "list")


def test_feedback_and_stop_arrive_as_notifications(clew, played):
    goal = played(
        "hello()\nsay('here')\nsay(notice('feedback')['text'])\nsay(sorted(notice('stop')))\n"
    )
    clew.said(goal)
    clew.cli("feedback", goal, "try the other door")
    assert clew.said(goal, count=2)[1] == "try the other door"
    clew.cli("cancel", goal)
    assert set(clew.said(goal, count=3)[2]) >= {"reason", "grace_s"}


def test_an_action_in_flight_when_the_worker_dies_is_interrupted_and_never_silently_run_again(
    clew, played
):
    goal = played(
        "import os\nstate = hello()['state']\nif epoch == 1:\n    import threading\n"
        "    threading.Thread(target=run, args=('echo x >> ran; sleep 600',)).start()\n"
        "    while not os.path.exists('ran'):\n        pass\n    os.kill(os.getpid(), 9)\n"
        "say(state['goal']['tasks'][0]['subtasks'][0]['actions'][-1]['result'])\ndone()\n"
    )
    assert clew.said(goal) == ["interrupted"]
    clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "ran") == ["x"]


def test_an_executor_sees_only_the_environment_of_the_contract(clew, played):
    goal = played(
        "hello()\nsay(sorted(run('env | cut -d= -f1')['outcome']['output'].split()))\ndone()\n"
    )
    allowed = {"PATH", "HOME", "TMPDIR", "LANG", "TERM", "USER", "PWD", "OLDPWD", "SHLVL", "_"} | {
        f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    assert set(clew.said(goal)[0]) <= allowed


def test_the_goals_limit_of_actions_ends_it(clew, played):
    goal = played(
        "hello()\nfor n in range(6):\n    a = run(f'echo {n}')\n    if a['verdict'] == 'blocked':\n"
        "        say(a['reason'])\n        break\nnotice('stop')\n",
        config={"limits.max_actions": 3},
    )
    assert clew.said(goal) == ["budget"]
