"""Runs of agents played through the gate: written ones (tests/loop_runs), and recorded ones beside the checkout."""

import json
from pathlib import Path

import pytest
from tests.loop_runs.player import play, play_recorded, written_runs

LOOPS = [run for run in written_runs() if run.latest]
WORK = [run for run in written_runs() if not run.latest]

measured = pytest.mark.parametrize("measured", [True, False], ids=["measured", "claimed"])


@measured
def test_honest_work_is_never_refused_and_seldom_spoken_to(measured):
    heard = {run.name: play(run, measured=measured) for run in WORK}
    assert [name for name, one in heard.items() if one.refusals] == []
    assert len([name for name, one in heard.items() if one.warnings]) <= len(WORK) // 8


@measured
def test_most_loops_are_noticed_in_time(measured):
    first = {run.name: (play(run, measured=measured).first, run.latest) for run in LOOPS}
    noticed = [name for name, (at, latest) in first.items() if at is not None and at < latest]
    assert len(noticed) >= 0.65 * len(LOOPS), sorted(set(first) - set(noticed))


DATA = Path(__file__).parents[3] / "shared" / "data" / "trajectories.jsonl"

RECORDED_LOOPS, RECORDED_WORK = 13, 35
FALSE_ALARMS_MAX = 1
WARNED_MAX = 1


def judged(row, heard):
    if row["truth"] == "ok":
        return "false alarm" if heard.refusals else "spoken to" if heard.warnings else "quiet"
    if heard.first is None:
        return "missed"
    if heard.first < row["not_before"]:
        return "too early"
    return "too late" if heard.first > row["truth_index"] + row["tolerance"] else "caught"


@pytest.fixture(scope="module")
def verdicts():
    if not DATA.exists():
        pytest.skip(f"no recorded runs beside the checkout ({DATA.name})")
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    found = {"loop": {}, "ok": {}}
    for row in rows:
        if row["contested"]:
            continue
        heard = play_recorded(row)
        verdict = found[row["truth"]][row["id"]] = judged(row, heard)
        if verdict not in ("quiet", "caught"):
            print(row["id"], verdict, heard.refusals[:4], heard.warnings[:4])  # noqa: T201
    return found


def test_every_loop_is_caught_in_time(verdicts):
    loops = verdicts["loop"]
    caught = [name for name, verdict in loops.items() if verdict == "caught"]
    print(f"loops caught in time: {len(caught)} of {len(loops)}")  # noqa: T201
    assert len(loops) == RECORDED_LOOPS
    assert set(loops) - set(caught) == set()


def test_work_is_hardly_ever_refused_or_warned(verdicts):
    oks = verdicts["ok"]
    alarms = [name for name, verdict in oks.items() if verdict == "false alarm"]
    spoken = [name for name, verdict in oks.items() if verdict == "spoken to"]
    print(f"false alarms: {len(alarms)} of {len(oks)}; spoken to: {len(spoken)}")  # noqa: T201
    assert len(oks) == RECORDED_WORK
    assert len(alarms) <= FALSE_ALARMS_MAX, alarms
    assert len(spoken) <= WARNED_MAX, spoken
