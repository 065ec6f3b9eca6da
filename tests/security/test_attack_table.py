"""docs/attacks.md tells of every attack, and every test that it names is there."""

import re
from pathlib import Path

import attack_table

REPO = Path(__file__).resolve().parents[2]


def test_the_table_in_the_docs_is_the_register_of_attacks():
    text = attack_table.DOCUMENT.read_text()
    assert attack_table.in_place(text) == text, (
        f"run `python {Path(attack_table.__file__).relative_to(REPO)}`"
    )


def test_every_test_that_the_docs_of_security_name_is_there():
    pages = [attack_table.DOCUMENT, attack_table.DOCUMENT.with_name("security.md")]
    named = {name for page in pages for name in re.findall(r"`(test_\w+)`", page.read_text())}
    sources = "\n".join(path.read_text() for path in (REPO / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)", sources)) | {
        p.stem for p in (REPO / "tests").rglob("test_*.py")
    }
    assert named - there == set()
