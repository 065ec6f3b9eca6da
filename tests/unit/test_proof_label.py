"""How many tests ran, whose exit code decides a check, and the label that follows; long texts are read at once."""

import shutil
from dataclasses import replace

import pytest

from clew_shared.proof.judges import Patterns
from clew_shared.proof.label import Allowed, Evidence, Run, Seen, label, next_view, words
from clew_shared.proof.runners import Count, count, fewer
from clew_shared.snapshots.store import FILES, SnapshotStore
from clew_worker.executor.proof import look
from clew_worker.executor.proof.sources import (
    decided_by,
    deciding,
    is_all_tests,
    judges,
    moving_tests,
    signs,
    with_old_tests,
)
from clew_worker.executor.proof.sources import tests_lost as lost_tests

CLOSINGS = {
    "==== 2 passed, 1 failed in 0.03s ====": Count(2, 1, 0),
    "\x1b[32m3 passed\x1b[0m, 2 skipped, 1 warning in 1.20s": Count(3, 0, 2),
    "no tests ran in 0.01s": Count(),
    "598 passed, 1 skipped, 5 warnings, 2309 subtests passed in 15.37s": Count(598, 0, 1),
    "Ran 3 tests in 0.001s\n\nFAILED (failures=1, skipped=1)": Count(1, 1, 1),
    "Ran 2 tests in 0.001s\n\nOK": Count(2, 0, 0),
    "Ran 2 tests in 0.001s\n\nFAILED (failures=4)": Count(0, 2, 0),  # of one test's subtests
    "Ran 2 tests in 0.001s\n\nFAILED (failures=5, skipped=1)": Count(0, 1, 1),
    "Ran 0 tests in 0.001s\n\nFAILED (errors=1)": Count(0, 1, 0),
    "3 failed, 1 passed, 2 errors in 0.03s": Count(0, 4, 0),  # at teardown, of tests that are counted
    "4 passed, 1 error in 0.03s": Count(3, 1, 0),
    "_ ERROR at setup of test_a _\n4 passed, 1 error in 0.03s": Count(4, 1, 0),
    "2 errors in 0.03s": Count(0, 2, 0),
    "SUBFAILED[m] (i=1) t.py::a - x\n[m] (i=2) SUBFAIL t.py::a\n3 failed, 1 passed in 0.1s": Count(0, 2, 0),
    "SUBFAILED t.py::a\n1 failed in 0.1s": Count(0, 1, 0),  # the failure still counts
    "ERROR: t (unittest.loader._FailedTest.t)\nRan 1 test in 0.000s\n\nFAILED (errors=1)": Count(),
    "# tests 3\n# suites 0\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 0\n": Count(2, 1, 0),
    "Tests:       1 failed, 1 skipped, 2 passed, 4 total": Count(2, 1, 1),
    " Tests  1 failed | 2 passed (3)": Count(2, 1, 0),
    "\n  2 passing (8ms)\n  1 pending\n  1 failing\n": Count(2, 1, 1),
    "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured": Count(2, 0, 1),
    "--- FAIL: TestB (0.0s)\nFAIL": Count(0, 1, 0),  # a test binary, which names no package
    "=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.0s)\nFAIL\nFAIL\ta/b\t0.01s": Count(1, 1, 0),
    "--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.0s)\nFAIL\nFAIL\ta/b\t0.01s\nok  \ta/c\t(cached)": Count(1, 1, 0),
    "=== RUN   TestA\n[... 9 bytes left out ...]\n--- PASS: TestB (0.00s)\nPASS": Count(1, 0, 0, cut=True),
    "[... 9 bytes left out ...]\n2 passed in 0.01s": Count(2, 0, 0),  # one line says it all
    "ok  \ta/b\t0.01s\n?   \ta/c\t[no test files]\nok  \ta/d\t0.01s [no tests to run]": Count(1, 0, 0),
    "ok  \ta/b\t0.01s\n==== 2 passed, 1 failed in 0.03s ====": Count(3, 1, 0),
    "[INFO] Tests run: 5, Failures: 1, Errors: 0, Skipped: 1": Count(3, 1, 1),
    "75% tests passed, 1 tests failed out of 4": Count(3, 1, 0),
    "3 passed over": None,
    "": None,
}  # fmt: skip


def test_the_closing_lines_of_runners_say_how_many_tests_ran():
    assert {output: count(output) for output in CLOSINGS} == CLOSINGS


