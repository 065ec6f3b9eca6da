"""Strategies across goals: learned from runs, shown to the next agent, credited once by what was verified."""

import json
import os

from clew_daemon.learning.playbook import playbook_events
from clew_shared.ledger.reader import Reader

TEACHER = """
hello()
call("learn", deltas=[{"op": "add", "section": "testing", "content": "Run one test alone first"}])
call("finish", success=False)
"""
READER = """
shown = hello()["playbook"]
say([[bullet["id"], bullet["content"]] for bullet in shown])
run("test -f made || touch made")
done()
"""
CHECKED = "---\nagent: reader\nchecks: {made: test -f made}\n---\nMake it\n"


def taught(clew):
    """A daemon whose playbook has one strategy."""
    clew.agent("teacher", TEACHER)
    clew.agent("reader", READER)
    goal = clew.start().submit("---\nagent: teacher\n---\nTeach\n", "teach.md")
    clew.wait("goal.failed", goal=goal)
    return clew


def events(clew):
    with Reader.open(clew.ledger) as reader:
        return [event for _, event in playbook_events(reader)]


def strategies(clew, *args):
    return json.loads(clew.clew("playbook", "list", "--json", *args))


def test_a_learned_strategy_is_shown_to_the_next_goals_agent_and_passing_checks_credit_it(clew):
    goal = taught(clew).submit(CHECKED)
    clew.wait("goal.completed", goal=goal)
    assert clew.said(goal) == [[["tes-00001", "Run one test alone first"]]]
    tagged = clew.wait("strategy.tagged", id="tes-00001")
    assert (tagged["tag"], tagged["goal"]) == ("helpful", goal)
    assert [one["helpful"] for one in strategies(clew)["bullets"] if one["id"] == "tes-00001"] == [
        1
    ]
    clew.stop()
    assert clew.verified()


def test_a_run_teaches_what_it_did_and_show_says_from_what(clew):
    goal = clew.start().submit(
        "---\nchecks: {ok: test -f a.py}\n---\n# Write\n\n## S\n- [ ] It\n"
        "  ```python file=a.py\n  x = 1\n  ```\n  ```sh\n  python3 -m unittest; true\n  ```\n"
    )
    learned = clew.wait("strategy.learned", goal=goal)
    assert learned["content"] == "Run tests after code changes"
    shown = json.loads(clew.clew("playbook", "show", learned["id"], "--json"))
    assert shown["source"]["goal"] == goal
    assert len(shown["source"]["action_seqs"]) == 2
    assert "unittest" in shown["source"]["evidence"]


def test_switched_off_it_learns_nothing_and_shows_nothing(clew):
    taught(clew).configure({"playbook.enabled": False})
    clew.clew("reload")
    again = clew.submit("---\nagent: teacher\n---\nTeach\n", "again.md")
    clew.wait("goal.failed", goal=again)
    goal = clew.completed(CHECKED)
    assert clew.said(goal) == [[]]
    clew.stop()
    assert [event.kind for event in events(clew)] == ["bullet_added"]


def test_a_person_prunes_exports_imports_and_removes(make_clew):
    clew = taught(make_clew())
    (clew.home / "out.json").write_text(clew.clew("playbook", "export"))
    quitter = clew.agent("quitter", 'hello()\ncall("finish", success=False)\n')
    clew.stop()
    goal = clew.start().submit(f"---\nagent: {quitter}\nchecks: {{ok: test -f a}}\n---\nQuit\n")
    clew.wait("strategy.tagged", goal=goal)
    assert "tes-00001" in clew.clew("playbook", "prune")
    before = clew.clew("playbook", "list", "--json")
    clew.clew("playbook", "import", str(clew.home / "out.json"))
    assert clew.clew("playbook", "list", "--json") == before  # it stays away
    assert "not JSON" in clew.clew("playbook", "import", os.devnull, code=1)
    clew.stop()
    assert json.loads(before) == strategies(clew)
    assert "no daemon" in clew.clew("playbook", "prune", code=3)

    other = make_clew(name="other").start()
    for done in ("1 added", "1 already known"):
        assert done in other.clew("playbook", "import", str(clew.home / "out.json"))
    mine, theirs = strategies(clew)["archived"], strategies(other)["bullets"]
    assert [(one["id"], one["content"]) for one in theirs] == [
        (one["id"], one["content"]) for one in mine
    ]
    kept = json.loads((clew.home / "out.json").read_text())["bullets"]
    assert [one | {"updated_at": ""} for one in theirs] == [
        one | {"updated_at": ""} for one in kept
    ]
    other.clew("playbook", "remove", "tes-00001")
    assert strategies(other)["bullets"] == []
    assert "no strategy" in other.clew("playbook", "remove", "tes-00001", code=1)
    other.stop()
