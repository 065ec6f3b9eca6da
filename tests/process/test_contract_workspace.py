"""A workspace that is removed under a running goal: every action says so, none seems to succeed."""

import shutil


def test_actions_in_a_workspace_that_was_removed_are_errors_that_say_so(clew):
    clew.agent(
        "worker",
        """
        hello()
        act("write_file", path="here", content="x")
        say("made")
        notice("feedback")
        for tool, args in (("run_cmd", {"cmd": "pwd"}), ("list_files", {}), ("read_file", {"path": "here"})):
            outcome = act(tool, **args)["outcome"]
            say([outcome["result"], "was removed" in outcome["output"]])
        call("finish", success=False, summary="no workspace")
        """,
    )
    clew.start()
    goal = clew.submit("---\nagent: worker\nchecks: {any: 'true'}\n---\n# Work\n")
    clew.said(goal)
    shutil.rmtree(clew.workspace(goal))
    clew.ask("feedback", goal=goal, text="go on")
    clew.wait("goal.failed", goal=goal)
    assert clew.said(goal, count=4)[1:] == [["error", True]] * 3
