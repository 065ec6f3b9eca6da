"""Recorded runs of real agents, played through the gate as an agent with tools of its own would report them.

`pytest -s` prints the figures, and the runs in which the gate did something unexpected.
"""

import json
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from clew_shared.config.settings import LoopSettings
from clew_shared.core.answers import ActionReport
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.record.state import State

DATA = Path(__file__).parents[3] / "shared" / "data" / "trajectories.jsonl"

LOOPS, OKS = 13, 35
FALSE_ALARMS_MAX = 1
RESULTS = ("success", "failure", "error", "timeout")


@dataclass
class PlayedRun:
    """A run, and where it was refused or intervened in: numbers of steps with their reasons."""

    run: dict
    refusals: list = field(default_factory=list)
    interventions: list = field(default_factory=list)

    @property
    def verdict(self):
        if self.run["truth"] == "ok":
            if self.refusals:
                return "false alarm"
            return "spoken to" if self.interventions else "quiet"
        first = min((i for i, _ in self.refusals + self.interventions), default=None)
        if first is None:
            return "missed"
        if first < self.run["not_before"]:
            return "too early"
        late = first > self.run["truth_index"] + self.run["tolerance"]
        return "too late" if late else "caught"

    def note(self, i, intervention):
        if intervention:
            self.interventions.append((i, intervention.kind))


def play(run):
    numbers = count(1)
    core = Core(State(), LoopSettings(), lambda: next(numbers), max_actions=10_000)
    core.emit(ev.GoalAccepted(goal_id=run["id"], spec=Spec(description="run")))
    core.emit(ev.GoalStarted())
    core.start(0.0)
    played, steps = PlayedRun(run), run["steps"]
    for i, step in enumerate(steps):
        match step["kind"]:
            case "action":
                act(core, i, step, played)
            case "thought":
                following = steps[i + 1]["kind"] if i + 1 < len(steps) else ""
                feedback = core.think(step["text"], 0.0, has_tool_calls=following == "action")
                played.note(i, feedback.intervention)
            case "user":
                core.emit(ev.FeedbackGiven(text=step["text"]))
    return played


def act(core, i, step, played):
    if core.state.replan_required or core.state.goal.status != "in_progress":
        return  # what a real agent would do now is not on record
    verdict = core.propose(step["name"], step["args"], 0.0)
    played.note(i, verdict.intervention)
    if not verdict.allowed:
        played.refusals.append((i, verdict.reason))
        return
    output = step.get("output") or ""
    if step.get("output_sha1") and step.get("output_len", 0) > len(output):
        output += f"\n<{step['output_sha1']}>"
    result = step["result"] if step["result"] in RESULTS else "success"
    feedback = core.outcome(verdict.seq, ActionReport(result, output, step.get("changed")), 0.0)
    played.note(i, feedback.intervention)


@pytest.fixture(scope="module")
def runs():
    if not DATA.exists():
        pytest.skip(f"no recorded runs beside the checkout ({DATA.name})")
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    played = [play(row) for row in rows if not row["contested"]]
    for one in played:
        if one.verdict not in ("quiet", "caught"):
            print(one.run["id"], one.verdict, one.refusals[:4], one.interventions[:4])  # noqa: T201
    return played


def test_every_loop_is_caught_in_time(runs):
    loops = {p.run["id"]: p.verdict for p in runs if p.run["truth"] == "loop"}
    caught = [name for name, verdict in loops.items() if verdict == "caught"]
    print(f"loops caught in time: {len(caught)} of {len(loops)}")  # noqa: T201
    assert len(loops) == LOOPS
    assert set(loops) - set(caught) == set()


def test_work_is_hardly_ever_refused(runs):
    oks = {p.run["id"]: p.verdict for p in runs if p.run["truth"] == "ok"}
    alarms = [name for name, verdict in oks.items() if verdict == "false alarm"]
    spoken = [name for name, verdict in oks.items() if verdict == "spoken to"]
    print(f"false alarms: {len(alarms)} of {len(oks)}; spoken to: {len(spoken)}")  # noqa: T201
    assert len(oks) == OKS
    assert len(alarms) <= FALSE_ALARMS_MAX, alarms
