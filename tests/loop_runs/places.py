"""Kind f: one test in several folders, with the folder inside the command."""

from tests.loop_runs.moves import Run, act, edit, fails, sh

PACKAGES = ("core", "api", "web", "cli", "db", "auth", "mail", "jobs")

LOOPS = [
    Run(
        "one folder in other spellings",
        [
            sh(cmd, "5 passed")
            for cmd in (
                "cd pkg && pytest",
                "cd ./pkg && pytest",
                "cd pkg/ && pytest",
                "(cd pkg && pytest)",
                "cd pkg; pytest",
                "cd ./pkg/ && pytest -q",
                "cd ././pkg && pytest",
            )
        ],
        6,
    ),
    Run(
        "words that are nowhere",
        [sh(f"cd src && grep -rn word{n} . || true", "none") for n in range(8)],
        6,
    ),
    Run(
        "folders that are not there",
        [fails(f"cd {p} && make", f"bash: cd: {p}: No such file or directory") for p in PACKAGES],
        4,
    ),
    Run(
        "one folder, looked at in other ways",
        [
            sh(f"cd build && ls {flag}", "total 0")
            for flag in ("", "-a", "-l", "-la", "-R", "-lh", "-1")
        ],
        6,
    ),
    Run(
        "tests that do not exist",
        [sh(f"cd pkg && pytest -k t{n} || true", "no tests ran") for n in range(8)],
        6,
    ),
    Run(
        "two folders in turn",
        [sh(f"cd {p} && pytest", "5 passed") for _ in range(5) for p in ("core", "api")],
        6,
    ),
    Run(
        "three folders in turn",
        [sh(f"cd {p} && make check", "ok") for _ in range(4) for p in ("core", "api", "web")],
        9,
    ),
    Run(
        "the same answer of git",
        [
            sh(f"cd repo && git {what}", "nothing to commit, working tree clean")
            for what in (
                "status",
                "commit -m x",
                "commit -am x",
                "commit",
                "status -b",
                "commit -m y",
                "commit -a",
            )
        ],
        6,
    ),
    Run("the same test again", [sh("cd pkg && pytest", "5 passed") for _ in range(5)], 4),
    Run(
        "searches that find nothing in one folder",
        [act("search", "nothing found", path="src", pattern=f"w{n}") for n in range(8)],
        6,
    ),
]

WORK = [
    Run("the tests of each package", [sh(f"cd {p} && pytest", "5 passed") for p in PACKAGES]),
    Run(
        "in a subshell", [sh(f"(cd packages/{p} && npm test)", "all tests pass") for p in PACKAGES]
    ),
    Run("make -C", [sh(f"make -C {p} check", "ok") for p in PACKAGES]),
    Run("go packages", [sh(f"go test ./{p}/...", "ok") for p in PACKAGES]),
    Run(
        "the folder as an argument",
        [act("run", "5 passed", cmd="pytest -q", cwd=f"/srv/{p}") for p in PACKAGES],
    ),
    Run(
        "a linter in each folder after one edit",
        [
            edit("pyproject.toml", "a", "b"),
            *[sh(f"cd {p} && ruff check .", "All checks passed!") for p in PACKAGES],
        ],
    ),
    Run(
        "absolute folders",
        [sh(f"cd /repo/{p} && python -m pytest -q tests", "3 passed in 0.12s") for p in PACKAGES],
    ),
    Run(
        "with a semicolon", [sh(f"cd {p}; cargo test --quiet", "test result: ok") for p in PACKAGES]
    ),
    Run("paths of tests", [sh(f"pytest -q {p}/tests", "2 passed") for p in PACKAGES]),
    Run(
        "two checks in each folder",
        [
            m
            for p in PACKAGES
            for m in (
                sh(f"cd {p} && pytest", "5 passed"),
                sh(f"cd {p} && mypy .", "Success: no issues found"),
            )
        ],
    ),
]
