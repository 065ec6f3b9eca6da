"""Goal files: what is read, what is refused in words, and what options of `submit` make of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.config.places import places
from clew_daemon.host.folders import workspace_fault
from clew_daemon.inbox.goalfile.keys import GoalFileError
from clew_daemon.inbox.goalfile.parse import KEYS as FRONT_KEYS
from clew_daemon.inbox.goalfile.parse import goal_id, parse
from clew_daemon.reading.submission import GoalSource, SubmitOptions, merged

AGENTS = ["default", "runbook"]


def goal_of(text):
    return parse(text.encode(), "g.md", AGENTS)


def with_front(front):
    return goal_of(f"---\n{front}\n---\n# G\n")


def faults_of(raw):
    with pytest.raises(GoalFileError) as caught:
        parse(raw if isinstance(raw, bytes) else raw.encode(), "g.md", AGENTS)
    return [str(fault) for fault in caught.value.faults]


def test_blocks_are_steps_of_their_items():
    goal = goal_of("# G\n- [ ] a\n  ```python file=./x/y.py\n  1\n  ```\n  ```sh\n  ls\n  ```\n")
    steps = [(step.tool, step.args) for step in goal.tasks[0].subtasks[0].steps]
    assert steps == [
        ("write_file", {"path": "x/y.py", "content": "1\n"}),
        ("run_cmd", {"cmd": "ls"}),
    ]


def test_plain_text_is_the_goal_and_has_no_tasks():
    goal = goal_of("\nWrite hello.txt\nwith hello in it.\n- a\n- b\n")
    assert goal.description == "Write hello.txt"
    assert goal.notes == "Write hello.txt\nwith hello in it.\n- a\n- b"
    assert goal.tasks == ()
    assert not goal.runnable_without_llm
    assert goal_of("Sort this:\n" + "a\n" * 20_001).notes.count("a\n") == 20_000


@pytest.mark.parametrize("given", ["[ls, pwd]", "\n- ls\n- pwd"])
def test_checks_may_be_a_list_and_patience_off(given):
    goal = goal_of(f"---\nchecks: {given}\npatience: off\n---\n# G\n")
    assert (goal.checks, goal.patience) == ({"check_1": "ls", "check_2": "pwd"}, 0)


def test_a_goal_is_runnable_without_an_llm_when_every_open_item_has_steps():
    step = "\n  ```sh\n  ls\n  ```\n"
    assert [goal_of(f"# G\n- [{box}] a\n- b{step}").runnable_without_llm for box in "x "] == [
        True,
        False,
    ]


def test_done_when_gives_prose_and_checks_beside_those_of_the_front_matter():
    goal = goal_of(
        "---\nchecks: {done_1: make}\n---\n# G\n## Done when:\nAll is fine, `x` too.\n"
        "- `test -f x`\n- [ ] ``echo `date` ``\n- the file `y` exists\n"
        "- tests pass\n  ```sh\n  pytest -q\n  ```\n```python\nno\n```\n"
    )
    assert goal.checks == {
        "done_1": "make",
        "done_2": "test -f x",
        "done_3": "echo `date`",
        "done_4": "pytest -q",
    }
    assert goal.done_when.startswith("All is fine, `x` too.")
    assert goal.tasks == ()


def test_unknown_keys_are_named_with_what_they_may_mean():
    goal = with_front("title: x\npriorty: 3\nbudget: {token: 3}")
    meant = {"title": "", "priorty": "priority", "budget.token": "budget.tokens"}
    assert goal.unknown_keys == meant


@pytest.mark.parametrize("value", ["", "~", "# later"])
def test_a_key_without_a_value_is_an_error_with_its_line_and_what_to_do(value):
    """YAML reads it as null, and clew went on with the default as if the key were not there."""
    for key in FRONT_KEYS:
        (fault,) = faults_of(f"---\npriority_of_others: 1\n{key}: {value}\n---\n# G\n")
        assert fault.startswith(f"line 3: `{key}` ")
        assert "delete the line" in fault


def test_a_name_of_another_form_is_an_error_with_its_line():
    for name in ("Mathx", "two words", "-x", "é", "a" * 65, "a/b", "3"):
        (fault,) = faults_of(f"---\npriority: 1\nname: {name}\n---\n# G\n")
        assert fault.startswith("line 3: `name` "), name


def test_actions_have_the_time_that_the_file_gives_them_or_their_block():
    goal = goal_of(
        "---\ntimeout: 20m\n---\n# G\n- a\n  ```sh timeout=1.5h\n  x\n  ```\n  ```sh\n  y\n  ```\n"
    )
    assert goal.timeout == 1200
    assert [step.timeout_s for step in goal.tasks[0].subtasks[0].steps] == [5400, None]
    for text, seconds in (("90s", 90), ("2h", 7200), ("45", 45), ('"45"', 45), ("1d", 86_400)):
        assert with_front(f"timeout: {text}").timeout == seconds
    for wrong in ("soon", "0", "-1", "8d", "true", ".inf", "5 minutes", "[1]"):
        (fault,) = faults_of(f"---\npriority: 1\ntimeout: {wrong}\n---\n# G\n")
        assert fault.startswith("line 3: `timeout` must be a time "), fault
    (fault,) = faults_of("# G\n- a\n  ```sh timeout=soon\n  x\n  ```\n")
    assert fault == (
        "line 3: `timeout=` must be a time like 90s, 20m or 2h, or a number of seconds, not `soon`"
    )


def test_all_faults_are_told_at_once_each_with_its_line():
    faults = faults_of(
        "---\nworkspace: foo\nagent: defalt\nchecks:\n  a: true\npriority: true\n"
        "max_iterations: 0\nbudget: {tokens: -5}\nnot_before: 2026-99-01\ndepends_on: [a, 3]\n"
        "on_interrupt: maybe\npriority: 4\n---\n# X\n## Y\n- [ ] z\n  ```py file=../x\n  ```\n"
        "  ```sh\n  ```\n##\n"
    )
    assert [fault.split(":")[0] for fault in faults] == [
        f"line {line}" for line in (2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 17, 19, 21)
    ]
    assert (
        "unknown agent `defalt` (did you mean default?); available: default, runbook" in faults[1]
    )
    assert "begin with ~/" in faults[0]
    assert "-5" in faults[5]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "empty"),
        (b"---\npriority: 1\n---\n\n", "no goal"),
        (b"a\nb\xff", "line 2: the file is not UTF-8 (at byte 3)"),
        (b"\xff\xfea\0", "save it as UTF-8"),
        (b"ab\n\0", "line 2: the file contains a NUL byte"),
        (b"x" * (1024 * 1024 + 1), "at most 1,048,576"),
        (b"---\nx: 1\n", "line 1: the front matter is not closed"),
        (b"---\nok: 1\nx: [1\n---\nx", "is not valid YAML"),
        (b"---\nok: 1\n\tx: 1\n---\nx", "line 3: the front matter is not valid YAML"),
        (b"---\nok: 1\na: \x01\n---\nx", "line 3: the front matter contains a character"),
        (b"---\n- a\n---\nx", "line 2: the front matter must be lines of `key: value`"),
        (b"---\na: &x 1\nb: *x\n---\nx", "line 3: aliases"),
        (b"---\na: !!python/name:os.system\n---\nx", "line 2: tags"),
        (b"---\na: " + b"[" * 3000 + b"\n---\nx", "line 2: nested deeper"),
        (b"---\na: '" + b"x" * 70_000 + b"'\n---\nx", "shorten it"),
        (b"---\n? [a]\n: b\n---\nx", "line 2: a key must be a word"),
        (b"---\nbudget: 5\n---\nx", "line 2: `budget` must be a table"),
        (b"---\nbudget:\n  tokens: x\n  tokens: 5\n---\nx", "line 4: `tokens` is given twice"),
        (b"---\nbudget: {wall_s: .inf}\n---\nx", "`budget.wall_s` must be"),
        (b"---\npriority: 0x" + b"f" * 20_000 + b"\n---\nx", "line 2: `priority` must be at most"),
        (b"---\npriority: 1" + b"0" * 20_000 + b"\n---\nx", "cannot be read"),
        (b"---\nnot_before: 0001-01-01T00:00:00+05:00\n---\nx", "must be a time like"),
        (b"# G\n- a\n  ```sh file=/etc/x\n  ```\n", "line 3: `file=/etc/x` must be relative"),
        (b"# G\n- a\n  ```sh file=a/../../x\n  ```\n", "leads out of the workspace"),
        (b"# G\n- a\n  ```sh file=\n  ```\n", "does not name a file"),
        (b"# G\n" + b"- [ ] a\n" * 1001, "more than 1,000: split it"),
        (b"# G\n" + b"a\n" * 20_001, "lines of Markdown: split it"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(raw, told):
    (fault,) = faults_of(raw)
    assert fault.startswith(told) if told.startswith("line ") else told in fault


FRONT = "---\nworkspace: /w\nchecks:\n  a: test -f x\n---\n"
KEYS = FRONT.removeprefix("---\n")


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("\n" + FRONT, 2),
        ("```markdown\n" + FRONT, 2),
        ("+++\nworkspace = '/w'\n+++\n", 1),
        ("----\nworkspace: /w\n----\n", 1),
        ("\n---\npriority: 3\n\n", 2),
        (KEYS, 1),
        ("---\ntitle: x\n---\n" + FRONT, 4),
        ("[table]\nchecks:\n---\n", 1),
    ],
)
def test_what_looks_like_front_matter_but_is_none_is_refused(head, line):
    """It was taken for text: the goal ran at once, in another workspace, without its checks."""
    (fault,) = faults_of(head + "# G\n")
    assert fault.startswith(f"line {line}: this looks like front matter")
    assert "begins on line 1 with exactly `---`" in fault


ORDINARY = (
    "# G\n\ntext\n\n---\n\nmore\n",
    "# G\n---\nSome prose follows here.\n---\nMore\n",
    "# G\n---\n## Task\n- [ ] Budget: check it\n---\n",
    "# G\n\n---\n\n- [ ] a\n  ```sh\n  workspace: x\n  ```\n",
    "- workspace: tidy it\n- agent: ask him\n---\n",
    "Priority: high\nAgent: Bob\n---\nThe customer cannot log in\n",
    "# Ticket\n---\nPriority: high\nThe customer cannot log in\n",
    "agent: write a story about one\n",
    "--- a/file.py\n+++ b/file.py\n@@ -1 +1 @@\n-checks: a\n+checks: b\n",
    "-- a comment of SQL\nselect 1;\n",
    "\n---\ntitle: x\ntags: [a]\n---\n# G\n",
    "Explain this:\n\n---\nworkspace: /x\n---\n",
    "```yaml\nagent: x\n```\nFix this.\n",
    "~~~\nagent: x\n~~~\nFix this.\n",
    "----\nDear team,\nworkspace: it is broken\n----\n",
    "> ---\n> workspace: /x\n> ---\n",
)


def test_ordinary_text_with_lines_of_dashes_is_no_front_matter():
    assert [goal_of(text).checks for text in ORDINARY] == [{}] * len(ORDINARY)


@pytest.mark.parametrize("given", ["", " []", " {}", " ''", " ~"])
def test_empty_checks_are_an_error_and_not_no_checks(given):
    (fault,) = faults_of(f"---\nchecks:{given}\n---\n# G\n")
    assert fault.startswith("line 2: `checks` ")


@pytest.mark.parametrize(
    "acceptance",
    ["", "All is fine.\n", "- `test -f never` passes\n", "```\npytest\n```\n", "```sh\n\n```\n"],
)
def test_a_done_when_without_a_check_is_an_error_that_says_what_is_one(acceptance):
    (fault,) = faults_of(f"# G\n## Done when\n{acceptance}")
    assert fault.startswith("line 2: `## Done when` has no check. Write a list item")


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Create mathx package with an add function and tests", "create-mathx-package-7f3a"),
        ("Find the answer in answer.txt", "find-answer-answer-7f3a"),
        ("Make it so that the tests pass", "make-tests-pass-7f3a"),
        ("Grüße an Łódź", "grusse-lodz-7f3a"),
        ("Sœur du Ærø™", "soeur-du-aerotm-7f3a"),
        ("写一个文件", "goal-7f3a"),
        ("", "goal-7f3a"),
        ("x" * 100, "x" * 40 + "-7f3a"),
    ],
)
def test_a_goal_id_is_a_readable_slug_and_four_hex_digits(description, expected):
    assert goal_id(description, "7f3a") == expected


HOME = places({}, Path("/h/clew"), None)
XDG = places({"HOME": "/u", "XDG_RUNTIME_DIR": "/run/user/1"}, None, None)


@pytest.mark.parametrize(
    ("where", "workspace"),
    [
        (HOME, "/"),
        (HOME, "/h/clew"),
        (HOME, "/h/clew/state/x"),
        (HOME, "/h/clew/x/../inbox"),
        (HOME, "relative"),
        (XDG, "/u"),
        (XDG, "/u/.config/clew/x"),
        (XDG, "/run/user/1/clew"),
    ],
)
def test_a_workspace_in_or_around_clews_own_folders_is_refused(where, workspace):
    assert workspace in (workspace_fault(Path(workspace), where) or "")


VALUES = {"name": "tea", "agent": "mine", "workspace": "/work here/x"}
ALL = SubmitOptions(VALUES, ("make test", 'it\'s: "done" # & {[\\'))
FRONTS = (
    "",
    "---\n# nothing yet\n---\n",
    "---\nname: coffee\nagent: default  # the usual\nworkspace: /a\npriority: 2\n---\n",
    "---\nname:\nagent: ~\nworkspace:\nchecks:\n---\n",
    "---\nname: |\n  coffee\nworkspace: >-\n  /a\npriority: 2\n---\n",
    "---\n{name: coffee, priority: 2}\n---\n",
    "---\n  priority: 2\n  agent: default\n---\n",
    "---\nchecks:\n  check_1: ls\n  b: pwd\npriority: 2\n---\n",
    "---\nchecks: [ls, pwd]\n---\n",
    "---\nchecks: ls\n---\n",
)


def with_options(front, options):
    source = GoalSource(
        "g.md", "g.md", f"{front}# Make tea\n## Done when\n- `test -e tea`\n".encode()
    )
    return parse(merged(source, options), "g.md", ["default", "mine"])


@pytest.mark.parametrize("front", FRONTS)
def test_options_win_and_everything_else_stays(front):
    goal = with_options(front, ALL)
    assert (goal.name, goal.agent, goal.workspace) == ("tea", "mine", "/work here/x")
    commands = set(goal.checks.values())
    assert {*ALL.checks, "test -e tea"} <= commands
    assert ("ls" in commands, "pwd" in commands) == ("ls" in front, "pwd" in front)
    assert goal.priority == (2 if "priority: 2" in front else 0)


@pytest.mark.parametrize("checks", ["5", "[5]"])
def test_checks_of_a_file_that_cannot_be_used_are_not_lost_to_an_option(checks):
    with pytest.raises(GoalFileError, match="must be text"):
        with_options(f"---\nchecks: {checks}\n---\n", ALL)


@given(st.text(max_size=80), st.sampled_from(FRONTS))
def test_any_text_of_an_option_is_read_back_as_it_was_or_refused(check, front):
    try:
        goal = with_options(front, SubmitOptions(VALUES, (check,)))
    except GoalFileError:
        assert not check.strip() or not check.isprintable()
    else:
        assert check.strip() in goal.checks.values()
