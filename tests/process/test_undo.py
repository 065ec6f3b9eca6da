"""`clew undo`: what a goal changed is restored, what someone else changed stays, and an undo can be undone."""

import json
import os
import signal
import subprocess

import pytest
from harness import runbook
from terminal import EOF, on_terminal
from tests.process.cells.snapshots import picture

STEPS = (
    "echo hot > water && rm cup && mkdir -p shelf && mv spoon shelf/spoon",
    "echo leaves >> water && echo new > pot && chmod 600 recipe",
)
GOAL = runbook(*STEPS, name="tea", workspace="{workspace}")


@pytest.fixture
def kitchen(tmp_path):
    """A workspace with work of a person's own in it."""
    folder = tmp_path / "kitchen"
    folder.mkdir()
    for name in ("water", "cup", "spoon", "recipe", "notes"):
        (folder / name).write_text(f"the {name}\nbefore\n")
    return folder


@pytest.fixture
def done(clew, kitchen):
    """A daemon whose goal has completed in the kitchen; the picture of the kitchen before."""
    before = seen(kitchen)
    clew.start().over(GOAL.format(workspace=kitchen), "tea.md")
    return before


def seen(folder):
    return {
        name: what
        for name, what in picture(folder).items()
        if not name.startswith((b".agent_context", b".git/"))
    }


def undone(clew, *args, code=0):
    return json.loads(clew.cli("undo", "tea", *args, "--json", code=code))


def actions(answer):
    return {one["path"]: one["action"] for one in answer["entries"]}


def test_a_plan_that_was_shown_is_performed_only_as_it_was(clew, kitchen, done):
    plan = clew.ask("undo", goal="tea")
    (kitchen / "pot").write_text("mine\n")
    before = seen(kitchen)
    answer = clew.ask("undo", goal="tea", perform=True, expected=plan["plan"])
    assert not answer["done"]
    assert answer["plan"] != plan["plan"]
    assert answer["left"] == [{"path": "pot", "reason": "shared", "action": "remove"}]
    assert seen(kitchen) == before
    answer = clew.ask("undo", goal="tea", perform=True, expected=answer["plan"])
    assert answer["done"]


@pytest.mark.parametrize(("undone", "busy"), [("inner", "."), (".", "inner")])
def test_no_goal_is_undone_while_another_works_in_its_folder_or_below_or_above_it(
    clew, tmp_path, undone, busy
):
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    clew.start()
    place = tmp_path / "outer" / undone
    goal = clew.completed(runbook("echo new > pot", workspace=place))
    other = clew.submit(runbook("sleep 600", workspace=tmp_path / "outer" / busy))
    clew.wait("action.allowed", goal=other)
    assert f"{other} is at work in" in clew.cli("undo", goal, "--yes", code=1)
    assert (place / "pot").exists()
    clew.cli("cancel", other)
    clew.no_worker(other)
    clew.cli("undo", goal)  # without a terminal it does not ask
    assert not (place / "pot").exists()


def test_a_paused_goal_that_was_undone_and_resumed_does_its_work_again_and_can_be_undone(
    clew, kitchen
):
    clew.agent(
        "worker",
        """
        hello()
        run("echo hot > water")
        say("hot")
        if epoch == 1:
            threading.Event().wait()
        done()
        """,
    )
    before = seen(kitchen)
    text = f"---\nname: tea\nagent: worker\nworkspace: {kitchen}\n---\n# Make tea\n"
    goal = clew.start().submit(text)
    clew.said(goal)
    clew.cli("pause", goal)
    assert "`clew continue` continues" in clew.cli("undo", goal, "--yes")
    assert seen(kitchen) == before
    clew.cli("resume", goal)
    clew.wait("goal.completed", goal=goal)
    assert (kitchen / "water").read_text() == "hot\n"
    assert "then undone" not in clew.report(goal)
    clew.cli("undo", goal, "--yes")
    assert seen(kitchen) == before
    clew.until(lambda: "then undone" in clew.report(goal), "a new report")


