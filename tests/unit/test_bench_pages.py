"""The benches: their parts of docs/performance.md, made of the saved results, and the names of clew that they use."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def module(name):
    return importlib.import_module(f"bench.{name}")


def peers(kept):
    """What the bench of supervisors found, from what it saved."""
    facts, values = kept[0]["facts"], {}
    keys = {name: key for key, name in facts["names"].items()}
    for name, series in kept[1].items():
        measure, who = name.split(": ", 1)
        values.setdefault(measure, {})[keys[who]] = series.values
    page = module("peers.supervisors_page")
    return [page.text(page.Found(values=values, **facts), module("page").under(kept[0]))]


def live(kept):
    return [module("page").under(kept[0]), module("live").table(kept)]


def fleet(kept):
    image = module("page").image("Steps a second by workers", "fleet")
    return [kept[0]["facts"]["table"], image, module("page").under(kept[0])]


PARTS = {
    "step": ("step", lambda kept: module("step").text(kept)),
    "fleet": ("fleet", fleet),
    "restart": ("restart", lambda kept: module("restart").text(kept)),
    "growth": ("growth", lambda kept: module("growth").text(kept)),
    "digest": ("digest", lambda kept: module("digest").tables(kept)),
    "live": ("live", live),
    "footprint": ("footprint", lambda kept: module("footprint").tables(kept)),
    "peers": ("supervisors", peers),
    "durable": ("durable", lambda kept: [module("peers.durable_page").text(kept)]),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_page_is_what_the_saved_results_give(name, tmp_path):
    page = module("page")
    copy, (results, parts) = tmp_path / "performance.md", PARTS[name]
    copy.write_text(page.PAGE.read_text())
    page.write(name, *parts(module("figures").load(results)), page=copy)
    assert copy.read_text() == page.PAGE.read_text()


def test_a_part_without_its_markers_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- step -->\n")
    with pytest.raises(SystemExit, match="write it there"):
        module("page").write("step", "text", page=page)


def marked():
    marks = importlib.import_module("bench.marks")
    return [*marks.STEP, *marks.DAEMON.values(), *marks.WORKER.values()]


def test_the_stop_watch_finds_every_function_that_it_names():
    for target in marked():
        owner, name = module("marks").resolve(target)
        assert callable(getattr(owner, name)), target


def test_a_function_that_clew_no_longer_has_is_named():
    with pytest.raises(SystemExit, match="_gone, which clew does not have"):
        module("marks").resolve("clew_daemon.session.session:Session._gone")
