"""The test runners, and other programs that check: a record each, from which all that clew knows of it follows."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runner:
    """A program that checks, or a family of such. Names are words, `*` in one for any signs.

    `programs` are its names on a command line, `packages` what is installed of it for Python (modules, then), `node` in
    `node_modules`; `files` are the names of its config and of tests only it has. `closing` is a pattern of lines that
    say how many tests ran, if the output has `when`: `words` is text like `2 passed, 1 failed` or `failures=1`, `total`
    a number of tests (in no word: passed), `verdict` one test's. By `signs` code sees that it runs under it.
    """

    programs: str = ""
    closing: str = ""
    when: str = ""
    files: str = ""
    packages: str = ""
    node: str = ""
    signs: str = ""


_GO_PACKAGE = r"(?P<verdict>ok|FAIL)[ \t]+\S+[ \t]+(?:\(cached\)|[\d.]+s)(?!.*\[no tests)"
RUNNERS: tuple[Runner, ...] = (
    Runner("pytest py.test", packages="pytest _pytest pytest_* py pluggy iniconfig xdist hypothesis",
        files="conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml",
        closing=r"^=*[ \t]*(?P<words>(?:\d+ (?:subtests )?(?:passed|failed|errors?|skipped|xfailed|xpassed|deselected"
        r"|warnings?)(?:, )?)+(?= in [\d.]+s)|no tests (?:ran|collected)).*$",
        signs=r"PYTEST_|\b_pytest\b|\bimport pytest"),
    Runner("unittest", packages="unittest sitecustomize usercustomize",
        files="sitecustomize.py usercustomize.py *.pth *.egg-link entry_points.txt direct_url.json .python-version",
        closing=r"^Ran (?P<total>\d+) tests? in [\d.]+s[ \t]*\n\s*(?:OK|FAILED|NO TESTS RAN)(?: \((?P<words>.*)\))?$"),
    Runner("behave black coverage flake8 isort mypy nose nose2 nox pycodestyle pyflakes pylint pyright robot ruff tox",
        packages="coverage nose nose2 tox nox",
        files="*.feature .coveragerc .noserc nose.cfg noxfile.py tox.ini tox.toml mypy.ini .mypy.ini ruff.toml"
        " .ruff.toml .flake8 .pylintrc pyrightconfig.json"),
    Runner("node", closing=r"^[#\u2139] tests \d+\n(?P<words>(?:[#\u2139] \w+ [\d.]+\n?)+)", signs="NODE_TEST_CONTEXT"),
    Runner("jest", node="jest jest-* @jest/* expect babel-jest ts-jest", files="jest.config.* jest.setup.* *.snap",
        closing=r"^Tests:(?P<words>.*) \d+ total$", signs="JEST_WORKER_ID"),
    Runner("vitest", node="vitest @vitest/* vite vite-node",
        files="vitest.config.* vitest.workspace.* vitest.setup.* vite.config.*",
        closing=r"^[ \t]*Tests[ \t]+(?P<words>\d.*?)(?: \(\d+\))?$", signs="VITEST"),
    Runner("mocha", node="mocha chai sinon cypress jasmine jasmine-core karma qunit uvu", files=".mocharc* mocha.opts",
        closing=r"^[ \t]+(?P<words>\d+ passing(?: \(.*\))?(?:\n\s+\d+ (?:pending|failing))*)"),
    Runner("eslint tsc", node="ava tap nyc c8 eslint typescript @playwright/* @testing-library/*",
        files="playwright.config.* cypress.config.* karma.conf.* ava.config.* .taprc .nycrc* .c8rc* wdio.conf.*"
        " tsconfig*.json .eslintrc* .eslintignore eslint.config.* .prettierrc* .prettierignore .stylelintrc*"
        " biome.json*"),
    Runner("cargo rustc", files="build.rs clippy.toml .clippy.toml rustfmt.toml rust-toolchain*",
        closing=r"^test result: \w+\. (?P<words>\d+ passed; \d+ failed; \d+ ignored);",
        signs=r"cfg!\(test\)|cfg\(not\(test\)\)"),
    # without -v go names only tests that fail: where it tells its packages, these are what is counted
    Runner("go", files="go.work .golangci.*", when=rf"^=== RUN |\A(?!(?s:.*)^{_GO_PACKAGE})",
        closing=r"^[ \t]*--- (?P<verdict>PASS|FAIL|SKIP): ",
        signs=r"testing\.Testing\(\)|flag\.Lookup\(\"test"),
    Runner(when=r"\A(?!(?s:.*)^=== RUN )", closing=f"^{_GO_PACKAGE}"),
    Runner("mvn gradle java javac", files="*Test.java *Tests.java *TestCase.java *IT.java *Test.kt *Tests.kt",
        closing=r"^(?:\[\w+\]\s+)?Tests run: (?P<total>\d+), (?P<words>Failures: \d+, Errors: \d+, Skipped: \d+)\s*$"),
    Runner("ctest cmake", files="CTest*.cmake CMake*Presets.json",
        closing=r"^\d+% tests passed, (?P<words>\d+ tests failed) out of (?P<total>\d+)$"),
    Runner("bats dotnet php phpunit rake rspec ruby shellcheck swift",
        files="*.bats *Test.cs *Tests.cs *.runsettings Directory.Build.* *Test.php phpunit.xml* Rakefile .rspec"
        " .simplecov *Tests.swift *Spec.scala *Test.scala"),
)  # fmt: skip


def words(of: Callable[[Runner], str]) -> tuple[str, ...]:
    """Return the words that a field has in all records."""
    return tuple(word for one in RUNNERS for word in of(one).split())


def any_of(names: tuple[str, ...]) -> str:
    """Return a pattern of some names."""
    return "|".join(re.escape(name).replace(r"\*", "[^/]*") for name in names)


_NOT_LOADED, _NOT_BEGUN = "(unittest.loader._FailedTest", "ERROR at setup of "
_SUBTEST = re.compile(r"^(?:[\[(].*[\])] )?SUBFAIL", re.MULTILINE)
"""Names of what is counted and no test (a module, part of a test), and of an error beside which no test is counted."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PAIR = re.compile(
    r"(?P<n>\d{1,9}) (?:tests )?(?P<w>[a-z]+)|(?P<W>[A-Za-z][A-Za-z ]{0,30}?)(?:=|: | )(?P<N>\d{1,9})"
)
_KINDS = {
    **dict.fromkeys(("passed", "xpassed", "pass", "passing", "ok"), "passed"),
    **dict.fromkeys(("failed", "failing", "fail", "failures", "cancelled"), "failed"),
    **dict.fromkeys(("error", "errors"), "errors"),
    **dict.fromkeys(("skipped", "xfailed", "deselected", "pending"), "skipped"),
    **dict.fromkeys(("ignored", "todo", "skip", "expected failures"), "skipped"),
}


