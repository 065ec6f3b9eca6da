"""Snapshots in a goal's whole life with the real daemon: when they are taken, what is shown, and what harms none."""

import json
import shutil

import pytest
from harness import runbook

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def moments(clew, goal):
    return [event["moment"] for event in clew.seen("snapshot.taken", goal=goal)]


def start_with_git(clew, path):
    """Start a daemon that finds no git but this one, wherever the real one is."""
    patch = f"from clew_daemon.host import git\ngit.SYSTEM_GIT = ({str(path)!r},)"
    clew.start_patched(patch, PATH="/nowhere")


def finished(clew, *commands, status="completed", **kwargs):
    goal = clew.submit(runbook(*commands, **kwargs))
    clew.wait(f"goal.{status}", goal=goal)
    return goal


def store_of(clew, goal):
    return clew.home / "state" / "snapshots" / goal


def test_a_goal_has_a_snapshot_of_its_start_of_each_subtask_and_of_its_end(clew):
    clew.configure({"log.level": "debug"})
    goal = finished(clew.start(), "echo a > a", "echo b > b; rm a")
    report = clew.report(goal)
    found = moments(clew, goal)
    assert found[0] == "goal"
    assert found.count("subtask") >= 2
    order = [e["event"] for e in clew.events if e.get("goal") == goal]
    assert order.index("snapshot.taken") < order.index("action.finished")
    assert "## Files changed\n\n1 file, +1 -0" in report
    assert "- `b`, +1 -0" in report
    assert clew.stop() == 0
    assert clew.verified()


def changed(report):
    """The report's section on files."""
    return report.partition("## Files changed\n\n")[2].partition("\n\n## ")[0]


def test_what_was_changed_is_in_the_report_of_a_goal_that_is_blocked(clew):
    goal = finished(clew.start(), "echo new > made", "echo more > more; exit 1", status="blocked")
    clew.until(lambda: "status: **blocked" in clew.report(goal), "the report")
    found = changed(clew.report(goal))
    assert "- `made`, +1 -0" in found
    assert "- `more`, +1 -0" in found


def test_without_git_there_is_no_snapshot_and_the_goal_goes_on(clew):
    start_with_git(clew, "/nowhere/git")
    goal = finished(clew, "echo a > a", "echo b > b")
    assert "not known: git is not installed" in clew.report(goal)
    assert [e["reason"] for e in clew.seen("snapshot.missing", goal=goal)] == [
        "git is not installed"
    ]
    assert "no snapshot: git is not installed" in clew.cli("status", goal)


@pytest.mark.parametrize("date", ["1601-01-01", "@99999999999999"])
def test_a_file_of_any_date_holds_up_neither_actions_nor_snapshots_nor_an_undo(clew, date):
    goal = clew.start().submit(runbook(f"touch -d {date} old", f"touch -d {date} new; echo a > a"))
    clew.wait("goal.completed", goal=goal)
    assert not clew.seen("executor.died", goal=goal)
    clew.cli("undo", goal, "--yes")
    assert not any((clew.workspace(goal) / name).exists() for name in ("old", "new", "a"))


def test_a_git_that_hangs_holds_up_neither_the_daemon_nor_the_goal_for_ever(clew):
    slow = clew.folder / "git"
    slow.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo "git version 2.40.0" && exit\nexec sleep 600\n'
    )
    slow.chmod(0o755)
    start_with_git(clew, slow)
    goal = clew.submit(runbook("echo a > a"))
    clew.wait("worker.ready", goal=goal)
    assert clew.goal(goal)["status"] == "in_progress"
    clew.cli("cancel", goal)
    assert "status: **cancelled**" in clew.report(goal)


def test_a_store_that_is_gone_is_recorded_by_the_next_start(clew):
    goal = finished(clew.start(), "echo a > a")
    clew.report(goal)
    assert clew.stop() == 0
    shutil.rmtree(store_of(clew, goal))
    clew.start()
    clew.wait("snapshot.missing", goal=goal, removed=True)
    assert "they are not in this home" in clew.cli("status", goal)
    assert "they are not in this home" in clew.cli("diff", goal, code=1)
    assert clew.verified()


def test_the_snapshots_of_the_goal_that_ended_first_make_room_for_others(make_clew):
    clew = make_clew({"snapshots.max_mb": 3}).start()
    fill = "head -c 1400000 /dev/urandom > made"
    first = finished(clew, fill)
    clew.report(first)
    second = finished(clew, fill)
    clew.report(second)
    third = finished(clew, fill)
    report = clew.report(third)
    clew.wait("snapshot.missing", goal=first, removed=True)
    assert not store_of(clew, first).exists()
    assert "- `made`, binary" in changed(report)
    assert "keep all goals' below 3 MB" in clew.cli("status", first)
    assert clew.stop() == 0
    assert clew.verified()


# -- what each action changed, as history.jsonl and `clew history` show it


CHANGES = (
    """mkdir -p src && printf one > src/a && printf odd > "$(printf 'o\\nd\\377d')\"""",
    "cat src/a",
    "rm -r src && for i in $(seq 150); do : > $(printf 'n%03d' $i); done",
)


def test_history_has_the_paths_that_each_command_changed(clew):
    goal = clew.start().completed(runbook(*CHANGES))
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
    goal = clew.start().completed("---\nagent: own\n---\n# Do it\n")
    clew.stop()
    assert [line["paths"] for line in clew.history(goal)] == [
        ["a.txt", "b.txt"],
        ["b.txt"],
        ["c.txt"],
    ]
