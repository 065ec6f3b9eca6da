"""Plays runs through the gate, and notes what their agents hear: no model, no daemon, no disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import ActionReport
from clew_shared.core.core import Core
from clew_shared.core.journal import Limits
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.record.state import State

RUNS = Path(__file__).with_name("runs.jsonl")
RESULTS = ("success", "failure", "error", "timeout")


@dataclass(frozen=True)
class Move:
    """One action with its result and the `files` that it changes, or one thought (`name` is "")."""

    name: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    result: str = "success"
    files: dict[str, str] = field(default_factory=dict)
    thought: str = ""


@dataclass(frozen=True)
class Run:
    """A written run; `latest` is the number of moves by which a loop must be noticed, 0 for honest work."""

    kind: str
    name: str
    latest: int
    moves: list[Move]


def written_runs() -> list[Run]:
    rows = [json.loads(line) for line in RUNS.read_text().splitlines()]
    return [Run(**row | {"moves": [Move(**move) for move in row["moves"]]}) for row in rows]


@dataclass
class PlayedRun:
    """What an agent heard in a run: the numbers of its steps, from 0, with the reasons."""

    refusals: list[tuple[int, str]] = field(default_factory=list)
    warnings: list[tuple[int, str]] = field(default_factory=list)

    @property
    def first(self) -> int | None:
        return min((at for at, _ in self.refusals + self.warnings), default=None)


class Player:
    """One goal's core, and what the agent hears of it."""

    def __init__(self, goal: str, loops: LoopSettings | None = None) -> None:
        numbers = count(1)
        self.heard = PlayedRun()
        rules = loops or LoopSettings()
        self.core = Core(State(), rules, lambda: next(numbers), limits=Limits(actions=10_000))
        self.core.emit(ev.GoalAccepted(goal_id=goal, spec=Spec(description="run")))
        self.core.emit(ev.GoalStarted())
        self.core.start(0.0)

    def think(self, at: int, text: str, *, acts: bool) -> None:
        self._note(at, self.core.think(text, 0.0, has_tool_calls=acts).intervention)

    def act(
        self, at: int, tool: str, args: dict[str, Any], result: Callable[[], ActionReport]
    ) -> None:
        if self.core.state.plan.replan_required or self.core.state.goal.status != "in_progress":
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


def play_recorded(row: dict[str, Any], loops: LoopSettings | None = None) -> PlayedRun:
    player, steps = Player(row["id"], loops), row["steps"]
    for at, step in enumerate(steps):
        match step["kind"]:
            case "action":
                player.act(at, step["name"], step["args"], partial(_recorded, step))
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


def play(run: Run, *, measured: bool, loops: LoopSettings | None = None) -> PlayedRun:
    """Play a written run, with a measured workspace or with claims of changes alone."""
    player, files = Player("run", loops), dict[str, str]()
    if measured:
        player.core.see_world(repr(sorted(files.items())), 0.0)
    for at, move in enumerate(run.moves):
        if move.name:
            report = partial(_report, move, files, measured=measured)
            player.act(at, move.name, move.args, report)
        else:
            acts = at + 1 < len(run.moves) and bool(run.moves[at + 1].name)
            player.think(at, move.thought, acts=acts)
    return player.heard


def _report(move: Move, files: dict[str, str], *, measured: bool) -> ActionReport:
    if not measured:
        return ActionReport(move.result, move.output, bool(move.files))
    files.update(move.files)
    return ActionReport(move.result, move.output, None, repr(sorted(files.items())))