@dataclass(frozen=True, slots=True)
class Count:
    """How many tests passed, failed and were skipped; minimums if the output was `cut` (1, else 0)."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    cut: int = 0

    @property
    def ran(self) -> int:
        return self.passed + self.failed


def count(output: str) -> Count | None:
    """Return how many tests ran, None where no known runner has closed its output."""
    text = _COLOURS.sub("", output).replace("\r\n", "\n")
    said = [one for one in RUNNERS if one.closing and re.search(one.when, text, re.MULTILINE)]
    found = [_read(line) for one in said for line in re.finditer(one.closing, text, re.MULTILINE)]
    if not found:
        return None
    counts = sum(found, Counter[str]())
    failed, errors = counts["failed"], counts["errors"]
    parts = min(failed, len(_SUBTEST.findall(text)))
    tests = counts["passed"] + failed - parts + min(errors, text.count(_NOT_BEGUN))
    ran = max(tests, errors, min(failed, 1))
    failed = min(failed + errors, ran)
    cut = int(counts["verdicts"] > 0 and " bytes left out ...]\n" in text)
    return Count(ran - failed, max(0, failed - text.count(_NOT_LOADED)), counts["skipped"], cut)


def _read(found: re.Match[str]) -> Counter[str]:
    given, counts = found.groupdict(), Counter[str]()
    if verdict := _KINDS.get((given.get("verdict") or "").lower()):
        counts[verdict] = counts["verdicts"] = 1
    for pair in _PAIR.finditer(given.get("words") or ""):
        if kind := _KINDS.get((pair["w"] or pair["W"]).strip().lower()):
            counts[kind] += int(pair["n"] or pair["N"])
    if total := given.get("total"):
        most = int(total[:9]) - counts["skipped"]  # a test may fail more than once
        counts["failed"] = min(counts["failed"] + counts.pop("errors", 0), max(most, 1))
        counts["passed"] = max(0, most - counts["failed"])
    return counts


def fewer(before: Count | None, now: Count | None) -> str:
    """Return why fewer tests ran than before the work, "" where not, or not known: of two cut outputs it is not."""
    if before is None or (now and before.cut and now.cut and now.ran * 2 >= before.ran):
        return ""
    if now is None:
        return f"the line that says how many tests ran is missing; {before.ran} ran before the work"
    if now.ran < before.ran:
        return f"{'at least ' * now.cut}{now.ran} tests ran, {before.ran} before the work"
    if now.skipped > before.skipped and now.ran <= before.ran:
        return f"{now.skipped} tests were skipped, {before.skipped} before the work"
    return ""
