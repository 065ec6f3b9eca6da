"""What a prompt asks for at its end: the next call."""

from dataclasses import replace

import pytest

from clew_shared.prompt.check_notes import AS_BEFORE, NOT_YET
from clew_shared.prompt.state_block import state_block
from clew_shared.prompt.view import PromptView
from clew_shared.text.shell_tests import SILENT, STILL_IN
from clew_shared.tools import NO_EDIT, NO_LONGER, TOOLS
from clew_shared.wire.hello import AttemptTerms, Call, Said

VIEW = PromptView(goal="Make hello.txt", subtask="Make hello.txt")
WRITE = Call(3, "write_file", {"path": "hello.txt", "content": "hello"}, "success", "created")


def test_what_is_asked_follows_from_the_last_call():
    def asked(call, **fields):
        return state_block(replace(VIEW, transcript=(call,), **fields))

    assert "call finish" in asked(WRITE)
    assert "call complete_subtask" in asked(WRITE, goal="more")
    assert "it was already so" in asked(replace(WRITE, changed=False))
    assert "did not work" in asked(replace(WRITE, result="error"))
    assert "refused" in asked(replace(WRITE, result="blocked"))
    split = Call(8, "run_cmd", {"cmd": "find -exec rm {} \n && ls"}, "failure")
    assert "the shell ran this alone: find -exec rm {}" in asked(split)
    assert "as in \\\\; or" in asked(split)
    assert "line break" not in asked(replace(split, args={"cmd": "cat > a <<E\nb\nE"}))
    assert "call plan with exactly one task" in asked(WRITE, replan="task")
    shell = "/bin/sh: 1: read_file: not found"
    as_command = Call(8, "run_cmd", {"cmd": "cd a && read_file b"}, "failure", shell)
    assert "call read_file itself instead of run_cmd" in asked(as_command, tools=TOOLS)
    assert "itself" not in asked(replace(as_command, args={"cmd": "sh x"}), tools=TOOLS)


def test_a_check_that_the_model_runs_itself_is_no_wrong_call():
    def asked(cmd, result="failure"):
        call = Call(8, "run_cmd", {"cmd": cmd}, result, "got 1")
        failing = Said("user", f"{NOT_YET}\n{SILENT}test 1 = 6\n")
        checks = {"reached": 'test "$(python3 sum.py)" = 6'}
        return state_block(replace(VIEW, transcript=(failing, call), checks=checks))

    for same in (
        "test 1 = 6",
        "python3 sum.py",
        'test "$(python3 sum.py)" = 6',
        "test $(python3 sum.py)",
    ):
        assert asked(same) == "This shows what is still wrong. Now change it."
    for other in ("python3 sum", "python3 sum.py -v", "mv sum.py a"):
        assert asked(other).startswith("That did not work.")
    assert asked("python3 sum.py", "error").startswith("That did not work.")


def test_a_failed_command_that_has_changed_files_is_not_called_again():
    half = Call(8, "run_cmd", {"cmd": "sed -i s/a/b/ x && false"}, "failure", changed=True)
    failing = Said("user", f"{NOT_YET}\nCheck failed")
    view = replace(VIEW, transcript=(half, failing), checks={"there": "test -f hello.txt"})
    assert state_block(view).startswith("It changed files, but the goal is not reached.")
    assert state_block(replace(view, transcript=(half,))).startswith("That did not work.")


def test_an_error_of_python_after_a_change_is_named_with_its_line_of_code():
    frame = '  File "shop.py", line 2, in total\n    return x["prize"]\n'
    failing = Said("user", f"{NOT_YET}\nCheck failed\nTraceback:\n{frame}KeyError: 'prize'\n")
    view = replace(VIEW, transcript=(WRITE, failing), checks={"there": "test -f hello.txt"})
    asked = """Now change what is wrong: shop.py line 2, `return x["prize"]`: KeyError: 'prize'"""
    assert state_block(view) == asked


