"""Text: themes, errors in the words of a person, why a check failed, lines on a terminal."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from clew_daemon.host.hidden import hidden
from clew_daemon.processes import endings, workspace_guard
from clew_daemon.reading.output import wrapped
from clew_daemon.session.shell_tests import explanation
from clew_shared.gate.rules import theme
from clew_shared.text.plain import plain
from clew_shared.text.words import action_text, duration, said_why

THEMES = {
    "planning": "I need to plan/Planning to search/Two strategies are left/He needs to go",
    "synthesis": "Time to synthesize what we know/Combining both gives the total/Summaries of the chapters",
    "search_intent": "Searching the archive/Looking for the capital",
    "read_intent": "Reading it now/The articles are long/Next page",
    "general": "The answer is 42//The planet Mars is red/A plane lands; plants grow; the explanation is plain"
    "/A thread spreads, bread/Research is done/It is already there; findings were sent to the homepage"
    "/I need a hammer, look here/They reproach him",
}


def test_a_theme_is_told_by_whole_words_and_their_inflections():
    for name, texts in THEMES.items():
        assert {text: theme(text) for text in texts.split("/")} == dict.fromkeys(
            texts.split("/"), name
        )


def test_what_the_sandbox_hides_is_named_and_no_path_fails_the_look(tmp_path, monkeypatch):
    monkeypatch.setattr("clew_daemon.host.hidden._SYSTEM", re.compile("/none"))
    for at in range(1_500):
        (tmp_path / f"{at}").symlink_to(f"{at + 1}")
    (at := tmp_path / "there").mkdir()
    box, places = SimpleNamespace(mode="enforce", read=(), write=()), SimpleNamespace(folders={})
    told = {
        f"cat: {tmp_path}/0: No such file or directory": "",
        f"{sys.prefix}/none: No such file or directory": "",
        f"ls: cannot open \u2018{at}\u2019: Permission denied": f"It cannot use {at}: ",
    }
    assert {text: hidden(text, "/w", places, box).partition("actions")[0] for text in told} == told


def raised(act):
    with pytest.raises(FileNotFoundError) as caught:
        act()
    return caught.value


def test_an_error_of_the_system_names_what_failed_and_the_path(tmp_path):
    absent, other = tmp_path / "absent", tmp_path / "other"
    assert plain(raised(absent.read_bytes)) == f"no such file or directory: {absent}"
    assert plain(raised(lambda: absent.rename(other))) == (
        f"no such file or directory: {absent}: {other}"
    )
    assert (
        plain(PermissionError(13, "Permission denied", b"/x\xff")) == r"permission denied: /x\xff"
    )


def test_reasons_of_goals_have_no_numbers_of_the_system(tmp_path):
    (tmp_path / "file").touch()
    below = str(tmp_path / "file" / "workspace")
    lost = workspace_guard.enter(below, None, make=True)
    assert isinstance(lost, workspace_guard.Missing)
    assert lost.reason == f"the workspace cannot be created: not a directory: {below}"
    error = PermissionError(13, os.strerror(13), "/x")
    assert endings.by_fault(error).detail == "permission denied: /x"
    assert endings.by_surprise(error).detail == "permission denied: /x"


def trace_of(command: str, folder, shell="bash") -> str:
    argv = [shell, "-c", f"set -x\n{command}"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode, "it must fail"
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "old.txt").write_text("colour\nx\n")
    (tmp_path / "docs").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("test -d docs && test ! -e old.txt && true", "old.txt exists, and it must not"),
        ("[[ -d lib ]]", "there is no folder lib"),
        ("test -x old.txt", "old.txt is missing, or not executable (`chmod +x`)"),
        ('test "$(cat old.txt)" = "$(printf "a\\nb")"', 'got "colour\\nx", expected "a\\nb"'),
        ('test "$(grep -c z old.txt)" = 3', 'got "0", expected "3"'),
        ('test a = "$(cat old.txt)"', '"a" is not "colour\\nx"'),
        ('[ "$(wc -l < old.txt)" -ge 4 ]', "2 must be at least 4"),
        ('test -z "$(ls docs; echo q)"', 'expected nothing, got "q"'),
        ('test "$(echo a b)" = "c  d"', 'got "a b", expected "c  d"'),
        ('test "$(true)" = 55', 'got "", expected "55"'),
        ("grep -q color old.txt", '"color" was not found in old.txt'),
        ("! grep -q colour old.txt", '"colour" is still in old.txt'),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "/bin/sh"])
def test_a_failed_test_is_explained(folder, shell, command, why):
    if shell == "/bin/sh" and "[[" in command:
        pytest.skip("not in every sh")
    assert said_why(explanation(trace_of(command, folder, shell), command)) == why


UNCERTAIN = "false/echo y | grep -q z/test a -a b = c -o d = e/test ! a = a/x=q; grep -q $x old.txt"


@pytest.mark.parametrize("command", UNCERTAIN.split("/"))
def test_what_is_not_certain_is_not_explained(folder, command):
    assert explanation(trace_of(command, folder), command) == ""


WORDS = st.lists(st.text("ab[]漢 \u0301é-", min_size=1, max_size=90), max_size=12).map(" ".join)


def parts(line, width):
    return [part.plain for part in wrapped(line, width)]


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, st.just("")), min_size=1, max_size=4), st.integers(20, 90))
def test_nothing_is_lost_and_no_part_of_several_words_is_too_wide(line, width):
    found = parts(line, width)
    text = "".join(text for text, _ in line)
    assert "".join("".join(found).split()) == "".join(text.split())
    for part in found:
        assert cell_len(part) <= width or len(part.split()) == 1


@pytest.mark.parametrize(
    ("tool", "args", "text"),
    [
        ("run_cmd", {"cmd": "grep -n 'a b' \"$HOME\""}, "grep -n 'a b' \"$HOME\""),
        ("shell", {"command": ["grep", "a b", "x"]}, "shell grep 'a b' x"),
        ("search", {"pattern": "it's", "path": "my notes"}, """search 'it'"'"'s' 'my notes'"""),
        ("Bash", {"command": "ls 'a b'", "wait": 5}, "Bash command=ls 'a b' wait=5"),
    ],
)
def test_an_action_is_shown_as_a_shell_would_take_it(tool, args, text):
    assert action_text(tool, args) == text


def test_a_duration_has_its_two_largest_units():
    shown = [duration(seconds) for seconds in (0.04, 59.96, 250, 7_500, 273_600)]
    assert shown == ["0.0 s", "1 min 0 s", "4 min 10 s", "2 h 5 min", "3 d 4 h"]
    assert (duration(0.04, whole=True), duration(59.96, whole=True)) == ("0 s", "59 s")
