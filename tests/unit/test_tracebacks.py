"""Tracebacks without the frames of libraries."""

from clew_shared.text.tracebacks import located_error, without_library_frames

TRACEBACK = """before
Traceback (most recent call last):
  File "/w/read.py", line 1, in <module>
    json.load(file)
{frames}json.decoder.JSONDecodeError: Expecting value
after
"""
LIBRARY = """  File "/usr/lib/python3.11/json/__init__.py", line 293, in load
    return loads(fp.read(),
           ^^^^^^^^^^^^^^^^
  File "/w/.venv/lib/python3.12/site-packages/x.py", line 2, in y
  File "<frozen runpy>", line 88, in _run_code
"""


def test_a_run_of_library_frames_becomes_one_line():
    shown = without_library_frames(TRACEBACK.format(frames=LIBRARY))
    assert shown == TRACEBACK.format(frames="  (3 frames of libraries)\n")


def test_frames_of_the_goal_between_them_stay():
    own = '  File "/w/other.py", line 3, in z\n    call()\n'
    shown = without_library_frames(TRACEBACK.format(frames=LIBRARY + own + LIBRARY))
    hidden = "  (3 frames of libraries)\n"
    assert shown == TRACEBACK.format(frames=hidden + own + hidden)


def test_any_other_text_stays_as_it_is():
    syntax = (
        "  File \"broken.py\", line 1\n    def main()\n              ^\nSyntaxError: expected ':'\n"
    )
    for text in (
        "",
        "plain",
        syntax,
        TRACEBACK.format(frames=""),
        'File "/usr/lib/python3.11/a.py"',
    ):
        assert without_library_frames(text) == text


def test_an_error_is_named_with_the_line_of_code_that_led_to_it():
    assert located_error(TRACEBACK.format(frames=LIBRARY).removesuffix("after\n")) == (
        "/w/read.py line 1, `json.load(file)`: json.decoder.JSONDecodeError: Expecting value"
    )
    syntax = '  File "a.py", line 7\n    def main()\n              ^\nSyntaxError: expected\n'
    assert located_error(syntax) == "a.py line 7, `def main()`: SyntaxError: expected"


def test_what_is_no_error_of_python_has_no_line_of_code():
    assert located_error("") == ""
    assert located_error("cat: a: No such file or directory") == ""
    assert located_error("ValueError: no frames") == ""
    assert located_error(TRACEBACK.format(frames="")) == ""  # something else was printed after it
    shell = (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nAssertionError'
    )
    assert located_error(shell) == ""  # there is no code to show


def circle(file):
    error = "cannot import name 'area' from partially initialized module 'shapes'"
    return (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        f'  File "{file}", line 1, in <module>\n    from shapes import area\n'
        f"ImportError: {error} (most likely due to a circular import) (shapes/__init__.py)\n"
    )


def test_a_module_that_imports_what_it_should_define_is_told_to_define_it():
    assert located_error(circle("shapes/__init__.py")).endswith(
        ": it imports area from itself. Define area in shapes/__init__.py instead of importing it."
    )
    assert located_error(circle("shapes/square.py")).endswith("(shapes/__init__.py)")
    missing = (
        'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n    from greet import {}\n'
        '  File "greet.py", line 1, in <module>\n    import greeting\n'
        "ModuleNotFoundError: No module named 'greeting'\n"
    )
    assert located_error(missing.format("greeting")).endswith(
        ": there is no module greeting. Define greeting in greet.py instead of importing it."
    )
    assert located_error(missing.format("welcome")).endswith(
        ": there is no module greeting. Write greeting.py if it is part of the goal, or import another one."
    )