def asked(clew, *, answers, code=0):
    """What a person sees who answers the questions of an undo on a terminal of 80 columns."""
    env = clew.environment() | {"TERM": "xterm", "NO_COLOR": "1"}
    return on_terminal(clew.command("undo", "tea"), env, 80, answers=answers, code=code)


def test_a_person_is_asked_and_nothing_is_undone_without_a_yes(clew, kitchen, done):
    before = seen(kitchen)
    no, yes, end = (("[y/N]: ", typed) for typed in ("n\n", "y\n", EOF))
    for answer in (no, end):
        assert "nothing was changed" in asked(clew, answers=[answer], code=1)
        assert seen(kitchen) == before
    said = asked(clew, answers=[yes])
    assert max(len(line) for line in said.splitlines() if str(kitchen) not in line) <= 80
    assert "4 files put back, 2 removed in" in said
    assert seen(kitchen) == done


def git(folder, *args):
    """Run git, which does not refresh the index on the side."""
    done = subprocess.run(
        ["git", "--no-optional-locks", "-c", "user.name=A", "-c", "user.email=a@b", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repository(kitchen):
    """A repository with staged, unstaged, untracked, ignored and stashed work."""
    git(kitchen, "init", "-q", "-b", "main")
    (kitchen / ".gitignore").write_text("*.log\n")
    git(kitchen, "add", ".")
    git(kitchen, "commit", "-qm", "first")
    (kitchen / "notes").write_text("stashed\n")
    git(kitchen, "stash", "-q")
    (kitchen / "notes").write_text("staged\n")
    git(kitchen, "add", "notes")
    (kitchen / "notes").write_text("staged\nand not\n")
    (kitchen / "recipe").write_text("unstaged\n")
    (kitchen / "untracked").write_text("untracked\n")
    (kitchen / "my.log").write_text("ignored\n")
    return kitchen


def bytes_of(repository):
    """Every file with its permissions, those of git too, but for what clew publishes."""
    found = picture(repository).items()
    return {name: one for name, one in found if not name.startswith(b".agent_context")}


def git_says(repository):
    commands = ("status --porcelain=v2 --branch --show-stash --ignored", "stash list")
    commands += ("stash show -p", "diff", "diff --cached", "ls-files --stage")
    said = [git(repository, *command.split()) for command in commands]
    return "\n".join(said).replace("! .agent_context/\n", "")


WORK = """\
echo more >> notes && echo more >> recipe && chmod 755 cup && ln -sf cup spoon
rm untracked && mv water drink && mkdir -p a/b && echo new > a/b/c && ln -sf nowhere .gitignore
"""


def test_in_a_real_repository_everything_is_as_before_to_the_byte(clew, repository):
    """With edits, deletions, new files, renames, permissions and links, on staged and unstaged work."""
    (repository / ".git" / "info" / "exclude").write_text(".agent_context\n")
    git(repository, "update-index", "-q", "--refresh")
    before, said = bytes_of(repository), git_says(repository)
    clew.start()
    goal = clew.over(runbook(*WORK.splitlines(), name="tea", workspace=repository))
    assert git_says(repository) != said
    clew.cli("undo", goal, "--yes")
    assert bytes_of(repository) == before
    assert git_says(repository) == said


def test_where_head_has_moved_nothing_is_restored_and_git_commands_are_named(clew, repository):
    first = git(repository, "rev-parse", "HEAD").strip()
    text = GOAL.replace(
        "chmod 600 recipe", "git add pot && git -c user.name=A -c user.email=a@b commit -qm brewed"
    )
    goal = clew.start().over(text.format(workspace=repository), "tea.md")
    before = seen(repository)
    said = clew.cli("undo", goal, "--yes", code=1)
    assert "Nothing is restored" in said
    assert "brewed" in said
    assert f"git reset --soft {first[:12]}" in said
    assert seen(repository) == before


def test_what_is_added_after_an_action_was_cut_off_stays(clew, kitchen):
    before = seen(kitchen)
    clew.start()
    text = GOAL.format(workspace=kitchen).replace("echo hot > water", "echo hot > water; sleep 60")
    goal = clew.submit(text, "tea.md")
    clew.until(lambda: (kitchen / "water").read_text() == "hot\n", "the action is under way")
    clew.cli("pause", "--now", "tea")
    clew.no_worker(goal)
    (kitchen / "mine").write_text("by hand\n")
    answer = undone(clew, "--yes")
    assert actions(answer) == {"water": "restore"}
    (kitchen / "mine").unlink()
    assert seen(kitchen) == before
    assert clew.verified()


def test_what_a_person_writes_during_an_undo_of_any_number_of_files_is_left_by_the_next(
    clew, kitchen
):
    many = "for n in $(seq 1200); do echo new > n$n; done; echo hot > water"
    text = GOAL.format(workspace=kitchen).replace("echo hot > water", many)
    goal = clew.start().completed(text, "tea.md")
    undoing = subprocess.Popen(
        clew.command("undo", goal, "--yes"), env=clew.environment(), stdout=subprocess.PIPE
    )
    clew.until(lambda: not (kitchen / "n1").exists(), "the undo has begun")
    for name in ("n1", "water"):
        (kitchen / name).write_text("mine\n")
    undoing.communicate()
    assert (kitchen / "n1").read_text() == (kitchen / "water").read_text() == "mine\n"
    again = undone(clew)  # as the first one says: it reverts that
    assert again["scope"] == "undo"
    assert not {"n1", "water"}.intersection(actions(again))
    assert actions(again)["n1200"] == "create"


def worked(clew, folder, *commands):
    """The id of a goal that has carried out these commands in a folder, and has ended."""
    return clew.over(runbook(*commands, name="tea", workspace=folder), "tea.md")


def test_no_undo_removes_a_repository(clew, kitchen):
    """Not one that the goal has made or cloned, bare or not; files of the goal's are removed."""
    clew.start()
    who = "git -c user.name=A -c user.email=a@b"
    made = f"git init -q lib && cd lib && echo x > x && git add x && {who} commit -qm x"
    worked(clew, kitchen, made, "git clone -q --bare lib lib.git", "echo new > pot")
    answer = undone(clew, "--yes")
    assert actions(answer) == {"pot": "remove", "lib/x": "remove"}
    assert [(one["path"], one["reason"]) for one in answer["left"]] == [("lib.git", "repository")]
    assert git(kitchen / "lib", "status", "--porcelain") == " D x\n"
    assert "x" in git(kitchen / "lib.git", "log", "--oneline")


@pytest.mark.parametrize(
    "cmd", ["echo x >> recipe; git add -A", "git reset -q --hard", "git stash -q -u"]
)
def test_where_only_the_index_has_changed_files_are_restored_and_it_is_said(clew, repository, cmd):
    (repository / "cup").unlink()
    before = seen(repository)
    clew.start()
    goal = worked(clew, repository, f"git config user.email a@b; git config user.name A; {cmd}")
    said = clew.cli("undo", goal, "--yes")
    assert seen(repository) == before
    assert "What is staged in git has changed" in said


@pytest.mark.parametrize("executor", ["lives", "dies"])
def test_an_edit_before_an_action_of_an_agent_with_its_own_tools_stays_if_that_is_cut_off(
    clew, kitchen, executor
):
    """If the executor that saw the edit dies, the changes cannot be told apart, and none of them is undone."""
    clew.agent(
        "own",
        """
        hello()
        say("here")
        while not Path("mine").exists():
            threading.Event().wait(0.01)
        call("propose", tool="edit", args={"path": "pot"})
        Path("pot").write_text("new")
        say("acting")
        threading.Event().wait()
        """,
        own_tools=True,
    )
    text = f"---\nname: tea\nagent: own\nworkspace: {kitchen}\n---\n# Make tea\n"
    goal = clew.start().submit(text)
    clew.said(goal)
    (kitchen / "cup").write_text("a person's")
    (kitchen / "mine").touch()
    clew.said(goal, count=2)
    if executor == "dies":
        os.kill(clew.executor_pid(goal), signal.SIGKILL)
    clew.cli("pause", "--now", goal)
    clew.cli("undo", goal, "--yes")
    assert (kitchen / "pot").exists() == (executor == "dies")
    assert (kitchen / "cup").read_text() == "a person's"
    assert (kitchen / "mine").exists()
