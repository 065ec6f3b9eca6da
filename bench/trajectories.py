"""Play recorded agent runs through the gate: python -m bench.trajectories [FILE] [-v]

Each run is fed to the core as an agent with tools of its own would report it. Printed: loops caught in time, too late,
too early; good runs with a refusal (a false alarm) or an intervention.
"""

import argparse
import itertools
import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from clew_shared.config.settings import LoopSettings
from clew_shared.core.answers import ActionReport
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.record.state import State

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "trajectories.jsonl"


@dataclass
class PlayedRun:
    """A run, and where it was refused or intervened in."""

    run: dict[str, Any]
    refusals: list[tuple[int, str]]
    interventions: list[tuple[int, str]]

    @property
    def first(self) -> int | None:
        return min((i for i, _ in self.refusals + self.interventions), default=None)

    @property
    def verdict(self) -> str:
        if self.run["truth"] == "ok":
            return (
                "false alarm" if self.refusals else "spoken to" if self.interventions else "quiet"
            )
        if self.first is None:
            return "missed"
        if self.first < self.run["not_before"]:
            return "too early"
        late = self.first > self.run["truth_index"] + self.run["tolerance"]
        return "too late" if late else "caught"


def play(run: dict[str, Any], loops: Any = None) -> PlayedRun:
    numbers = count(1)
    core = Core(State(), loops or LoopSettings(), lambda: next(numbers), max_actions=10_000)
    core.emit(ev.GoalAccepted(goal_id=run["id"], spec=Spec(description="run")))
    core.emit(ev.GoalStarted())
    core.start(0.0)
    played = PlayedRun(run, [], [])
    steps = run["steps"]
    for i, step in enumerate(steps):
        match step["kind"]:
            case "action":
                _act(core, i, step, played)
            case "thought":
                following = steps[i + 1]["kind"] if i + 1 < len(steps) else ""
                feedback = core.think(step["text"], 0.0, has_tool_calls=following == "action")
                _note(played, i, feedback.intervention)
            case "user":
                core.emit(ev.FeedbackGiven(text=step["text"]))
    return played


def _act(core: Core, i: int, step: dict[str, Any], played: PlayedRun) -> None:
    if core.state.replan_required or core.state.goal.status != "in_progress":
        return  # what a real agent would do now is not on record
    verdict = core.propose(step["name"], step["args"], 0.0)
    _note(played, i, verdict.intervention)
    if not verdict.allowed:
        played.refusals.append((i, verdict.reason))
        return
    output = step.get("output") or ""
    if step.get("output_sha1"):
        output += f"\n<{step['output_sha1']}>" if step.get("output_len", 0) > len(output) else ""
    known = step["result"] in ("success", "failure", "error", "timeout")
    result = step["result"] if known else "success"
    feedback = core.outcome(verdict.seq, ActionReport(result, output, step.get("changed")), 0.0)
    _note(played, i, feedback.intervention)


def _note(played: PlayedRun, i: int, intervention: Any) -> None:
    if intervention:
        played.interventions.append((i, intervention.kind))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.trajectories", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=DATA, help="one run a line, as JSON")
    parser.add_argument("-v", action="store_true", help="show the runs that went well, too")
    options = parser.parse_args()
    runs = options.file.read_text(encoding="utf-8").splitlines()
    results = [play(json.loads(run)) for run in runs]
    for played in results:
        if options.v or played.verdict not in ("quiet", "caught", "spoken to"):
            run = played.run
            print(
                f"{run['id']:14} {run['truth']:5} {'contested' if run['contested'] else '':10}"
                f"{played.verdict:12} refusals={played.refusals[:4]} interventions={played.interventions[:4]}"
            )
    for truth, contested in itertools.product(("loop", "ok"), (False, True)):
        of = (truth, contested)
        verdicts = [p.verdict for p in results if (p.run["truth"], p.run["contested"]) == of]
        spoken = verdicts.count("spoken to")
        good = verdicts.count("caught") if truth == "loop" else verdicts.count("quiet") + spoken
        what = f"never refused, {spoken} of them spoken to" if truth == "ok" else "caught in time"
        print(f"{truth}{' contested' * contested}: {good} of {len(verdicts)} {what}")


if __name__ == "__main__":
    main()
