"""`clew diff`: what a goal changed, in all forms, with and without a daemon; no secrets, no work of someone else."""

import json

import pytest
from harness import Clew, forge, runbook
from of_proc import become_subreaper
from terminal import on_terminal

pytestmark = pytest.mark.xdist_group("diff")  # one goal is made for all
KEY = "sk-proj-" + "a1B2c3D4" * 4
BOIL = "echo hot >> water && mv spoon ladle && rm cup"
STEEP = rf"""printf 'a\0b' > pot && chmod +x recipe && echo 'api_key = "{KEY}"' > secrets.txt
printf '\033[31mred\n' > "$(printf 'odd\033name')"; echo x > my.log"""
GOAL = runbook(BOIL, STEEP, name="tea", workspace="{workspace}")
NAMES = ["cup", "ladle", '"odd\\033name"', "pot", "recipe", "secrets.txt", "water"]


@pytest.fixture(scope="module")
def tea(tmp_path_factory):
    """A home whose goal has made tea, and ended; its daemon is stopped."""
    folder = tmp_path_factory.mktemp("diff")
    kitchen = folder / "kitchen"
    kitchen.mkdir()
    for name in ("water", "cup", "recipe"):
        (kitchen / name).write_text(f"the {name}\nbefore\n")
    (kitchen / "spoon").write_text("".join(f"line {n} of the spoon\n" for n in range(20)))
    (kitchen / ".gitignore").write_text("*.log\n")
    become_subreaper()
    clew = Clew(folder / "clew", forge=forge())
    try:
        clew.start().over(GOAL.format(workspace=kitchen), "tea.md")
        with_daemon = clew.cli("diff", "tea")
        clew.stop()
        assert clew.cli("diff", "tea") == with_daemon
        yield clew
    finally:
        clew.close()
        become_subreaper(on=False)


def files(clew, *args):
    return {
        one["path"]: one for one in json.loads(clew.clew("diff", "tea", *args, "--json"))["files"]
    }


def test_json_has_status_counts_and_modes_of_each_file(tea):
    found = files(tea)
    plain = {'"odd\\033name"': "odd\033name"}
    assert sorted(found) == sorted(plain.get(name, name) for name in NAMES)
    assert found["odd\033name"]["quoted"] == '"odd\\033name"'
    assert {name: one["status"] for name, one in found.items() if one["status"] != "added"} == {
        "cup": "deleted",
        "ladle": "renamed",
        "recipe": "mode",
        "water": "modified",
    }
    assert found["ladle"]["old_path"] == "spoon"
    assert found["pot"]["binary"]
    assert (found["water"]["added"], found["water"]["removed"]) == (1, 0)
    assert found["recipe"]["modes"] == ["100644", "100755"]


def test_one_subtask_has_only_its_own_changes(tea):
    assert set(files(tea, "1.1")) == {"cup", "ladle", "water"}
    assert files(tea, "1").keys() == files(tea, "1.1").keys()
    assert "has no subtask '2.1'" in tea.clew("diff", "tea", "2.1", code=1)


def test_the_diff_is_unified_and_names_what_has_no_lines(tea):
    said = tea.clew("diff", "tea")
    assert " the water\n before\n+hot\n" in said
    assert "rename from spoon\nrename to ladle\n" in said
    assert "Binary files /dev/null and b/pot differ" in said
    assert "old mode 100644\nnew mode 100755\n" in said
    assert "my.log" not in said


def test_no_key_and_no_control_character_is_shown(tea):
    for form in ((), ("--stat",), ("--json",)):
        said = tea.clew("diff", "tea", *form)
        assert KEY not in said
        assert "\x1b" not in said
    assert "[redacted]" in tea.clew("diff", "tea")
    assert "+\\x1b[31mred" in tea.clew("diff", "tea")


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_on_a_terminal_the_diff_has_colours_and_says_there_what_it_lacks(tea, term):
    env = tea.environment() | {"TERM": term}
    said = on_terminal(tea.command("diff", "tea"), env, 80)
    assert ("\x1b[32m+hot" in said) == (term == "xterm")
    assert "Ignored files are in no snapshot, so they are not compared." in said


def test_someone_elses_files_are_left_out_and_counted(clew, tmp_path):
    folder = tmp_path / "kitchen"
    folder.mkdir()
    text = GOAL.format(workspace=folder).replace(" && mv spoon ladle && rm cup", "")
    goal = clew.start().over(text.replace("chmod +x recipe && ", ""), "tea.md")
    (folder / "mine").write_text("mine\n")
    clew.cli("undo", goal, "--json")  # which takes a snapshot
    found = json.loads(clew.cli("diff", goal, "--json"))
    assert found["foreign"] == 1
    assert "mine" not in {one["path"] for one in found["files"]}
    assert "1 file that someone else changed" in clew.cli("diff", goal)


def test_files_that_a_snapshot_left_out_are_named(make_clew, tmp_path):
    folder = tmp_path / "cellar"
    folder.mkdir()
    for name in ("cut", "gone", "same"):
        (folder / name).write_bytes(bytes((1 << 20) + 1))
    clew = make_clew({"snapshots.max_file_mb": 1})
    step = "echo x > cut; rm gone; mkdir in; cp same in/large"
    goal = clew.start().over(runbook(step, workspace=folder))
    found = {one["path"]: one for one in json.loads(clew.cli("diff", goal, "--json"))["files"]}
    assert {name: (one["status"], one["left_out"]) for name, one in found.items()} == {
        "cut": ("modified", True),
        "gone": ("deleted", True),
        "in/large": ("added", True),
    }
    assert "In no snapshot: in/large (large), same (large)." in clew.cli("diff", goal)
    said = clew.cli("diff", goal)
    assert "modified, left out of the snapshot: cut\n" in said
    assert "deleted, left out of the snapshot: gone\n" in said
    assert "diff --git" not in said
    assert "deleted   gone      left out of the snapshot\n" in clew.cli("diff", goal, "--stat")
