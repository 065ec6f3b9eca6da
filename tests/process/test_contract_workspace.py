"""A workspace that is removed under a running goal: the action says so, and a person is asked."""

from harness import remove_at_once


def test_an_action_in_a_workspace_that_was_removed_is_an_error_and_the_goal_waits_for_a_person(
    clew,
):
    clew.agent(
        "worker",
        """
        hello()
        act("write_file", path="here", content="x")
        say("made")
        notice("feedback")
        outcome = act("run_cmd", cmd="pwd")["outcome"]
        say([outcome["result"], "was removed" in outcome["output"]])
        notice("stop")
        """,
    )
    clew.start()
    goal = clew.submit("---\nagent: worker\nchecks: {any: 'true'}\n---\n# Work\n")
    clew.said(goal)
    remove_at_once(clew.workspace(goal))
    clew.ask("feedback", goal=goal, text="go on")
    assert clew.wait("goal.blocked", goal=goal)["reason"] == "the workspace is gone"
    assert clew.said(goal, count=2)[1:] == [["error", True]]
