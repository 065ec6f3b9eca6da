"""Goals that are let go after `keep_days`: what stays, what says so, and a daemon that dies on the way."""

import json
import os

GOAL = "# Goal {0}\n\n## Do\n- [ ] It\n  ```sh\n  head -c 60000 /dev/urandom | base64 -w0\n  ```\n"
SOON = 1e-9  # days


def ended(clew, count: int) -> list[str]:
    """Let some goals end, and their reports be written."""
    goals = [clew.submit(GOAL.format(n), f"{n}.md") for n in range(count)]
    for goal in goals:
        clew.wait("goal.completed", goal=goal)
        clew.report(goal)
    return goals


def folders(clew) -> set[str]:
    return {path.name for path in (clew.home / "state" / "goals").iterdir()}


def test_goals_are_let_go_when_their_time_is_over_and_all_says_so(clew):
    first, second = ended(clew.start(), 2)
    waiting = clew.submit(
        f"---\ndepends_on: [{second}]\nnot_before: 2126-01-01T00:00:00Z\n---\n# Later\n", "later.md"
    )
    strategies = clew.folder / "strategies.json"
    lesson = {"id": "tes-1", "section": "Tests", "content": "Run the tests", "helpful": 3}
    strategies.write_text(json.dumps({"bullets": [lesson]}))
    clew.cli("playbook", "import", str(strategies))
    assert clew.stop() == 0
    clew.configure({"ledger.keep_days": SOON})
    clew.start()
    clew.wait("goal.forgotten", goal=first)
    assert set(clew.goals()) == {second, waiting}  # the other is awaited
    clew.until(clew.answers)
    for command in ("status", "history", "retry"):
        assert "was deleted" in clew.cli(command, first, code=1)
    assert "Run the tests" in clew.cli("playbook", "list")
    assert clew.report(first)
    clew.until(lambda: first not in folders(clew), "the folder goes")
    clew.until(
        lambda: not (clew.home / "state" / "snapshots" / first).exists(), "and its snapshots"
    )
    assert clew.stop() == 0
    assert clew.verified()


def test_a_folder_that_is_of_no_goal_on_record_is_never_removed(clew):
    """It may hold the last copy of a goal file."""
    (goal,) = ended(clew.start(), 1)
    assert clew.stop() == 0
    unknown = clew.home / "state" / "goals" / "moved here by hand"
    unknown.mkdir()
    (unknown / "goal.md").write_text("# Unknown\n")
    os.utime(unknown, (1, 1))
    clew.configure({"ledger.keep_days": SOON})
    clew.start()
    clew.wait("goal.forgotten", goal=goal)
    clew.until(lambda: goal not in folders(clew), "the folder of the goal goes")
    assert clew.stop() == 0
    assert folders(clew) == {unknown.name}
