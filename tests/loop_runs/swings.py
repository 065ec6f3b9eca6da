"""Kind b: edits under which what a check counts swings, with no trend."""

from tests.loop_runs.moves import Run, edit, fails, sh


def tried(texts, cmd="pytest -q", result="failure", path="a.py"):
    """Return an edit before each run of a check that says one of `texts`."""
    return [
        m
        for n, text in enumerate(texts)
        for m in (edit(path, f"old{n}", f"idea {n}"), sh(cmd, text, result))
    ]


def pytest(*failed, of=20):
    return [f"{n} failed, {of - n} passed in 0.{n}1s" for n in failed]


SWING = (3, 5, 3, 5, 3, 5, 3, 5)

LOOPS = [
    Run("3-5-3-5 of pytest", tried(pytest(*SWING)), 12),
    Run("2-6-4-6-4-5-3-6 without a best", tried(pytest(2, 6, 4, 6, 4, 5, 3, 6, 4, 5)), 16),
    Run(
        "one of two tests fails in turn",
        tried(
            [
                f"FAILED test_{n % 2 + 1} - assert {n % 2} == {n % 2 + 8}\n1 failed"
                for n in range(10)
            ]
        ),
        12,
    ),
    Run(
        "unittest",
        tried(
            [f"Ran 12 tests in 0.0{n}s\n\nFAILED (failures={n})" for n in SWING],
            "python -m unittest",
        ),
        12,
    ),
    Run(
        "cargo",
        tried(
            [f"test result: FAILED. {9 - n} passed; {n} failed; finished in 0.{n}s" for n in SWING],
            "cargo test",
        ),
        12,
    ),
    Run(
        "jest",
        tried(
            [f"Tests: {n} failed, {9 - n} passed, 9 total\nTime: {n}.21 s" for n in SWING],
            "npm test",
        ),
        12,
    ),
    Run(
        "mypy",
        tried(
            [
                f"a.py:{n}: error: bad\nFound {n} errors in 2 files (checked 9 source files)"
                for n in SWING
            ],
            "mypy .",
        ),
        12,
    ),
    Run(
        "a value on either side of what is wanted",
        tried([f"E   assert {n} == 4" for n in SWING], "pytest -k total"),
        12,
    ),
    Run("three values in turn", tried(pytest(3, 5, 4, 3, 5, 4, 3, 5, 4, 3, 5, 4)), 18),
    Run(
        "a list that is read between",
        [
            m
            for n in SWING
            for m in (
                edit("a.py", f"{n}", f"{n}y{len(str(n))}"),
                sh("cat a.py", f"text {n}"),
                fails("make check", f"{n} of 12 checks failed"),
            )
        ],
        18,
    ),
]

WORK = [
    Run("fewer each time", tried(pytest(9, 7, 6, 5, 4, 3, 2, 1))),
    Run("two steps forward, one back", tried(pytest(9, 10, 7, 8, 5, 6, 3, 4, 1))),
    Run("worse once, then better", tried(pytest(3, 5, 3, 2, 1))),
    Run(
        "red, green, red, green",
        [
            m
            for n in range(6)
            for m in (
                edit("test_a.py", f"t{n}", f"t{n + 1}"),
                fails("pytest -q", f"1 failed, {n} passed"),
                edit("a.py", f"v{n}", f"v{n + 1}"),
                sh("pytest -q", f"{n + 1} passed"),
            )
        ],
    ),
    Run(
        "more tests while some fail",
        tried([f"{3 + 2 * (n % 2)} failed, {10 + 3 * n} passed" for n in range(8)]),
    ),
    Run(
        "a flaky test run again and again",
        [
            edit("a.py", "x", "y"),
            *[
                fails(
                    f"pytest -q --seed {n}", f"{3 + 2 * (n % 2)} failed, {5 - 2 * (n % 2)} passed"
                )
                for n in range(4)
            ],
            edit("a.py", "y", "z"),
            sh("pytest -q", "8 passed"),
        ],
    ),
    Run(
        "each attempt taken back",
        [
            m
            for n in range(6)
            for m in (
                edit("a.py", "base", f"idea {n}"),
                fails("pytest -q", f"{5 + n} failed"),
                sh("git checkout a.py", "Updated 1 path", **{"a.py": "base"}),
            )
        ],
    ),
    Run(
        "a value closed in on",
        tried([f"E   assert {n} == 10" for n in (20, 2, 14, 7, 12, 8.5, 11, 9.2, 10.4, 9.8)]),
    ),
    Run(
        "a slow climb of a score",
        tried([f"accuracy {0.5 + n / 50:.2f} below 0.90" for n in range(10)], "python train.py"),
    ),
    Run(
        "two checks in turn, each with its own count",
        [
            m
            for n in range(6)
            for m in (
                edit("a.py", f"v{n}", f"v{n + 1}"),
                fails("pytest -q", f"{9 - n} failed"),
                fails("mypy .", f"Found {20 - n} errors in 3 files"),
            )
        ],
    ),
    Run(
        "one error after the other",
        tried([f"E   NameError: name_{n} is not defined\n1 failed" for n in range(4)]),
    ),
]
