"""Why a check that printed nothing failed, in plain words, from real traces of the shell."""

import subprocess

import pytest

from clew_shared.text.shell_tests import closer_look, explanation, why_failed


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
        ("test -x old.txt", "old.txt is not an executable file"),
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
    assert why_failed(trace_of(command, folder, shell), command) == why


@pytest.mark.parametrize(
    "command",
    [
        "false",
        "echo y | grep -q z",
        "test a -a b = c -o d = e",
        "test ! a = a",
        "x=q; grep -q $x old.txt",
    ],
)
def test_what_is_not_certain_is_not_explained(folder, command):
    assert why_failed(trace_of(command, folder), command) == ""


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("! grep -qi COLOUR old.txt", '"COLOUR" is still in old.txt: old.txt:1:colour'),
        ("! grep -q x old.txt b", '"x" is still in old.txt and b: old.txt:2:x | b:1:x y'),
        ("! grep -q y old.txt b", '"y" is still in b: b:1:x y'),
        ("test -x b", "b is not an executable file: it exists; chmod +x b makes it executable"),
        ("test -x new.txt", "new.txt is not an executable file"),
        ("cp old.txt docs; cd docs; test -x old.txt", "old.txt is not an executable file"),
        ("grep -q z old.txt", '"z" was not found in old.txt'),
    ],
)
def test_a_closer_look_shows_where_it_is(folder, command, shown):
    (folder / "b").write_text("x y\n")
    trace = trace_of(command, folder)
    look = closer_look(trace, command) or "true"
    done = subprocess.run(look, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    text = explanation(trace, command, done.stdout, 200)
    assert text.splitlines()[-1] == shown
