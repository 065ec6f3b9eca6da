"""Before the next attempt begins, the workspace is put back to where its subtask began; what others did stays."""

import subprocess

import pytest
from tests.process.test_snapshots_taken import start_with_git
from tests.process.test_undo import kitchen, seen  # noqa: F401 - a fixture

GOAL = """\
---
name: tea
workspace: {workspace}
agent: {agent}
attempts: 3
---
# Make tea
- [ ] Boil
- [ ] Steep
"""

MESSY = """
attempt = hello()["attempt"]
say({"attempt": {key: attempt[key] for key in ("n", "reason", "restored", "kept", "left")}})
if attempt["n"] > 1:
    say("started over")
    notice("feedback")
    done()
else:
    run("echo hot > water && rm cup && mkdir -p deep/er && mv spoon deep/er/spoon && chmod 600 recipe")
    say("messy")
    notice("feedback")
    run("echo cold >> water; echo junk > junk")
    call("complete_subtask", success=False, failure="the water is cold")
    notice("stop")
"""


def begin(clew, folder, body=MESSY, git="", **keys):
    """Start a daemon, by default with the system's git, and a goal in a folder."""
    agent = clew.agent("messy", body, **keys)
    start_with_git(clew, git) if git else clew.start()
    return clew.submit(GOAL.format(workspace=folder, agent=agent), "tea.md")


def hears(clew, goal, word):
    clew.until(lambda: word in clew.said(goal), word)


def go_on(clew, goal):
    clew.cli("feedback", goal, "go on")


def second(clew, goal):
    """Return the second attempt as its agent was shown it."""
    hears(clew, goal, "started over")
    shown = [one["attempt"] for one in clew.said(goal) if isinstance(one, dict)]
    assert [one["n"] for one in shown] == [1, 2]
    return shown[1]


def test_what_someone_else_changed_between_two_actions_survives(clew, kitchen):  # noqa: F811
    before = seen(kitchen)
    goal = begin(clew, kitchen)
    hears(clew, goal, "messy")
    (kitchen / "notes").write_text("mine\n")
    (kitchen / "water").write_text("cold, and mine\n")
    mine = seen(kitchen)
    go_on(clew, goal)
    attempt = second(clew, goal)
    after = seen(kitchen)
    assert (attempt["kept"], attempt["left"]) == ("", ["water"])
    assert after.pop(b"water") != before.pop(b"water")
    assert (kitchen / "water").read_text() == "cold, and mine\ncold\n"
    assert after == before | {b"notes": mine[b"notes"]}


def test_the_config_can_have_the_workspace_kept(clew, kitchen):  # noqa: F811
    clew.configure({"attempts.restore": "keep"})
    goal = begin(clew, kitchen)
    hears(clew, goal, "messy")
    go_on(clew, goal)
    attempt = second(clew, goal)
    assert (attempt["restored"], attempt["kept"]) == (0, "the config says so")
    assert (kitchen / "junk").exists()


@pytest.mark.parametrize(
    ("cmd", "why"),
    [
        ("git commit -qam more --allow-empty", "there are new commits"),
        ("git add notes", "other changes are staged in git"),
        ("git checkout -qb another", "another git branch is checked out"),
    ],
)
def test_where_the_repository_has_moved_the_workspace_is_kept(clew, kitchen, cmd, why):  # noqa: F811
    def git(line):
        subprocess.run(["sh", "-c", line], cwd=kitchen, check=True)

    who = "git -c user.name=a -c user.email=a@b.example"
    git(f"git init -q && git add -A && {who} commit -qm first && echo more > notes")
    goal = begin(clew, kitchen)
    hears(clew, goal, "messy")
    git(cmd.replace("git commit", f"{who} commit"))
    go_on(clew, goal)
    assert second(clew, goal)["kept"] == why
    assert (kitchen / "junk").exists()


def test_what_an_agent_changed_by_tools_of_its_own_is_put_back(clew, kitchen):  # noqa: F811
    own = """
    attempt = hello()["attempt"]
    say({"attempt": {key: attempt[key] for key in ("n", "reason", "restored", "kept", "left")}})
    if attempt["n"] == 1:
        seq = call("propose", tool="edit", args={"path": "water"})["seq"]
        Path("water").write_text("hot")
        Path("junk").write_text("junk")
        call("outcome", seq=seq, result="success", output="written")
        call("complete_subtask", success=False, failure="the water is cold")
        notice("stop")
    else:
        say("started over")
        notice("feedback")
    """
    before = seen(kitchen)
    goal = begin(clew, kitchen, own, own_tools=True)
    assert second(clew, goal)["restored"] == 2
    assert seen(kitchen) == before
