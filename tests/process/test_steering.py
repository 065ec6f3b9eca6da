"""What people ask of goals: by name, of several at once, and of a goal that has ended."""

import json
import tempfile
from pathlib import Path

import pytest

from clew_shared.ledger.reader import Reader
from clew_shared.record.codec import OUTLINE_VERSION

PATIENT = """
hello()
say("here")
notice("stop")
"""

WORKS = """
found = hello()
say({"feedback": found["feedback"], "open": [
    s["description"] for t in found["state"]["goal"]["tasks"] for s in t["subtasks"]
    if s["status"] != "completed"]})
run(f"echo {found['epoch']} >> worked")
call("complete_subtask", success=True)
say(done())
"""


def outlines(clew):
    with Reader.open(clew.ledger) as reader:
        return [*reader.last_snapshots(OUTLINE_VERSION)]


def text(name, agent, front="", title="Work"):
    return f"---\nname: {name}\nagent: {agent}\n{front}---\n# {title}\n\n## Do\n- [ ] It\n"


@pytest.fixture
def working(clew):
    """Three goals named a, b and c whose agents wait to be stopped; their ids by name."""
    clew.agent("patient", PATIENT)
    clew.start()
    goals = {name: clew.submit(text(name, "patient"), f"{name}.md") for name in "abc"}
    for goal in goals.values():
        clew.said(goal)
    return goals


def test_several_goals_are_paused_resumed_and_cancelled_by_name_each_with_a_line(clew, working):
    a, b, c = working.values()
    assert clew.cli("pause", "a", b).splitlines() == [f"{a}: paused", f"{b}: paused"]
    said = clew.cli("pause", "a", "nobody", "c", code=1).splitlines()
    assert f"{c}: paused" in said
    assert any(f"{a} is paused; there is nothing to pause" in line for line in said)
    assert any("no goal 'nobody'" in line for line in said)
    assert clew.cli("pause", "--all") == "no goal to pause\n"
    assert clew.cli("resume", "--all").splitlines() == [
        *(f"{goal}: resumed" for goal in (a, b, c)),
        "3 goals resumed",
    ]
    assert clew.cli("cancel", "--all").splitlines()[-1] == "3 goals cancelled"
    assert {goal["status"] for goal in clew.goals().values()} == {"cancelled"}
    assert clew.cli("cancel", "--all") == "no goal to cancel\n"
    assert "already cancelled" in clew.cli("cancel", "a", code=1)
    assert clew.cli("retry", "c", "b") == f"{c}: queued again\n{b}: queued again\n"


STOPS = """
hello()
name = os.environ["CLEW_GOAL_ID"].split("-")[0]
if epoch == 1:
    if name == "failed":
        call("finish", success=False, summary="no")
    elif name == "waiting":
        os._exit(75)
    elif name == "asked":
        call("ask", question="which one?")
    else:
        say("here")
    notice("stop")
done(); call("advance"); done()
"""


def test_continue_goes_on_with_a_goal_whatever_stopped_it(clew):
    clew.agent("stops", STOPS)
    clew.configure(
        {"restart.backoff_initial_s": 60, "restart.backoff_max_s": 60, "restart.max_restarts": 0}
    )
    clew.start()
    names = ("paused", "failed", "cancelled", "waiting", "asked", "crashed")
    goals = {name: clew.submit(text(name, "stops"), f"{name}.md") for name in names}
    for name in ("paused", "cancelled", "crashed"):
        clew.said(goals[name])
    clew.cli("pause", "paused")
    clew.cli("cancel", "cancelled")
    clew.kill_agent(goals["crashed"])
    stopped = {"paused": "waiting", "asked": "blocked", "crashed": "blocked"}
    for name, goal in goals.items():
        status = stopped.get(name, name)
        clew.until(lambda goal=goal, status=status: clew.goal(goal)["status"] == status, name)
    assert "… 1 more goal that failed: clew status" in clew.cli("status", "-n", "1")
    told = clew.cli("continue", "--all").splitlines()
    assert goals["cancelled"] not in "".join(told)
    assert told[-1] == "5 goals continued"
    assert clew.cli("continue", "cancelled") == f"{goals['cancelled']}: continues\n"
    for goal in goals.values():
        clew.wait("goal.completed", goal=goal)
    assert "is completed; say first what is missing" in clew.cli("continue", "paused", code=1)


