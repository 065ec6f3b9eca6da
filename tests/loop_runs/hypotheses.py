"""Kind e: edits against one stubborn error; each tries another hypothesis, or all are the same attempt."""

from tests.loop_runs.moves import Run, act, edit, fails, sh, thinks


def tried(edits, errors):
    moves = []
    for change, error in zip(edits, errors, strict=True):
        moves += [change, fails("pytest -q", error)]
    return moves


def edits(count, path="a.py"):
    return [edit(path, f"part {n}", f"idea {n}") for n in range(count)]


SAME = "E   ImportError: cannot import name 'client' from 'api'\n1 error in 0.2s"

LOOPS = [
    Run(
        "one file rewritten, the same collection error",
        tried(edits(8, "conftest.py"), [SAME] * 8),
        12,
    ),
    Run(
        "installed again by other names",
        [
            m
            for n in range(6)
            for m in (
                sh(f"pip install yaml{n}", f"Successfully installed yaml{n}", site=f"{n}"),
                fails("python go.py", "ModuleNotFoundError: No module named 'yaml'"),
            )
        ],
        12,
    ),
    Run(
        "an edit that is not unique, by other words",
        [
            act(
                "edit_file",
                f"`return x{n}` is in a.py 4 times",
                "error",
                path="a.py",
                old=f"return x{n}",
                new="y",
            )
            for n in range(6)
        ],
        4,
    ),
    Run(
        "one test by ever other options",
        [
            fails(f"pytest {flag}", "E   assert 3 == 4\n1 failed")
            for flag in ("-q", "-v", "-x", "-vv", "-s", "--lf")
        ],
        4,
    ),
    Run(
        "a key that is refused",
        [fails(f"curl -H 'X-Key: {n}' api", "401 Unauthorized") for n in range(6)],
        4,
    ),
    Run(
        "an unknown option in other commands",
        [
            fails(f"ls --sort-by {n}", "ls: unrecognized option '--sort-by'")
            for n in ("name", "size", "date", "kind")
        ],
        4,
    ),
    Run(
        "edits of other files, the same error",
        tried([edit(f"f{n}.py", "x", "y") for n in range(8)], [SAME] * 8),
        12,
    ),
    Run(
        "edits and reads, the same error",
        [
            m
            for n in range(8)
            for m in (
                edit("a.py", f"{n}", f"{n + 1}"),
                sh("cat a.py", f"text {n}"),
                fails("make", "ld: no -lfoo"),
            )
        ],
        18,
    ),
    Run(
        "blanks",
        tried(
            [edit("a.py", " " * n, " " * (n + 1)) for n in range(8)],
            ["IndentationError: line 3"] * 8,
        ),
        12,
    ),
    Run(
        "a thought and an edit, the same error",
        [
            m
            for n in range(8)
            for m in (
                *thinks(f"It should work with {n}"),
                edit("b.py", f"{n}", f"{n + 1}"),
                fails("npm test", "TypeError: x is not a function"),
            )
        ],
        18,
    ),
]


def four(error, *values, cmd="pytest -q tests/test_a.py"):
    """Return four hypotheses, each with a thought, an edit and nearly the same error; the last edit helps."""
    causes = (
        "The cache returns an old entry, so I clear it before the lookup",
        "Perhaps rounding happens twice: I drop the inner call of round",
        "The time zone is applied to naive dates; convert them at the border",
        "The query joins on the wrong column, which doubles rows",
    )
    moves = []
    for n, (cause, value) in enumerate(zip(causes, values, strict=True)):
        moves += [
            *thinks(cause),
            edit(f"src/m{n}.py", f"place {n}", f"cure {n}"),
            fails(cmd, error.format(value, n)),
        ]
    return [*moves, edit("src/m9.py", "a", "b"), sh(cmd, "4 passed")]


WORK = [
    Run(
        "a quoted value",
        four("E   AssertionError: assert '{}' == 'done'\n1 failed", "open", "new", "held", "late"),
    ),
    Run("a number", four("E   assert {} == 42\n1 failed", 40, 41, 43, 44)),
    Run("a line", four("a.py:1{1}: AssertionError: totals differ\n1 failed", 0, 0, 0, 0)),
    Run("the very same words", four("E   assert total(cart) == 42\n1 failed", 0, 0, 0, 0)),
    Run(
        "a path in quotes",
        four("FileNotFoundError: No such file: '/srv/{}/index'", "a", "b", "c", "d"),
    ),
    Run(
        "by node",
        four(
            "AssertionError [ERR_ASSERTION]: '{}' == 'ok'",
            "no",
            "nope",
            "nay",
            "nah",
            cmd="node --test",
        ),
    ),
    Run(
        "a longer report",
        four(
            "F.\ndef test_a():\n    x = f()\n>   assert x == 'b'\nE   assert '{}' == 'b'\n1 failed, 1 passed",
            "p",
            "q",
            "r",
            "s",
        ),
    ),
    Run(
        "a compiler",
        four(
            "main.c:1{1}:5: error: expected ';' before '{0}'\n1 error",
            "a",
            "b",
            "c",
            "d",
            cmd="make",
        ),
    ),
    Run(
        "with a look between",
        [
            m
            for move in four("E   assert '{}' == 'x'\n1 failed", "a", "b", "c", "d")
            for m in (
                [act("read_file", f"text {move.files}", path=next(iter(move.files))), move]
                if move.files
                else [move]
            )
        ],
    ),
    Run(
        "the wrong kind",
        four(
            "E   TypeError: '{}' object is not iterable\n1 failed",
            "int",
            "NoneType",
            "float",
            "bool",
        ),
    ),
]
