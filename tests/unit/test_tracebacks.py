"""Tracebacks without the frames of libraries."""

from clew_shared.text.tracebacks import without_library_frames

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
