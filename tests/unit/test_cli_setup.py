"""Dropping goal files, the config, the doctor and the service, where no daemon runs."""

import json
import re
from pathlib import Path

import pytest

from clew_daemon.inbox.goalfile.parse import parse


@pytest.fixture(autouse=True)
def _in_no_repository(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_submit_without_a_daemon_drops_the_file_whole_and_exits_zero(clew, tmp_path):
    goal = tmp_path / "my goal.md"
    goal.write_text("# Do it\n")
    code, out, _ = clew("--home", tmp_path / "h", "submit", goal)
    dropped = list((tmp_path / "h" / "inbox").iterdir())
    assert code == 0
    assert "clew run" in out
    assert [path.read_text() for path in dropped] == ["# Do it\n"]
    assert re.fullmatch(r"my goal-[0-9a-f]{6}\.md", dropped[0].name)


def test_a_text_submitted_inside_a_git_repository_works_in_it(clew, tmp_path, monkeypatch):
    top = tmp_path / "repo"
    (top / ".git").mkdir(parents=True)
    (top / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (top / "sub").mkdir()
    (tmp_path / "tea.md").write_text("Make tea.\n")
    monkeypatch.chdir(top / "sub")
    named = ["--", "---\npriority: 1\nworkspace: /elsewhere\n---\nMake tea."]
    for number, (given, workspace, told) in enumerate(
        (
            (["Make tea."], str(top), f"workspace: {top} (the git repository here"),
            (["Make tea.", "--new"], None, "a folder of its own (new)"),
            (["../../tea.md"], None, "a folder of its own (new)"),
            (
                named,
                "/elsewhere",
                "workspace: /elsewhere (new: it does not exist; it will be created)",
            ),
            (["Make tea.", "--workspace", "."], str(top / "sub"), f"{top}/sub (it exists)"),
        )
    ):
        home = tmp_path / f"home{number}"
        code, _, err = clew("--home", home, "submit", *given)
        goal = parse(dropped(home)[-1].read_bytes(), "", ["default"])
        assert (code, goal.workspace, told in err) == (0, workspace, True), err
    code, out, _ = clew("--home", home, "submit", "Make tea.", "--json")
    (goal,) = json.loads(out)["goals"]
    assert (goal["workspace"], goal["new_workspace"]) == (str(top), False)


def dropped(home):
    return sorted((home / "inbox").iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("given", ["absent", "no file.md", "not here.txt", "folder/absent"])
def test_what_looks_like_a_file_is_one_and_an_error_where_it_is_absent(clew, tmp_path, given):
    code, _, err = clew("--home", "h", "submit", given)
    hint = "" if " " in given else '; to submit a text, put it in quotes: "…"'
    assert (code, err) == (1, f"clew: no such file: {given}{hint}\n")
    assert not (tmp_path / "h").exists()


def test_options_are_in_what_is_dropped_and_the_file_stays_as_it_is(clew, tmp_path):
    text = "---\nagent: default\nchecks: {tea: test -e tea}\n---\n# Make tea\n"
    Path("tea.md").write_text(text)
    options = (
        "--name", "tea", "--agent", "runbook", "--workspace", "work/x", "--check", 'test "$A"',
    )  # fmt: skip
    assert clew("--home", tmp_path / "h", "submit", "tea.md", *options)[0] == 0
    assert Path("tea.md").read_text() == text
    goal = parse(dropped(tmp_path / "h")[0].read_bytes(), "tea.md", ["runbook"])
    assert (goal.name, goal.agent, goal.workspace) == ("tea", "runbook", str(tmp_path / "work/x"))
    assert goal.checks == {"tea": "test -e tea", "check_1": 'test "$A"'}


def test_the_doctor_says_that_an_installed_unit_has_no_manager(clew, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo systemd 252 || { echo offline; exit 1; }\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    unit = tmp_path / "systemd" / "user" / "clew.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    _, out, _ = clew("--home", tmp_path / "h", "doctor")
    assert "warn user manager: offline\n" in out
