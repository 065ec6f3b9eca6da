"""Recorded runs of real agents, played through the gate; the figures are printed (`pytest -s`)."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "trajectories.jsonl"

LOOPS, OKS = 13, 35
FALSE_ALARMS_MAX = 1


def bench():
    spec = importlib.util.spec_from_file_location(
        "trajectories", ROOT / "bench" / "trajectories.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["trajectories"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs():
    if not DATA.exists():
        pytest.skip(f"no recorded runs beside the checkout ({DATA.name})")
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    play = bench().play
    return [play(row) for row in rows if not row["contested"]]


def test_every_loop_is_caught_in_time(runs):
    loops = {p.run["id"]: p.verdict for p in runs if p.run["truth"] == "loop"}
    caught = [name for name, verdict in loops.items() if verdict == "caught"]
    sys.stdout.write(f"loops caught in time: {len(caught)} of {len(loops)}\n")
    assert len(loops) == LOOPS
    assert set(loops) - set(caught) == set()


def test_work_is_hardly_ever_refused(runs):
    oks = {p.run["id"]: p.verdict for p in runs if p.run["truth"] == "ok"}
    alarms = [name for name, verdict in oks.items() if verdict == "false alarm"]
    spoken = [name for name, verdict in oks.items() if verdict == "spoken to"]
    sys.stdout.write(f"false alarms: {len(alarms)} of {len(oks)}; spoken to: {len(spoken)}\n")
    assert len(oks) == OKS
    assert len(alarms) <= FALSE_ALARMS_MAX, alarms
