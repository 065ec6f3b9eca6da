"""Section 12: attempts, snapshots, diff and undo."""

import json
import subprocess

GOAL = "---\nagent: tries\nattempts: 2\n---\n# Try\n"


def test_an_attempt_starts_over_with_what_was_tried_and_is_no_restart(clew):
    clew.agent(
        "tries",
        """
        a = hello()["attempt"]
        say([a["n"], a["limit"], bool(a["reason"]), bool(a["tried"])])
        run("false")
        try:
            for _ in range(2):
                call("complete_subtask", success=False, failure="no luck")
        except RefusedError:
            pass
        say(notice("stop")["reason"])
        """,
    )
    goal = clew.start().submit(GOAL)
    assert clew.said(goal, count=3)[:3] == [[1, 2, False, False], "attempt", [2, 2, True, True]]
    assert clew.goal(goal)["restarts"] == 0
    assert clew.goal(goal)["attempt"] in (2, {"n": 2, "limit": 2})


def test_diff_shows_and_undo_reverts_and_an_undo_can_be_undone(clew):
    clew.start()
    place = clew.folder / "ws"
    place.mkdir()
    (place / "kept").write_text("old\n")
    goal = clew.completed(
        f"---\nworkspace: {place}\n---\n# Change\n- [ ] it\n  ```sh\n  echo new > kept; echo x > made\n  ```\n"
    )
    shown = clew.cli("diff", goal)
    assert "-old" in shown
    assert "+new" in shown
    clew.cli("undo", goal, "--yes")
    assert ((place / "kept").read_text(), (place / "made").exists()) == ("old\n", False)
    clew.cli("undo", goal, "--yes")
    assert ((place / "kept").read_text(), (place / "made").exists()) == ("new\n", True)


def test_what_someone_else_changed_is_never_overwritten(clew):
    clew.agent(
        "pair",
        "hello()\nrun('echo mine > a')\nsay('first')\nnotice('feedback')\nrun('echo more > b')\ndone()\n",
    )
    goal = clew.start().submit("---\nagent: pair\n---\n# Pair\n")
    clew.said(goal)
    (clew.workspace(goal) / "theirs").write_text("by hand\n")
    clew.cli("feedback", goal, "go on")
    clew.wait("goal.completed", goal=goal)
    clew.cli("undo", goal, "--yes")
    left = {path.name for path in clew.workspace(goal).iterdir()} - {".agent_context"}
    assert left == {"theirs"}


def test_the_users_repository_is_untouched_by_snapshots(clew):
    place = clew.folder / "repo"
    place.mkdir()

    def git(*args):
        return subprocess.run(
            ["git", "-C", place, "-c", "user.name=n", "-c", "user.email=e@x", *args],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    git("init", "-q")
    (place / "a").write_text("a\n")
    git("add", "a")
    git("commit", "-qm", "first")
    before = [
        git("status", "--porcelain=v2", "--branch"),
        git("for-each-ref"),
        git("count-objects", "-v"),
    ]
    clew.start()
    goal = clew.submit(f"---\nworkspace: {place}\n---\n# Look\n- [ ] it\n  ```sh\n  cat a\n  ```\n")
    clew.wait("goal.completed", goal=goal)
    assert before == [
        git("status", "--porcelain=v2", "--branch"), git("for-each-ref"), git("count-objects", "-v"),
    ]  # fmt: skip


def test_ignored_files_are_in_no_snapshot_and_diff_says_so(clew):
    clew.start()
    place = clew.folder / "ws"
    place.mkdir()
    (place / ".gitignore").write_text("secret*\n")
    goal = clew.completed(
        f"---\nworkspace: {place}\n---\n# Change\n- [ ] it\n  ```sh\n  echo x > secret.txt; echo y > seen\n  ```\n"
    )
    said = clew.cli("diff", goal)
    assert "seen" in said
    assert "ignore" in said.lower()
    clew.cli("undo", goal, "--yes")
    assert (place / "secret.txt").exists()


def test_diff_as_json_names_the_files(clew):
    goal = clew.start().completed("# Change\n- [ ] it\n  ```sh\n  echo x > made\n  ```\n")
    assert "made" in json.dumps(json.loads(clew.cli("diff", goal, "--json")))
