"""What a model is asked at the end of its prompt, and what it is told of its checks: one promise a row."""

from dataclasses import replace

import pytest
from tests.unit.test_prompt import view_of

from clew_shared.guidance import AS_BEFORE, NOT_YET, absent
from clew_shared.prompt.layout import state_block
from clew_shared.text.words import SILENT
from clew_shared.tools import NO_EDIT, NO_LONGER, TOOLS
from clew_shared.wire.hello import Call, Said

GOAL = "Tu was mit shop.py"  # no word of it counts but the names of files
CHECKS = {"right": './check "$(cat out)"'}

WRITE = Call(3, "write_file", {"path": "shop.py", "content": "x"}, "success", "created")
SAME = replace(WRITE, changed=False)
READ = Call(4, "read_file", {"path": "shop.py"}, "success", "text", changed=False)
RUN = Call(5, "run_cmd", {"cmd": "ls"}, "success", "shop.py", changed=False)
HALF = Call(5, "run_cmd", {"cmd": "sed -i s/a/b/ x && false"}, "failure", changed=True)
NO_CHANGE = Call(6, "edit_file", {"path": "shop.py"}, "error", f"{NO_EDIT}: nothing to change")
LESS = replace(WRITE, output=f"changed shop.py{NO_LONGER}`total`")
SORTED = Call(2, "run_cmd", {"cmd": "sort > shop.py"}, "success", changed=True)
FENCED = replace(WRITE, args={"path": "shop.py", "content": "```python\nx = 1\n```\n"})
CHECK_ITSELF = Call(7, "run_cmd", {"cmd": "cat out"}, "failure", "wrong")
REFUSED_END = Call(-1, "finish", {}, "error", "Not finished")

FAILS = Said("user", f"{NOT_YET}\nCheck failed")
GOT = Said("user", f'{NOT_YET}\nCheck failed\n{SILENT}test a = b\ngot "a", expected "b"')
ERROR = Said(
    "user",
    f'{NOT_YET}\nTraceback:\n  File "shop.py", line 2, in total\n    return x["prize"]\nKeyError: \'prize\'\n',
)
ITSELF = Said(
    "user",
    f'{NOT_YET}\nTraceback:\n  File "shop.py", line 1, in <module>\n    from shop import total\n'
    "ImportError: cannot import name 'total' from partially initialized module 'shop' (most likely circular)\n",
)
ABSENT = Said("user", f"{NOT_YET}\nCheck failed\n/bin/sh: 1: cannot open out.txt: No such file")
IN_IT = Said("user", f'{NOT_YET}\nCheck failed\n{SILENT}grep -q foo a.py\n"foo" is still in a.py')
NOT_FOUND = Call(6, "edit_file", {"path": "shop.py"}, "error", "old is not in shop.py")
STILL = Said("user", f"{NOT_YET} {AS_BEFORE}\nCheck failed\nNameError: name 'totl'\n")
VALUE = 'got "a", expected "b"'
STEP = "Take the next step towards the goal."


def asked_of(*entries, **given):
    given = {"checks": CHECKS, "tools": TOOLS, "transcript": entries, **given}
    return state_block(view_of(GOAL, **given))


@pytest.mark.parametrize(
    ("entries", "asked"),
    [
        # a look at what exists comes first, whatever the goal's language
        ((), "Begin: call a tool."),
        # after a mere look the checks speak, and nobody is asked whether it is done
        ((READ,), f"Nothing is changed yet. {STEP}"),
        ((GOT, READ), f"Nothing is changed yet. Now change what is wrong: {VALUE}"),
        ((WRITE, GOT, RUN), f"Now change what is wrong: {VALUE}"),
        ((WRITE, FAILS, READ), "Now change what is wrong."),
        ((WRITE, REFUSED_END), "Look at what is wrong"),
        ((WRITE, REFUSED_END, WRITE), "call finish. If not"),
        # after a change: what the checks got, where in the code, or that nothing is better
        ((WRITE, FAILS), STEP),
        ((WRITE, GOT), f"Now correct shop.py: {VALUE}"),
        ((WRITE, ABSENT), "out.txt does not exist. Now call write_file with path out.txt."),
        ((WRITE, IN_IT, READ), 'Now change what is wrong: "foo" is still in a.py'),
        ((NOT_FOUND,), "That did not work."),
        ((NOT_FOUND, NOT_FOUND), "Call write_file with the whole file shop.py"),
        ((SORTED, GOT), f"Now correct what is wrong: {VALUE}"),
        (
            (WRITE, ITSELF),
            "wrong: shop.py line 1, `from shop import total`: shop.py imports total from itself instead of defining it",
        ),
        ((WRITE, ERROR), """wrong: shop.py line 2, `return x["prize"]`: KeyError: 'prize'"""),
        ((WRITE, STILL), f"{AS_BEFORE} Now change what is wrong: NameError: name 'totl'"),
        ((HALF, FAILS), "It changed files, but the goal is not reached."),
        # writing that went wrong
        ((NO_CHANGE,), "Call write_file with the whole file shop.py as it should be."),
        ((WRITE, GOT, NO_CHANGE), f"the whole file shop.py as it should be: {VALUE}"),
        ((LESS, FAILS), "Put them back, unless they had to go: `total`"),
        ((SORTED, LESS, FAILS), STEP),  # the agent's own lines
        ((FENCED, FAILS), "shop.py begins and ends with ```. Write it without"),
        ((WRITE, FAILS, SAME), "it was already so. Change something else."),
        # calls that went wrong
        ((CHECK_ITSELF,), "This shows what is still wrong. Now change it."),
        ((HALF,), "That did not work. Correct the call"),
        ((replace(WRITE, result="blocked"),), "It was refused."),
    ],
)
def test_the_request_follows_from_the_facts(entries, asked):
    assert asked in asked_of(*entries)


@pytest.mark.parametrize(
    ("check", "missing"),
    [
        ('test "$(cat < out.txt)" = 4', ("out.txt",)),
        ("test -s a/b.json && python3 app.py", ("a/b.json",)),
        ("grep -q x app.py; grep y notes.md", ()),
        ("cd sub && test -f x.py", ()),
        ("python3 -c 'import app.run; y'", ()),
        ("curl -s http://example.com/a.html | grep 1.5", ()),
        ("make test", ()),
    ],
)
def test_a_file_that_a_check_names_and_that_is_not_there_is_known(check, missing):
    assert absent([check], ["app.py", "docs/", "docs/notes.md"]) == missing
    assert absent([check], []) == ()


def test_what_is_missing_is_said_as_long_as_no_check_has_said_more():
    given = {"checks": {"right": "test -s out.txt"}, "there": ["app.py"]}
    missing = "out.txt does not exist. Now call write_file with path out.txt."
    assert missing in asked_of(READ, **given)
    assert f"wrong: {VALUE}" in asked_of(GOT, READ, **given)


def test_an_edit_that_changed_nothing_leads_to_the_file_that_is_missing():
    """Else the model rewrites the file that it has read, as if that were the missing one."""
    asked = asked_of(
        WRITE, NO_CHANGE, checks={"right": "test -s shop.py && test -s out.txt"}, there=["app.py"]
    )
    assert "Call write_file with the whole file out.txt: it does not exist." in asked
    written = asked_of(WRITE, NO_CHANGE, checks={"right": "test -s shop.py"}, there=["app.py"])
    assert "the whole file shop.py as it should be." in written
