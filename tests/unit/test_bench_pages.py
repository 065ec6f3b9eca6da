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


PARTS = ("step", "fleet", "restart", "growth")
"""The parts of the page, which their saved results and the modules that write them are named for."""


@pytest.mark.parametrize("name", PARTS)
def test_the_page_is_what_the_saved_results_give(name, tmp_path):
    page = module("page")
    copy = tmp_path / "performance.md"
    copy.write_text(page.PAGE.read_text())
    page.write(name, *module(name).text(module("figures").load(name)), page=copy)
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


COMMANDS = ("context", "fleet", "growth", "loops", "fakes", "minds", "restart", "step")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_bench_shows_its_help(name):
    command = [sys.executable, "-m", f"bench.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert f"python -m bench.{name}" in done.stdout


def test_every_bench_with_a_command_line_is_among_them():
    bench = ROOT / "bench"
    programs = [path for path in bench.rglob("*.py") if "__main__" in path.read_text()]
    names = {".".join(path.relative_to(bench).with_suffix("").parts) for path in programs}
    run_by_others = {"agents", "runner", "slow_disk"}
    assert names - run_by_others == {*COMMANDS}


def test_the_slower_disk_finds_the_method_that_it_slows_down(tmp_path):
    command = [sys.executable, "bench/slow_disk.py", str(tmp_path / "commits"), "0", "--help"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60, check=True)
    assert (tmp_path / "commits").read_text() == "[]"
