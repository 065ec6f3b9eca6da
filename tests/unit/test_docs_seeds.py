"""The table of the seeds' promises is whole, and every module and test that it names exists."""

import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "seeds.md").read_text()
MARKS = ("yes", "part", "no", "as D", "-")
ROWS = re.findall(
    r"^\| (\d+) \| .+? \| (yes|part|no|-) \| (yes|part|no|as D|-) \| (yes|part|no|-) \| (.+) \|$",
    PAGE,
    re.MULTILINE,
)


def test_the_promises_are_numbered_without_a_gap():
    assert [int(number) for number, *_ in ROWS] == [*range(1, 59)]


def test_the_marks_are_counted_for_library_agent_and_daemon():
    counts = r" \| ".join([r"(\d+)"] * 3)
    for mark in MARKS:
        [shown] = re.findall(rf"^\| {mark} \| .+ \| {counts} \|$", PAGE, re.MULTILINE)
        columns = list(zip(*ROWS, strict=True))[1:4]
        assert [int(count) for count in shown] == [column.count(mark) for column in columns]


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


def test_what_is_kept_somewhere_names_a_test():
    kept = [(n, rest) for n, *marks, rest in ROWS if {"yes", "part"} & {*marks}]
    assert [number for number, rest in kept if "`test_" not in rest] == []
