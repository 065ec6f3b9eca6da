"""Section 8: loops, blocks and escalation, by a worker that goes in circles."""

import pytest

GOAL = "---\nagent: looper\n---\n# Loop\n"


@pytest.fixture
def loop(clew):
    def play(script, config=None, goal=GOAL):
        clew.agent("looper", "hello()\n" + script + "\nnotice('stop')\n", own_tools=True)
        clew.configure(config or {})
        clew.start()
        return clew.submit(goal)

    return play


STEP = """
def step(tool, args, result="failure", output="nope", changed=False):
    p = call("propose", tool=tool, args=args)
    if p["verdict"] == "allowed":
        o = call("outcome", seq=p["seq"], result=result, output=output, changed=changed)
        return ["allowed", (o["intervention"] or p["intervention"] or {}).get("kind")]
    return ["blocked", p["reason"]]
"""


LOOK = "'look', {'at': 1}"
RULES = {  # the call, how often, the config; which are allowed and which blocked, and why
    "the third identical action is refused": (LOOK, 3, {}, "aab", "repetition"),
    "reading passes once more with a word": (f"{LOOK}, 'success', 'same'", 4, {}, "aaab", "repetition"),
    "alternation without progress is refused":
        ("'ab'[n % 2], {}, 'success', 'ab'[n % 2]", 6, {"loops.repeat_limit": 9}, "aaaaab", "alternation"),
    "a cycle of three without progress is refused":
        ("'abc'[n % 3], {}, 'success', 'abc'[n % 3]", 9, {"loops.repeat_limit": 9}, "aaaaaaaab", "cycle"),
    "progress is no loop": (f"{LOOK}, 'success', f'{{n}} of 9 and more'", 6, {}, "aaaaaa", ""),
    "a temporary fault has more patience":
        ("'fetch', {}, 'failure', '503 Service Unavailable'", 6, {}, "aaaaab", "repetition"),
    "so has a fault of a server": ("'fetch', {}, 'failure', 'HTTP 500: oops'", 6, {}, "aaaaab", "repetition"),
    "plain counts without progress awareness":
        (f"{LOOK}, 'success', f'{{n}} other'", 3, {"loops.progress_aware": False}, "aab", "repetition"),
    "a tool may have its own limit": (LOOK, 5, {"loops.tools.look.repeat_limit": 5}, "aaaab", "repetition"),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_loops_are_refused_and_progress_is_not(clew, loop, rule):
    call, often, config, marks, reason = RULES[rule]
    goal = loop(f"{STEP}say([step({call}) for n in range({often})])", config)
    said = clew.said(goal)[0]
    assert "".join(verdict[0] for verdict, _ in said) == marks
    assert not reason or said[-1] == ["blocked", reason]
    assert bool(clew.goal(goal)["blocked_actions"]) is bool(reason)
    assert "reading" not in rule or said[2][1]


def test_a_block_outlives_the_worker_and_the_daemon(clew, loop):
    goal = loop(STEP + "say([step('look', {'at': 1})[0] for _ in range(3 if epoch == 1 else 1)])")
    assert clew.said(goal)[0][-1] == "blocked"
    clew.kill_agent(goal)
    assert clew.said(goal, count=2)[1] == ["blocked"]
    clew.kill()
    clew.start()
    assert clew.said(goal, count=3)[2] == ["blocked"]


def test_a_block_does_not_hold_in_another_world(clew, loop):
    goal = loop(
        STEP + "v = [step('look', {'at': 1})[0] for _ in range(3)]\n"
        "import pathlib\npathlib.Path('new').write_text('x')\nstep('make', {}, 'success', 'made', True)\n"
        "say([v[-1], step('look', {'at': 1})[0]])"
    )
    assert clew.said(goal) == [["blocked", "allowed"]]


def test_a_person_lifts_a_block(clew, loop):
    goal = loop(
        STEP + "say([step('look', {'at': 1})[0] for _ in range(3)][-1])\nnotice('feedback')\n"
        "say(step('look', {'at': 1})[0])"
    )
    clew.said(goal)
    clew.cli("unblock", goal, clew.goal(goal)["blocked_actions"][0])
    clew.cli("feedback", goal, "go on")
    assert clew.said(goal, count=2) == ["blocked", "allowed"]


def test_refused_actions_proposed_again_block_the_subtask_and_a_replan_is_asked_for(clew, loop):
    goal = loop(
        STEP + "say([step('look', {'at': 1})[1] for _ in range(7)][-1])\n"
        "plan = [{'description': 'other', 'subtasks': [{'description': 'way'}]}]\n"
        "s = call('plan', tasks=plan, replan='task')['state']\nsay([t['description'] for t in s['goal']['tasks']])"
    )
    assert clew.said(goal)[0] == "replan_required"
    assert clew.said(goal, count=2)[1]


def test_two_failures_of_a_subtask_block_it(clew, loop):
    goal = loop(
        "call('complete_subtask', success=False, failure='no')\n"
        "say(call('complete_subtask', success=False, failure='no')['escalated_to'])"
    )
    assert clew.said(goal) == ["task"]


def test_an_action_in_flight_at_two_deaths_is_refused_in_every_world(clew, loop):
    goal = loop(
        "import os\np = call('propose', tool='boom', args={})\nsay([p['verdict'], p.get('reason')])\n"
        "if p['verdict'] == 'allowed':\n    os.kill(os.getpid(), 9)"
    )
    assert clew.said(goal, count=3) == [["allowed", None], ["allowed", None], ["blocked", "crash"]]


CIRCLES = {
    "repeated_planning": "think', text=f'Hm {n}.', has_tool_calls=False",
    "theme": "think', text=f'I will search for part {n} of it.', has_tool_calls=True",
    "stuck": "reflect', iteration=n, tool_calls=[], progress_assessment='stuck'",
}


@pytest.mark.parametrize("kind", CIRCLES)
def test_turns_in_circles_are_answered_with_an_intervention(clew, loop, kind):
    goal = loop(
        f"say([(call('{CIRCLES[kind]})['intervention'] or {{}}).get('kind') for n in range(6)])"
    )
    assert kind in clew.said(goal)[0]


@pytest.mark.parametrize("patience", ["", "patience: 0\n"])
def test_steps_that_bring_nothing_new_are_told_with_the_facts_unless_that_is_off(
    clew, loop, patience
):
    goal = loop(
        STEP + "step('cat', {'f': 'a'}, 'success', 'one\\ntwo\\nthree')\n"
        "say([step('sed', {'f': 'a', 'n': n}, 'success', 'one\\ntwo') for n in range(8)])",
        goal=f"---\nagent: looper\n{patience}---\n# Loop\n",
    )
    said = clew.said(goal)[0]
    assert {v for v, _ in said} == {"allowed"}
    assert ("nothing_new" in [kind for _, kind in said]) is not bool(patience)
    assert patience or "nothing" in clew.cli("loops", goal)
