"""What a repository states as commit or branch is taken for one only if git could have made it."""

import shlex
import subprocess

import pytest

from clew_daemon.cli.commands.undo import moved_lines
from clew_shared.record.snapshot_events import GitPlace

COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.mark.parametrize("text", [COMMIT, COMMIT + "0" * 24])
def test_a_commit_is_its_full_name(text):
    assert GitPlace(commit=text).commit == text


@pytest.mark.parametrize(
    "text",
    ["main", "$(touch x)", f"{COMMIT};id", f"{COMMIT}\n", COMMIT.upper(), COMMIT[:12], "ref: x"],
)
def test_any_other_text_is_no_commit(text):
    assert GitPlace(commit=text).commit == ""


@pytest.mark.parametrize("text", ["main", "fix/a-b_c.1", "grün", "a$(id)b", "a;b", "a'b"])
def test_a_branch_that_git_allows_is_one(text):
    assert GitPlace(branch=text).branch == text


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "a..b",
        "-d",
        "a.lock",
        "a.lock/b",
        "a/.b",
        ".a",
        "/a",
        "a/",
        "a.",
        "a//b",
        "@",
        "a@{1}",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "a\nb",
        "a\x1b[2J",
        "a\u202eb",
        "a\ud800",
    ],
)
def test_any_other_text_is_no_branch(text):
    assert GitPlace(branch=text).branch == ""


@pytest.mark.parametrize("name", ["a$(touch${IFS}x)b", "a;id", "a`id`", "a'b"])
def test_a_branch_in_a_shown_command_is_one_argument_of_a_shell(name):
    before, now = {"branch": name, "commit": COMMIT}, {"branch": "main", "commit": COMMIT}
    moved = {"before": before, "now": now, "commits": []}
    lines = ["".join(text for text, _ in line) for line in moved_lines(moved, "/w")]
    command = next(line for line in lines if "git switch" in line)
    assert shlex.split(command)[:3] == ["git", "switch", name]
    quoted = command.split("back to")[0].replace("git switch", "printf %s")
    shown = subprocess.run(["sh", "-c", quoted], capture_output=True, text=True, check=True)
    assert shown.stdout == name