def test_what_a_check_got_after_a_change_is_named():
    failing = Said("user", f'{NOT_YET}\nCheck failed\n{SILENT}test a = b\ngot "a", expected "b"')
    view = replace(VIEW, transcript=(WRITE, failing), checks={"there": "test -f hello.txt"})
    assert state_block(view) == 'Now correct hello.txt: got "a", expected "b"'
    other = Said("user", f"{NOT_YET}\nCheck failed\n{SILENT}test -f b\nthere is no file b")
    assert state_block(replace(view, transcript=(WRITE, other))).startswith("Take the next step")
    found = Said(
        "user", f'{NOT_YET}\n{SILENT}grep -q foo a b\n"foo"{STILL_IN}a or b\na:1:import foo'
    )
    assert state_block(replace(view, transcript=(WRITE, found))) == (
        "Now change what is wrong: a:1:import foo"
    )
    command = Call(3, "run_cmd", {"cmd": "echo > hello.txt"}, "success", changed=True)
    after_command = replace(view, transcript=(command, failing))
    assert state_block(after_command) == 'Now correct what is wrong: got "a", expected "b"'
    none = Call(4, "edit_file", {"path": "hello.txt"}, "error", f"{NO_EDIT}: nothing to change")
    after_none = state_block(replace(view, transcript=(WRITE, failing, none)))
    unknown = state_block(replace(view, transcript=(none,)))
    assert unknown.startswith("edit_file only changes files.")
    assert after_none.startswith(
        "Call write_file with the whole file hello.txt as it should be: got"
    )


def test_a_model_that_has_read_what_is_wrong_is_told_again_what_fails():
    failing = Said(
        "user", f'{NOT_YET}\nCheck failed\n{SILENT}test 45 = 55\ngot "45", expected "55"'
    )
    look = Call(7, "read_file", {"path": "sum.py"}, "success", "text", changed=False)
    run = Call(8, "run_cmd", {"cmd": "./a"}, "success", "45", changed=False)

    def asked(*entries):
        return state_block(replace(VIEW, transcript=entries, checks={"right": "./check"}))

    again = 'Now change what is wrong: got "45", expected "55"'
    for entries in ((failing, look), (failing, look, run)):
        assert asked(*entries) == f"Nothing is changed yet. {again}"
    assert asked(failing, run).endswith("Take the next step towards the goal.")
    for after in (look, run):
        assert asked(WRITE, failing, after) == again
    assert asked(WRITE, failing, WRITE, run).endswith("call finish. If not, call the next tool.")


def test_a_model_that_asks_for_a_file_that_is_not_there_is_sent_to_one_that_is():
    text = "greet.py does not exist. These do: main.py"
    missed = Call(7, "read_file", {"path": "greet.py"}, "error", text)
    view = replace(VIEW, transcript=(missed,))
    assert state_block(view) == "First call read_file on main.py."
    folders = replace(missed, output="greet.py does not exist. These do: docs/, src/")
    assert "did not work" in state_block(replace(view, transcript=(folders,)))
    look = Call(6, "read_file", {"path": "main.py"}, "success", "text", changed=False)
    assert "did not work" in state_block(replace(view, transcript=(look, missed)))


def test_a_model_that_has_read_a_test_is_sent_to_what_it_tests():
    def asked(path, text):
        look = Call(7, "read_file", {"path": path}, "success", text, changed=False)
        return state_block(replace(VIEW, transcript=(look,), checks={"pass": "pytest"}))

    text = "import os\nimport pytest\nfrom shop.cart import total\n"
    assert "This tests shop/cart.py: read that" in asked("tests/test_cart.py", text)
    assert "This tests" not in asked("cart.py", text)
    assert "This tests" not in asked("test_cart.py", "import os\n")


def test_lost_lines_are_asked_back_once_when_the_failure_is_a_new_one():
    less = Call(8, "write_file", {"path": "b"}, "success", f"changed b{NO_LONGER}`x`")
    edit = Call(9, "edit_file", {"path": "b"}, "success", "diff")
    same, new = (Said("user", f"{NOT_YET} {text}\nCheck failed") for text in (AS_BEFORE, ""))
    view = replace(VIEW, checks={"there": "test -f b"})

    def asked(*entries):
        return "Put them back" in state_block(replace(view, transcript=entries))

    assert not asked(less, same)
    assert asked(less, same, edit, new)
    assert not asked(less, same, edit, new, replace(edit, seq=10), new)
    assert not asked(less, same, replace(edit, args={"path": "c"}), new)


