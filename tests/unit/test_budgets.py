"""The code stays within `[tool.clew.budgets]` of pyproject.toml; a commit that raises a number says why."""

import re
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["clew"]["budgets"]


def measured(folder):
    """Return the lines and files of a folder, and how often its keys are left open."""
    texts = [path.read_text() for path in sorted((REPO / folder).rglob("*.py"))]
    lines = sum(text.count("\n") for text in texts)
    return {
        "lines": lines,
        "files": len(texts),
        "dict_any": sum(len(re.findall(r"dict\[str, Any\]", text)) for text in texts),
    }


def test_every_package_stays_within_its_budget():
    over = [
        f"{folder}: {found[key]} {key}, at most {most}"
        for folder, budget in TABLE.items()
        if (found := measured(folder))
        for key, most in budget.items()
        if found.get(key, 0) > most
    ]
    assert over == [], "make it smaller, or say in the commit why it may grow"


def test_a_run_of_the_suite_has_no_more_cases_than_its_budget(request):
    assert len(request.session.items) <= TABLE["tests"]["cases"], "as above"


def test_the_docs_stay_as_short_as_they_are():
    pages = [
        REPO / "README.md",
        *(REPO / "docs").glob("*.md"),
        *(REPO / "docs/agents").glob("*.md"),
    ]
    assert sum(len(page.read_text().split()) for page in pages) <= TABLE["docs"]["words"]


def test_every_package_has_a_budget():
    packages = {
        str(path.relative_to(REPO))
        for top in ("daemon/clew_daemon", "shared/clew_shared", "worker/clew_worker")
        for path in (REPO / top).iterdir()
        if path.is_dir() and any(path.glob("*.py"))
    }
    assert packages <= set(TABLE)
