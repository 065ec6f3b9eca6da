"""Agents that tell odd things of their turns: refused or taken as they are, never a fault of the daemon."""

import pytest

GOAL = "---\nagent: odd\n---\n# Do it\n"

ODD_TURNS = [
    {"seq": "abc"},
    {"args": "no names with values"},
    {"seq": -(10**30), "name": ["x"], "exit_code": "q"},
    {"role": ["user"], "text": {"a": [1]}},
    {"seq": True},
    {"seq": 999_999},
]


@pytest.mark.parametrize("item", ODD_TURNS, ids=str)
def test_an_odd_turn_on_record_does_not_keep_the_goal_from_being_told_of(clew, item):
    clew.agent(
        "odd",
        f"""
        hello()
        run("true")
        call("reflect", turn=[{item!r}], prompt={{"folded": 10**9}})
        say(len(hello()["state"]["transcript"]) > 0)
        call("finish", success=False)
        """,
    )
    goal = clew.start().submit(GOAL)
    clew.wait("goal.failed", goal=goal)
    assert clew.said(goal) == [True]