def test_lines_that_a_command_of_the_agent_wrote_are_not_asked_back():
    made = Call(7, "run_cmd", {"cmd": "sort a > b"}, "success", changed=True)
    less = Call(8, "write_file", {"path": "b"}, "success", f"changed b{NO_LONGER}`x`")
    failing = Said("user", f"{NOT_YET}\nCheck failed")
    view = replace(VIEW, transcript=(less, failing), checks={"there": "test -f b"})
    assert "Put them back" in state_block(view)
    assert "Put them back" not in state_block(replace(view, transcript=(made, less, failing)))


def test_a_model_that_has_only_looked_is_not_asked_whether_the_goal_is_done():
    checked = replace(VIEW, checks={"there": "test -f hello.txt"})
    look = Call(7, "read_file", {"path": "a"}, "success", "text", changed=False)
    rejected = Call(-1, "finish", {}, "error", "Not finished")

    def asked(*calls):
        return state_block(replace(checked, transcript=calls))

    assert "Nothing is changed yet" in asked(look)
    assert "Look at what is wrong" in asked(WRITE, rejected)
    assert asked(WRITE, rejected, look) == "Now change what is wrong."
    assert asked(WRITE, rejected, WRITE, look).endswith("Take the next step towards the goal.")
    assert "call finish" in asked(WRITE, rejected, WRITE)
    failing = Said("user", f"{NOT_YET}\nCheck failed")
    assert asked(WRITE, failing) == "Take the next step towards the goal."
    assert asked(WRITE, failing, look) == "Now change what is wrong."
    less = Call(
        8, "write_file", {"path": "a"}, "success", "changed a (1 bytes)" + NO_LONGER + "`b`"
    )
    assert asked(less, failing).endswith("Put them back, unless they had to go: `b`")
    assert "Put them back" not in asked(less, failing, look)
    assert "Put them back" in asked(replace(less, args={"path": "b"}), less, failing)
    assert "Put them back" not in asked(
        less, replace(less, seq=9), failing
    )  # the first one was the agent's own
    same = Said("user", f"{NOT_YET} {AS_BEFORE}\nCheck failed\nNameError: name 'totl'\n")
    assert asked(WRITE, same).endswith("Now change what is wrong: NameError: name 'totl'")
    assert "totl" not in asked(WRITE, same, look)
    assert "Change something else." in asked(WRITE, failing, replace(WRITE, changed=False))
    assert "call finish" in asked(WRITE, failing, WRITE)
    assert "call finish" in state_block(replace(VIEW, transcript=(look,)))


def test_each_second_attempt_at_what_exists_begins_without_a_look():
    found = [
        "First look"
        in state_block(replace(VIEW, goal="Fix it", subtask="Fix it", attempt=AttemptTerms(n=n)))
        for n in (1, 2, 3, 4)
    ]
    assert found == [True, False, True, False]


def test_work_on_what_exists_begins_with_a_look():
    def begins_with_a_look(goal):
        return "read_file" in state_block(replace(VIEW, goal=goal, subtask=goal))

    assert begins_with_a_look("Fix the bug in calc.py")
    assert begins_with_a_look("Add a key to the file")
    assert begins_with_a_look("Fix the function that should remove a user")
    assert not begins_with_a_look(VIEW.goal)
    assert not begins_with_a_look("Rename f to g and change its callers")  # one command does it


@pytest.mark.parametrize(
    ("goal", "searches"),
    [
        ("One of the files in docs contains the word X. Write its name into found.txt", True),
        ("Find all lines with TODO and write them into todo.txt", True),
        ("Search for uses of foo and list them", True),
        ("Write out which files mention the licence", True),
        ("Create hello.txt, a file that contains hello", False),
        ("Make sure that the file a.txt has three lines", False),
        ("Find out why it fails and fix it", False),
        ("One of the files has a bug. Fix it", False),
    ],
)
def test_a_goal_that_begins_with_finding_a_text_begins_with_a_search(goal, searches):
    asked = [
        "grep -rn" in state_block(replace(VIEW, goal=goal, subtask=goal, attempt=AttemptTerms(n=n)))
        for n in (1, 2)
    ]
    assert asked == [searches] * 2
