"""The benches: their parts of docs/performance.md, made of the saved results, and their command lines."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def module(name):
    return importlib.import_module(f"bench.{name}")


PARTS = ("step", "fleet", "restart", "growth")
"""The parts of the page, which their saved results and the modules that write them are named for."""


@pytest.mark.parametrize("name", PARTS)
def test_the_page_is_what_the_saved_results_give(name, tmp_path):
    page = module("page")
    copy = tmp_path / "performance.md"
    copy.write_text(page.PAGE.read_text())
    page.write(name, *module(name).text(module("figures").load(name)), page=copy)
    assert copy.read_text() == page.PAGE.read_text()