def test_a_name_means_the_living_goal_or_the_newest_one_and_an_older_one_cannot_take_it_back(clew):
    clew.agent("patient", PATIENT)
    old = clew.start().submit(text("tea", "patient"), "a.md")
    clew.said(old)
    clew.drop(text("tea", "patient"), "b.md")
    error = clew.home / "inbox" / "rejected" / "b.md.error.txt"
    clew.until(error.exists, "the rejection")
    assert f"line 2: `name` tea is in use by {old}" in error.read_text()
    clew.cli("cancel", "tea")
    new = clew.submit(text("tea", "patient"), "c.md")
    assert clew.ask("status", goal="tea")["goal"]["id"] == new
    assert f"its name tea is in use by {new}" in clew.cli("retry", old, code=1)
    clew.cli("cancel", "tea")
    assert json.loads(clew.cli("status", "tea", "--json"))["goal"]["id"] == new
    clew.cli("retry", old)
    clew.said(old, count=2)
    assert clew.ask("status", goal="tea")["goal"]["id"] == old
    assert json.loads(clew.cli("status", "tea", "--json"))["goal"]["id"] == old
    clew.stop()
    assert json.loads(clew.cli("status", "tea", "--json"))["goal"]["id"] == old
    assert clew.verified()


@pytest.mark.parametrize("outlined", [False, True], ids=["at once", "long after"])
def test_a_completed_goal_goes_on_with_feedback(clew, outlined):
    """`feedback` of a completed goal said to retry it, and `retry` that there was nothing to retry."""
    clew.agent("worker", WORKS)
    checks = "checks: {worked: test -e worked}\n"
    goal = clew.start().completed(text("tea", "worker", checks))
    clew.report(goal)
    refused = clew.cli("retry", "tea", code=1)
    assert "is completed; say first what is missing (`clew feedback tea …`)" in refused
    if outlined:  # in memory there is nothing but its outline
        clew.until(lambda: goal in outlines(clew), "the outline")
    said = clew.cli("feedback", "tea", "also with milk\nand sugar")
    assert said == f"{goal}: recorded; `clew continue tea` continues it\n"
    assert clew.goal(goal)["status"] == "completed"
    if outlined:  # what was given in an earlier life counts as well
        clew.kill()
        clew.start()
    since = clew.now()
    assert clew.cli("retry", "tea") == f"{goal}: queued again\n"
    clew.wait("goal.completed", goal=goal, since=since)
    found = clew.said(goal, count=4)[2]
    assert found == {"feedback": ["also with milk\nand sugar"], "open": ["also with milk"]}
    assert len(clew.lines(goal, "worked")) == 2
    shown = clew.ask("status", goal=goal)["goal"]
    assert shown["verified"] is True
    assert [task["description"] for task in shown["goal"]["tasks"]] == ["Do", "Feedback"]
    assert "say first what is missing" in clew.cli("retry", "tea", code=1)
    clew.stop()
    assert clew.verified()


STEPS = """\
---
name: work
checks: {{made: test -f made}}
---
# Work
## Do
- [ ] One step after the other
  ```sh
  echo one >> ran
  ```
  ```sh
  {second}
  ```
"""


def test_a_step_that_a_person_has_edited_is_carried_out_and_what_was_done_stays(clew, monkeypatch):
    goal = clew.start().submit(STEPS.format(second="cp absent made"))
    clew.wait("goal.blocked", goal=goal)
    monkeypatch.setattr(tempfile, "tempdir", str(clew.folder))
    monkeypatch.setenv("VISUAL", "sed -i 's/^checks:.*/checks: 7/'")
    said = clew.cli("edit", "work", code=1)
    assert "line 3" in said
    assert "checks: 7" in Path(said.split()[-1]).read_text()  # what was written is kept
    monkeypatch.setenv("VISUAL", "sed -i 's/cp absent made/touch made; echo two >> ran/'")
    assert (
        clew.cli("edit", "work")
        == f"{goal}: changed: tasks; continue it with `clew continue work`\n"
    )
    clew.stop()
    clew.start()  # it is on record
    clew.cli("continue", "work")
    clew.wait("goal.completed", goal=goal)
    assert (clew.workspace(goal) / "ran").read_text() == "one\ntwo\n"
    assert clew.verified()
    assert "is completed: submit another goal" in clew.cli("edit", "work", code=1)


def test_a_goal_is_edited_only_while_none_of_its_actions_runs_and_its_agent_hears_of_it(
    clew, monkeypatch
):
    clew.agent("worker", WORKS)
    clew.start()
    goal = clew.submit("---\nname: tea\nagent: worker\nnot_before: 2099-01-01\n---\nMake tea.\n")
    monkeypatch.setenv("EDITOR", "true")
    assert clew.cli("edit", "tea") == f"{goal}: nothing was changed\n"
    changed = clew.folder / "changed.md"
    front = "name: tea\nagent: worker\nmax_iterations: 7\nchecks: {made: test -f worked}\n"
    changed.write_text(f"---\n{front}---\nMake green tea.\n")
    said = clew.cli("edit", "tea", "--file", str(changed))
    assert said == f"{goal}: changed: text, checks, max_iterations, not_before\n"
    told = clew.said(goal)[0]
    assert "It now reads:\nMake green tea." in told["feedback"][0]
    assert "- made: test -f worked" in told["feedback"][0]
    assert told["open"] == ["Make green tea."]
    assert clew.wait("goal.completed", goal=goal)["verified"] is True
