"""The benches: their parts of docs/performance.md, made of the saved results, and their command lines."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def module(name):
    return importlib.import_module(f"bench.{name}")


PARTS = {  # the part of the page, the saved results, the module that writes it
    "step": ("step", "step"),
    "fleet": ("fleet", "fleet"),
    "restart": ("restart", "restart"),
    "growth": ("growth", "growth"),
    "digest": ("digest", "digest"),
    "live": ("live", "live"),
    "footprint": ("footprint", "footprint"),
    "peers": ("supervisors", "peers.supervisors_page"),
    "durable": ("durable", "peers.durable_page"),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_page_is_what_the_saved_results_give(name, tmp_path):
    page = module("page")
    copy, (results, writer) = tmp_path / "performance.md", PARTS[name]
    copy.write_text(page.PAGE.read_text())
    page.write(name, *module(writer).text(module("figures").load(results)), page=copy)
    assert copy.read_text() == page.PAGE.read_text()


def test_saved_results_are_those_that_were_read(tmp_path, monkeypatch):
    figures = module("figures")
    kept = figures.load("growth")
    saved = (figures.RESULTS / "growth.json").read_text()
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    figures.save("growth", kept)
    assert (tmp_path / "growth.json").read_text() == saved


def test_a_part_without_its_markers_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- step -->\n")
    with pytest.raises(SystemExit, match="write it there"):
        module("page").write("step", "text", page=page)


COMMANDS = (
    *("context", "digest", "fleet", "footprint", "growth", "live", "peers", "real_model"),
    *("restart", "step"),
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_bench_shows_its_help(name):
    command = [sys.executable, "-m", f"bench.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert f"python -m bench.{name}" in done.stdout


def test_every_bench_with_a_command_line_is_among_them():
    programs = (path for path in (ROOT / "bench").glob("*.py") if "__main__" in path.read_text())
    run_by_others = {"agents", "runner", "slow_disk"}
    assert {path.stem for path in programs} - run_by_others == {*COMMANDS} - {"peers"}
