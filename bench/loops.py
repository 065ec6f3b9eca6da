"""What the gate notices of loops and of honest work: python -m bench.loops [FILE of recorded runs].

Each run is played through the gate as an agent with tools of its own would report it (its changes are claimed), and the
runs of tests/loop_runs also with a measured workspace. A loop is caught if it is refused, or warned of, in time. Nothing
here runs a model or a daemon.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew_shared.config.settings import LoopSettings
from clew_shared.core.answers import ActionReport
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from tests.loop_runs import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.loop_runs.moves import Move, Run

RESULTS = ("success", "failure", "error", "timeout")
COLUMNS = ("loops", "caught", "by a refusal", "missed", "honest", "refused", "warned")


@dataclass
class PlayedRun:
    """What an agent heard in a run: the numbers of its steps, from 0, with the reasons."""

    refusals: list[tuple[int, str]] = field(default_factory=list)
    warnings: list[tuple[int, str]] = field(default_factory=list)

    @property
    def first(self) -> int | None:
        """The step at which the agent heard something first."""
        return min((at for at, _ in self.refusals + self.warnings), default=None)


class Player:
    """One goal's core, and what the agent hears of it."""

    def __init__(self, goal: str) -> None:
        numbers = count(1)
        self.heard = PlayedRun()
        self.core = Core(State(), LoopSettings(), lambda: next(numbers), max_actions=10_000)
        self.core.emit(ev.GoalAccepted(goal_id=goal, spec=Spec(description="run")))
        self.core.emit(ev.GoalStarted())
        self.core.start(0.0)

    def think(self, at: int, text: str, *, acts: bool) -> None:
        self._note(at, self.core.think(text, 0.0, has_tool_calls=acts).intervention)

    def act(
        self, at: int, tool: str, args: dict[str, Any], result: Callable[[], ActionReport]
    ) -> None:
        """Propose an action, and report what came of it if it is allowed."""
        if self.core.state.replan_required or self.core.state.goal.status != "in_progress":
            return  # what a real agent would do now is not on record
        verdict = self.core.propose(tool, args, 0.0)
        self._note(at, verdict.intervention)
        if not verdict.allowed:
            self.heard.refusals.append((at, verdict.reason))
            return
        self._note(at, self.core.outcome(verdict.seq, result(), 0.0).intervention)

    def _note(self, at: int, intervention: Any) -> None:
        if intervention:
            self.heard.warnings.append((at, intervention.kind))


def play_recorded(row: dict[str, Any]) -> PlayedRun:
    """Play a recorded run (a line of trajectories.jsonl)."""
    player, steps = Player(row["id"]), row["steps"]
    for at, step in enumerate(steps):
        match step["kind"]:
            case "action":
                player.act(at, step["name"], step["args"], lambda step=step: _recorded(step))
            case "thought":
                following = steps[at + 1]["kind"] if at + 1 < len(steps) else ""
                player.think(at, step["text"], acts=following == "action")
            case "user":
                player.core.emit(ev.FeedbackGiven(text=step["text"]))
    return player.heard


def _recorded(step: dict[str, Any]) -> ActionReport:
    output = step.get("output") or ""
    if step.get("output_sha1") and step.get("output_len", 0) > len(output):
        output += f"\n<{step['output_sha1']}>"
    result = step["result"] if step["result"] in RESULTS else "success"
    return ActionReport(result, output, step.get("changed"))


def play(run: Run, *, measured: bool) -> PlayedRun:
    """Play a run of tests/loop_runs, with a measured workspace or with claims of changes alone."""
    player, files = Player("run"), dict[str, str]()
    if measured:
        player.core.see_world(repr(sorted(files.items())), 0.0)
    for at, move in enumerate(run.moves):
        if move.name:
            player.act(
                at, move.name, move.args, lambda move=move: _report(move, files, measured=measured)
            )
        else:
            acts = at + 1 < len(run.moves) and bool(run.moves[at + 1].name)
            player.think(at, move.thought, acts=acts)
    return player.heard


def _report(move: Move, files: dict[str, str], *, measured: bool) -> ActionReport:
    changed = bool(move.files) if move.changed is None else move.changed
    if not measured:
        return ActionReport(move.result, move.output, changed)
    files.update(move.files)
    world = repr(sorted(files.items()))
    return ActionReport(move.result, move.output, move.changed, "" if move.changed else world)


def verdict(truth: str, heard: PlayedRun, earliest: int, latest: int) -> list[str]:
    """Return the columns that a run counts in; `earliest` and `latest` are steps for a loop."""
    if truth == "ok":
        found = ["refused"] if heard.refusals else ["warned"] if heard.warnings else []
        return ["honest", *found]
    first = heard.first
    if first is None or not earliest <= first <= latest:
        return ["loops", "missed"]
    refused = any(at <= latest for at, _ in heard.refusals)
    return ["loops", "caught", *(["by a refusal"] if refused else [])]


def of_kind(kind: str, *, measured: bool) -> Iterable[tuple[str, list[str], PlayedRun]]:
    """Return for each run of a kind its name, the columns that it counts in, and what was heard."""
    for truth, runs in (("loop", KINDS[kind].LOOPS), ("ok", KINDS[kind].WORK)):
        for run in runs:
            heard = play(run, measured=measured)
            yield run.name, verdict(truth, heard, 0, run.latest - 1), heard


def of_file(path: Path) -> Iterable[tuple[str, list[str], PlayedRun]]:
    """Return the same for the recorded runs of a file, without the contested ones."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if not row.get("contested"):
            heard = play_recorded(row)
            last = (row.get("truth_index") or 0) + (row.get("tolerance") or 0)
            yield row["id"], verdict(row["truth"], heard, row.get("not_before") or 0, last), heard


def main() -> None:
    """Print a table of all sets, and with `--runs` each run in which something unexpected was heard."""
    options = argparse.ArgumentParser(prog="python -m bench.loops", description=__doc__)
    options.add_argument("file", nargs="*", type=Path, help="recorded runs, one JSON object a line")
    options.add_argument("--runs", action="store_true", help="list unexpected runs, too")
    given = options.parse_args()
    sets = {path.stem: of_file(path) for path in given.file}
    for kind in KINDS:
        sets[f"{kind}, changes claimed"] = of_kind(kind, measured=False)
        sets[f"{kind}, measured"] = of_kind(kind, measured=True)
    print(f"| set | {' | '.join(COLUMNS)} |\n| --- |{' --- |' * len(COLUMNS)}")  # noqa: T201
    for name, rows in sets.items():
        counts, odd = Counter[str](), list[str]()
        for run, columns, heard in rows:
            counts.update(columns)
            if {"missed", "refused", "warned"} & set(columns):
                odd.append(f"  {columns[-1]}: {run}: {heard.refusals[:3]} {heard.warnings[:4]}")
        print(f"| {name} | {' | '.join(str(counts[column]) for column in COLUMNS)} |")  # noqa: T201
        if given.runs:
            print(*odd, sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
