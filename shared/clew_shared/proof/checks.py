"""What a check says: how many tests ran, by the closing lines of known runners. Pure.

A runner is a pattern: `words` is text like `2 passed, 1 failed` or `failures=1`, `total` a number of tests, `verdict`
one test's. Where both are there, what is in no word has passed.
"""

import re
from dataclasses import astuple, dataclass

RUNNERS = {
    "pytest": r"^=*\s*(?P<words>(?:\d+ (?:subtests )?(?:passed|failed|errors?|skipped|xfailed|xpassed|deselected"
    r"|warnings?)(?:, )?)+) in [\d.]+s.*$",
    "pytest without tests": r"^=*\s*(?P<words>no tests (?:ran|collected)).*$",
    "unittest": r"^Ran (?P<total>\d+) tests? in [\d.]+s\s*\n\s*(?:OK|FAILED|NO TESTS RAN)(?: \((?P<words>.*)\))?$",
    "node": r"^(?:#|\u2139) tests \d+\n(?P<words>(?:(?:#|\u2139) \w+ [\d.]+\n?)+)",
    "jest": r"^Tests:\s+(?P<words>.*) \d+ total$",
    "vitest": r"^\s*Tests\s+(?P<words>\d.*?)(?: \(\d+\))?$",
    "mocha": r"^\s+(?P<words>\d+ passing)(?: \(.*\))?(?P<more>(?:\n\s+\d+ (?:pending|failing))*)",
    "cargo": r"^test result: \w+\. (?P<words>\d+ passed; \d+ failed; \d+ ignored);",
    "go -v": r"^\s*--- (?P<verdict>PASS|FAIL|SKIP): ",
    "maven": r"^(?:\[\w+\]\s+)?Tests run: (?P<total>\d+), (?P<words>Failures: \d+, Errors: \d+, Skipped: \d+)\s*$",
    "ctest": r"^\d+% tests passed, (?P<words>\d+ tests failed) out of (?P<total>\d+)$",
}
_PATTERNS = {name: re.compile(pattern, re.MULTILINE) for name, pattern in RUNNERS.items()}
_GO = re.compile(
    r"^(?P<verdict>ok|FAIL)\s+\S+\s+(?:\(cached\)|[\d.]+s)(?!.*\[no tests)", re.MULTILINE
)
"""Without -v go names only tests that fail: then its packages are what is counted."""
_NOT_LOADED = "(unittest.loader._FailedTest"
"""What unittest calls a module that cannot be loaded: it is no test, though it is counted as one."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PAIR = re.compile(
    r"(?P<n>\d+) (?:tests )?(?P<w>[a-z]+)|(?P<W>[A-Za-z][A-Za-z ]*?)(?:=|: | )(?P<N>\d+)"
)
_KINDS = {
    **dict.fromkeys(("passed", "xpassed", "pass", "passing", "ok"), "passed"),
    **dict.fromkeys(("failed", "failing", "fail", "failures"), "failed"),
    **dict.fromkeys(("error", "errors", "cancelled"), "failed"),
    **dict.fromkeys(("skipped", "xfailed", "deselected", "pending"), "skipped"),
    **dict.fromkeys(("ignored", "todo", "skip", "expected failures"), "skipped"),
}


@dataclass(frozen=True, slots=True)
class Count:
    """How many tests passed, failed, and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def ran(self) -> int:
        return self.passed + self.failed


def count(output: str) -> Count | None:
    """Return how many tests ran, None where no known runner has closed its output."""
    text = _COLOURS.sub("", output).replace("\r\n", "\n")
    patterns = _PATTERNS
    if "\n=== RUN " not in f"\n{text}" and _GO.search(text):
        patterns = _PATTERNS | {"go -v": _GO}
    found = [_read(one) for pattern in patterns.values() for one in pattern.finditer(text)]
    if not found:
        return None
    passed, failed, skipped = (sum(column) for column in zip(*map(astuple, found), strict=True))
    return Count(passed, max(0, failed - text.count(_NOT_LOADED)), skipped)


def _read(found: re.Match[str]) -> Count:
    given, counts = found.groupdict(), {"passed": 0, "failed": 0, "skipped": 0}
    if verdict := _KINDS.get((given.get("verdict") or "").lower()):
        counts[verdict] = 1
    for pair in _PAIR.finditer(f"{given.get('words') or ''} {given.get('more') or ''}"):
        word = (pair["w"] or pair["W"]).strip().lower()
        if kind := _KINDS.get(word):
            counts[kind] += int(pair["n"] or pair["N"])
    if total := given.get("total"):
        counts["passed"] = max(0, int(total) - counts["failed"] - counts["skipped"])
    return Count(**counts)


def fewer(before: Count | None, now: Count | None) -> str:
    """Return why fewer tests ran than before the work, "" where that is not so, or nothing is known of before."""
    if before is None:
        return ""
    if now is None:
        return f"the line that says how many tests ran is missing; {before.ran} ran before the work"
    if now.ran < before.ran:
        return f"{now.ran} tests ran, {before.ran} before the work"
    if now.skipped > before.skipped and now.ran <= before.ran:
        return f"{now.skipped} tests were skipped, {before.skipped} before the work"
    return ""
