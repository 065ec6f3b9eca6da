"""What each action changed, as history.jsonl and `clew history` show it."""

import json

RUNBOOK = r"""# Change files
## Do it
- [ ] it
  ```sh
  mkdir -p src && printf one > src/a && printf odd > "$(printf 'o\nd\377d')"
  ```
  ```sh
  cat src/a
  ```
  ```sh
  rm -r src && for i in $(seq 150); do : > $(printf 'n%03d' $i); done
  ```
"""


def test_history_has_the_paths_that_each_command_changed(clew):
    goal = clew.start().submit(RUNBOOK)
    clew.wait("goal.completed", goal=goal)
    clew.stop()
    paths = [line["paths"] for line in clew.history(goal)]
    assert paths == [
        ["o\nd\ufffdd", "src", "src/a"],
        [],
        [f"n{number:03}" for number in range(1, 101)],
    ]
    shown = json.loads(clew.cli("history", goal, "--json"))["actions"]
    assert [action["paths"] for action in shown] == paths
    first = json.loads(clew.cli("show", goal, str(shown[0]["seq"]), "--json"))["action"]
    assert first["paths"] == paths[0]


def test_an_agent_with_its_own_tools_is_credited_with_what_changes_while_it_acts(clew):
    clew.agent(
        "own",
        """
        hello()
        Path("before.txt").write_text("while it thinks")
        first = call("propose", tool="edit", args={"path": "a.txt"})["seq"]
        second = call("propose", tool="edit", args={"path": "b.txt"})["seq"]
        Path("a.txt").write_text("one")
        Path("b.txt").write_text("two")
        call("outcome", seq=first, result="success", changed=True)
        Path("b.txt").write_text("more")
        call("outcome", seq=second, result="success")
        Path("c.txt").write_text("three")
        call("record", tool="edit", args={"path": "c.txt"}, result="success")
        done(); call("advance"); done()
        """,
        own_tools=True,
    )
    goal = clew.start().submit("---\nagent: own\n---\n# Do it\n")
    clew.wait("goal.completed", goal=goal)
    clew.stop()
    assert [line["paths"] for line in clew.history(goal)] == [
        ["a.txt", "b.txt"],
        ["b.txt"],
        ["c.txt"],
    ]
