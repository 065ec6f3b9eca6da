"""The table of the seeds' promises is whole, and every module and test that it names exists."""

import re
from collections import Counter
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "seeds.md").read_text()
ROWS = re.findall(
    r"^\| (\d+) \| .+? \| (kept|new|otherwise|absent) \| (.+) \|$", PAGE, re.MULTILINE
)


def test_the_promises_are_numbered_without_a_gap():
    assert [int(number) for number, _, _ in ROWS] == [*range(1, 59)]


def test_the_marks_are_counted():
    shown = re.findall(r"^\| (kept|new|otherwise|absent) \|.*\| (\d+) \|$", PAGE, re.MULTILINE)
    assert {mark: int(count) for mark, count in shown} == Counter(mark for _, mark, _ in ROWS)


def test_every_test_that_is_named_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    defined = {
        name
        for path in (REPO / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert named
    assert named - defined == set()


def test_every_module_that_is_named_exists():
    packages = [REPO / root / f"clew_{root}" for root in ("daemon", "worker", "shared")]
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert named
    assert {path for path in named if not any((one / path).exists() for one in packages)} == set()


def test_what_is_not_absent_names_a_test():
    assert [
        number for number, mark, rest in ROWS if mark != "absent" and "`test_" not in rest
    ] == []
