"""What a check needs before it can run at all."""

import subprocess

import pytest

from clew_daemon.session.checks import Tool, not_found, tool_of, tools_due, tools_probe
from clew_shared.record import events as ev
from clew_shared.record.fold import apply, fold
from clew_shared.record.spec import Spec


@pytest.mark.parametrize(
    ("cmd", "tool"),
    [
        ("pytest -q", Tool("pytest")),
        ("  # the tests\npytest -q", Tool("pytest")),
        ("CI=1 A=b npm test && npm run lint", Tool("npm")),
        ("pytset -q | tail -3", Tool("pytset")),
        ("greet>out", Tool("greet")),
        ("make test 2>&1", Tool("make")),
        ("python3 -m pytest -q", Tool("python3", "pytest")),
        ("python3.12 -B -I -m mypy.stubtest x", Tool("python3.12", "mypy.stubtest")),
        ("python3 -m greet", Tool("python3")),
        ("python3 -m unittest -v", Tool("python3", "unittest")),
        ("python3 -c 'import greet'", Tool("python3")),
        ("test -f x", Tool("test")),
        ("cd a && pytest", Tool("cd")),
        *[(one, None) for one in (
            "./greet --help", "bin/greet", ".venv/bin/pytest", "/usr/bin/x", "[ -f x ]",
            ". .venv/bin/activate && pytest", "! grep x y", "pytest || true", "pytest; true", "pytest &", "a\nb",
            "(cd a; b)", "$PY -m pytest", '"my tool"', "PATH=bin:$PATH greet", "PYTHONPATH=src python3 -m pytest",
            "greet() { true; }", "if a; then b; fi", "", "x='a b' pytest",
        )],
    ],
)  # fmt: skip
def test_the_first_words_of_a_check_say_what_it_needs_and_in_doubt_nothing(cmd, tool):
    assert tool_of(cmd) == tool


def accepted(**checks):
    spec = Spec(description="Fix it", checks=checks)
    return fold([(1, ev.GoalAccepted(goal_id="g", spec=spec))])


def test_a_check_that_was_never_run_is_looked_at_until_a_person_has_said_how_to_go_on():
    state = accepted(a="pytset", b="pytset -q")
    apply(state, ev.CheckedBefore(name="b", passed=False, exit_code=127), 2)
    apply(state, ev.GoalBlocked(reason="r"), 3)
    apply(state, ev.GoalRequeued(by="continue", reopen=True), 4)
    assert list(tools_due(state)) == ["a"]
    apply(state, ev.FeedbackGiven(text="write it"), 5)
    assert tools_due(state) == {}


def test_the_shell_that_runs_the_checks_says_what_is_missing(tmp_path):
    """`command -v` knows built-ins and what the shell finds; the interpreter knows its modules and those beside it."""
    (tmp_path / "tox.py").touch()
    tools = {
        "there": Tool("sh"),
        "built_in": Tool("cd"),
        "not": Tool("no-such-program"),
        "no_python": Tool("python9.99", "pytest"),
        "runs": Tool("python3", "unittest"),
        "its_own": Tool("python3", "tox"),
        "no_module": Tool("python3", "no_such_runner"),
    }
    told = subprocess.run(
        ["/bin/sh", "-c", tools_probe(tools.values())], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    assert not_found(tools, told) == {
        "not": "there is no program `no-such-program` on the PATH of commands",
        "no_python": "there is no program `python9.99` on the PATH of commands",
        "no_module": "`python3` has no module `no_such_runner`",
    }