UNITS = (
    *("\n", " ", "(", "ok ", "a", "1", "1 ", " \n", "a.", "[a]\n", "open(", "expect."),
    *("def __eq__(\n", "__eq__=lambda "),
)
LONG = [unit * (60_000 // len(unit)) for unit in UNITS]
DEEP = [f"{n:011b}fn a() {{\n".replace("0", " ").replace("1", "\t") for n in range(2_048)]


def test_long_output_is_counted_at_once():
    cut = [line * 500 for one in CLOSINGS for line in (one, one[:-1], f"{one} ")]
    inside = [f"Tests:{text}1 total" for text in LONG] + [f"{text} passed in 1s" for text in LONG]
    for text in (*LONG, *cut, *inside):
        count(text)


def test_long_sources_and_configs_are_looked_at_at_once():
    for text in map(str.encode, (*LONG, "".join([*DEEP, "x\n" * 500_000]))):
        moving_tests("a.rs", b"#[test]\n" + text, b"")
        signs("a.js", b"", b"x" + text), lost_tests(text, b""), is_all_tests("a.js", text)
        for start in (b"def f()" + text, b"def f():\n assert 1" + text, b"class Test" + text):
            is_all_tests("a.py", start + b"\n assert\n x")
        with_old_tests("a.rs", b"#[cfg(test)]" + text, text)
        for start in (b"#[test]\n", b"#[test]\n fn ", b"#[cfg(test)]\nmod a {\n", b""):
            moving_tests("a.rs", b"", start + text), signs("a.rs", b"", start + text)
        for name in ("pyproject.toml", "setup.cfg", "package.json", "go.mod"):
            judges(name, b"", b"[a]\na" + text + b"b", Patterns())


FEWER = [
    (None, None, ""),
    (Count(2), None, "missing"),
    (Count(2, 1), Count(3), ""),
    (Count(2, 1), Count(2), "2 tests ran"),
    (Count(2), Count(2, 0, 1), "skipped"),
    (Count(2), Count(5, 0, 1), ""),
    (Count(90, cut=True), Count(80, 0, 1, cut=True), ""),
    (Count(90, cut=True), Count(40, cut=True), "at least 40 tests ran"),
    (Count(90, cut=True), Count(80), "80 tests ran"),
    (Count(90), Count(80, cut=True), "at least 80 tests ran"),
    (Count(90), Count(90, cut=True), ""),
    (Count(90, cut=True), None, "missing"),
]


def test_fewer_tests_than_before_are_noticed():
    for before, now, expected in FEWER:
        found = fewer(before, now)
        assert expected in found
        assert bool(found) is bool(expected)


@pytest.mark.parametrize(
    ("cmd", "expected"),
    [
        ("sh tools/suite.sh", ["tools/suite.sh"]),
        ("sh greet.sh | diff - expected.txt", ["diff"]),
        ("cd app && python3 main.py --check", ["app/main.py"]),
        ("PATH=$PWD/bin:$PATH checker", ["checker"]),
        ("python3 -m mathx", ["mathx"]),
        ("timeout 30 ./e2e.sh && echo ok", ["e2e.sh", "echo"]),
        ("python3 -c 'import mathx'", ["-c"]),
        ("test -f a", ["["]),
        ("'", []),
    ],
)
def test_whose_exit_code_decides_a_check(cmd, expected):
    assert deciding(cmd) == expected


DECIDED = {
    "sh tools/suite.sh": "tools/suite.sh",
    "checker": "bin/checker",
    "PATH=$PWD/bin:$PATH python3 -m unittest": "bin/python3",
    "make -s test": "bin/compare",
    "make test both": "",  # pytest decides, too
    "make -s test && pytest": "",
    "make built": "",
    "npm run check --silent": "bin/compare",
    "sh run.sh": "bin/compare",
    "sh ../a.sh; : ; . b.sh; /c.sh": "",
}
START = {
    "Makefile": 'test: a\n\t@compare "$$(sh gen.sh)" b\nboth:\n\tsh gen.sh\n\tpytest\nbuilt: t\n\t./t\n',
    "run.sh": "#!/bin/sh\nset -e\ncompare 1 2\necho done\n",
    "package.json": '{"scripts": {"check": "compare a b"}}',
}


@pytest.mark.parametrize("cmd", DECIDED)
def test_a_file_that_decides_is_named_also_where_a_script_of_the_start_runs_it(cmd):
    were = dict.fromkeys(
        ("tools/suite.sh", "bin/checker", "bin/python3", "bin/compare", "gen.sh"), True
    )
    found = decided_by([cmd], were | {"t": False}, lambda path: START.get(path, ""))
    assert [one.partition(": ")[0] for one in found] == [DECIDED[cmd]] * bool(DECIDED[cmd])


def test_of_what_is_too_large_or_no_name_of_a_file_nothing_is_read(tmp_path, monkeypatch):
    store, runs, run = SnapshotStore(tmp_path, shutil.which("git")), [], SnapshotStore.run
    store.make()
    tree = b""
    for name, text in {"a.sh": b"true", "large": b"x" * (3 << 20)}.items():
        blob = store.run("hash-object", "-w", "--stdin", data=text).strip()
        tree += b"100644 blob %b\t%b\n" % (blob, name.encode())
    below = store.run("mktree", data=tree).strip()
    base = store.run("mktree", data=b"040000 tree %b\t%b\n" % (below, FILES.encode())).strip()
    monkeypatch.setattr(
        SnapshotStore, "run", lambda *args, **more: runs.append(args[2]) or run(*args, **more)
    )
    expected = {"a.sh": ["-s", "blob"], "large": ["-s"], "none": ["-s"]}
    for word in ("a.sh", "large", "none", "-c", "[", "", "/bin/sh", "../a.sh", "a/../a.sh"):
        runs.clear()
        assert look.text_of(store, base.decode(), word) == "true" * (word == "a.sh")
        assert runs == expected.get(word, [])


RED, GREEN = Run(1), Run(0)
WORKED = Evidence({"t": RED}, {"t": GREEN})


def viewed(**views):
    return replace(WORKED, views={take: {"t": run} for take, run in views.items()})


GONE = viewed(judges=RED)
CHANGED = Seen(altered=("t.py",), added=("a.py",))
BOTH = Seen(altered=("t.py",), home=(".npmrc",))  # files and tools: a third run says which it was
LABELS = [
    ("proven", Seen(), WORKED),
    ("proven", CHANGED, viewed(judges=GREEN)),  # the tests as they were pass, too
    ("checked", Seen(), Evidence({"t": GREEN}, {"t": GREEN})),
    ("checked", Seen(), Evidence({}, {"t": GREEN})),
    ("checked", Seen(data=("a.csv",)), viewed(data=RED)),
    ("checked", Seen(odd=("a.py: os._exit",)), WORKED),
    ("own_tests", Seen(added=("tests/a.py",)), GONE),
    ("changed_tests", CHANGED, GONE),
    ("changed_tests", BOTH, viewed(judges=RED, tools=GREEN)),
    ("changed_tools", BOTH, viewed(judges=RED, tools=RED)),
    ("changed_tools", Seen(home=(".npmrc",)), GONE),
    ("left_running", Seen(alive=("sleep",)), GONE),
    ("fewer_tests", Seen(), Evidence({"t": Run(1, Count(1, 1))}, {"t": Run(0, Count(1))})),
    ("failing_tests", Seen(), Evidence({"t": RED}, {"t": Run(0, Count(1, 1))})),
    ("watches_tests", Seen(watches=("a.py: PYTEST_",)), WORKED),
    ("unknown", CHANGED, viewed(judges=Run(None))),
]


def test_one_label_follows_from_what_was_seen_and_its_words_say_why():
    found = [label(*seen) for _, *seen in LABELS]
    assert [one.label for one in found] == [expected for expected, *_ in LABELS]
    assert all(one.why in words("checked", one.why) for one in found if one.label == "checked")


def test_a_view_is_made_only_where_the_label_needs_it():
    tests = Seen(altered=("t.py",))
    assert next_view(BOTH, GONE, Allowed()) == "tools"
    assert next_view(Seen(), WORKED, Allowed()) is None
    assert next_view(Seen(), WORKED, Allowed(setup=True)) == "judges"
    assert next_view(tests, WORKED, Allowed()) == "judges"
    assert next_view(tests, GONE, Allowed()) == "work"
    assert next_view(tests, GONE, Allowed(("t.py",))) == "kept"
    assert next_view(tests, viewed(judges=replace(RED, seconds=61)), Allowed()) is None
