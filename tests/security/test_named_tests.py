"""The page on security names tests that are there."""

import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def test_every_test_that_the_page_names_is_there():
    named = set(re.findall(r"`(test_\w+)`", (REPO / "docs" / "security.md").read_text()))
    sources = list((REPO / "tests").rglob("test_*.py"))
    there = {name for path in sources for name in re.findall(r"def (test_\w+)", path.read_text())}
    assert named - there == set()
