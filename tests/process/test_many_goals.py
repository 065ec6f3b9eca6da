"""Many goals at once: each exactly once, four workers side by side, LLM calls by turns."""

GOAL = "# Goal {0}\n\n## Do\n- [ ] It\n  ```sh\n  {1}\n  ```\n"


def test_four_workers_work_at_once_and_the_fifth_waits_its_turn(clew):
    clew.start()
    wait = "touch ready; until test -e go; do sleep 0.02; done"
    goals = [clew.submit(GOAL.format(n, wait), f"{n}.md") for n in range(5)]
    for goal in goals[:4]:
        clew.until(lambda goal=goal: (clew.workspace(goal) / "ready").exists())
    statuses = [clew.goal(goal)["status"] for goal in goals]
    assert statuses == ["in_progress"] * 4 + ["queued"]
    (clew.workspace(goals[0]) / "go").touch()
    clew.until((clew.workspace(goals[4]) / "ready").exists)
    for goal in goals:
        (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", count=5)


def test_a_killed_agent_gives_its_llm_slot_back(clew):
    clew.agent(
        "holder",
        """
        hello()
        call("llm_slot", open=True, base_url="http://localhost:9/v1")
        say(epoch)
        if epoch == 1:
            notice("never")
        done()
        """,
    )
    goal = clew.start().submit("---\nagent: holder\n---\nHold\n")
    clew.said(goal)
    clew.kill_agent(goal)
    clew.wait("goal.completed", goal=goal)
