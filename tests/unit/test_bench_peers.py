"""The bench against other supervisors: children's reports, and the page made of its measures. None is started."""

import importlib
import os
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def module(name):
    return importlib.import_module(f"bench.peers.{name}")


def found(measure, out=(), **values):
    """A result with values of one measure, by the key of the supervisor."""
    figures = importlib.import_module("bench.figures")
    names = {key: {"clew_built_in": "clew, built-in agent"}.get(key, key) for key in values}
    series = figures.Recorder()
    for key, seen in values.items():
        series.add(f"{measure}: {names[key]}", "ms", *seen)
    empty = dict.fromkeys(names, "")
    facts = {"names": names, "versions": empty, "settings": empty, "facts": {}, "fleet": 50}
    seen = {"at": "2026-01-01", "cores": 2, "kernel": "6", "python": "3", "load": [0.5]}
    return figures.Result("it", seen, seen, {**facts, "out": dict(out)}, series)


def better(measure, label, **values):
    page = module("supervisors_page")
    return page.others_better(found(measure, **values), {measure: ("ms", label)})


@pytest.fixture
def pipe(tmp_path):
    pipe = module("ready").ReadyPipe(tmp_path / "ready")
    yield pipe
    pipe.close()


def test_a_better_peer_is_named_with_its_median():
    values = {"clew": [100, 90, 110], "runit": [17, 18, 19], "circus": [2500]}
    (line,) = better("restart, tiny", "a bare child", **values)
    assert line == "- a bare child: better than clew (100 ms): runit (18.0)."


def test_a_peer_that_is_as_good_as_clew_is_not_called_better():
    values = {"clew": [700], "clew_built_in": [20], "pm2": [19]}
    (line,) = better("restart, loaded", "a loaded child", **values)
    assert line == "- a loaded child: no other is clearly better than clew."


def test_a_measure_that_clew_was_left_out_of_is_not_judged():
    assert better("idle CPU", "CPU", runit=[0.1]) == []


def test_the_page_names_who_was_not_measured_and_why():
    run = found("restart, tiny", {"systemd": "a user manager needs root"}, clew=[100])
    text = module("supervisors_page").text(run)
    assert text[-1] == "Not measured: systemd (a user manager needs root)."


def test_a_report_that_comes_in_two_pieces_counts_once_it_is_whole(pipe):
    fd = os.open(pipe.path, os.O_WRONLY)
    os.write(fd, b"s6-tiny0 12 5.5\nrunit-ti")
    assert pipe.when("s6-tiny0") == 5.5
    os.write(fd, b"ny1 13 6.25\n")
    os.close(fd)
    assert pipe.wait(["runit-tiny1"], 6.0, 60)["runit-tiny1"].pid == 13


def test_a_child_that_did_not_report_since_is_named(pipe):
    pipe.report("pm2-tiny0", 12, time.monotonic())
    with pytest.raises(TimeoutError, match="pm2-tiny0"):
        pipe.wait(["pm2-tiny0"], time.monotonic(), 0.01)


def test_an_environment_that_was_not_finished_is_made_again(tmp_path, monkeypatch):
    install = module("install")
    monkeypatch.setattr(install, "ENV", tmp_path / "env")
    made = []

    def make(folder):
        made.append(sorted(path.name for path in folder.iterdir()))
        (folder / "half").touch()
        if len(made) == 1:
            raise install.MissingError("no network")

    with pytest.raises(install.MissingError):
        install._once("peer", ("peer==1",), make)
    install._once("peer", ("peer==1",), make)
    install._once("peer", ("peer==1",), make)
    install._once("peer", ("peer==2",), make)
    assert made == [[], [], []]


def test_every_supervisor_has_a_row_of_its_own():
    rows = [row for _, row in module("roster").ROSTER]
    assert len({row.key for row in rows}) == len({row.name or row.key for row in rows}) == len(rows)
    assert all(row.setting for row in rows)
