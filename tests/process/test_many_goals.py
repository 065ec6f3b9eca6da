"""Many goals at once: each exactly once, four workers side by side, LLM calls by turns."""

import itertools

GOAL = "# Goal {0}\n\n## Do\n- [ ] It\n  ```sh\n  {1}\n  ```\n"


def test_two_hundred_files_at_once_are_each_accepted_exactly_once(clew):
    front = "---\nnot_before: 2126-01-01T00:00:00Z\n---\n"
    clew.start()
    for number in range(200):
        clew.drop(front + GOAL.format(number, "true"), f"goal-{number:03}.md")
    clew.wait("goal.accepted", count=200)
    assert {e["file"] for e in clew.seen("goal.accepted")} == {
        f"goal-{number:03}.md" for number in range(200)
    }
    assert len(clew.goals()) == 200
    clew.until(lambda: not list((clew.home / "inbox").glob("*.md")))


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


def test_twelve_goals_complete_side_by_side_whose_workers_are_killed_on_the_way(clew):
    clew.start()
    goals = [
        clew.submit(GOAL.format(n, f"sleep 0.1; echo {n} >> out"), f"{n}.md") for n in range(12)
    ]
    for count in (1, 3, 5):
        victim = clew.wait("worker.ready", count=count)["goal"]
        if not clew.seen("goal.completed", goal=victim):
            try:
                clew.kill_agent(victim)
            except ProcessLookupError:
                continue  # it was faster
    clew.wait("goal.completed", count=12)
    for number, goal in enumerate(goals):
        assert set(clew.lines(goal, "out")) == {str(number)}


def test_no_more_llm_calls_are_open_at_an_endpoint_than_there_are_slots(clew):
    clew.agent(
        "caller",
        """
        import time
        hello()
        endpoint = "http://127.0.0.1:9/v1"
        for _ in range(3):
            call("llm_slot", open=True, base_url=endpoint)
            began = time.monotonic()
            time.sleep(0.05)  # an LLM thinks
            ended = time.monotonic()
            call("llm_slot", open=False)
            say([began, ended])
        done()
        """,
    )
    clew.start()
    goals = [clew.submit(f"---\nagent: caller\n---\nCall {n}\n", f"{n}.md") for n in range(4)]
    clew.wait("goal.completed", count=4)
    spans = sorted(span for goal in goals for span in clew.said(goal, count=3))
    assert len(spans) == 12
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


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
