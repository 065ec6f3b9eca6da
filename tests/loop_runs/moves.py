"""Builders of runs: what an agent did and thought, in the form of the recorded runs.

A `Run` is a list of moves and, for a loop, the number of moves after which it must have been noticed at last.
`files` are what a move changes in the workspace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Move:
    """One action with its result, or one thought (`name` is "")."""

    name: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    result: str = "success"
    files: dict[str, str] = field(default_factory=dict)
    thought: str = ""
    changed: bool | None = None


@dataclass(frozen=True)
class Run:
    """A run by its name; `latest` is the number of moves by which a loop must be noticed, 0 for honest work."""

    name: str
    moves: list[Move]
    latest: int = 0


def act(tool: str, output: str = "", /, result: str = "success", **args: Any) -> Move:
    return Move(tool, args, output, result)


def sh(cmd: str, output: str = "", result: str = "success", **files: str) -> Move:
    return Move("run_cmd", {"cmd": cmd}, output, result, files)


def fails(cmd: str, output: str) -> Move:
    return sh(cmd, output, "failure")


def edit(path: str, old: str, new: str) -> Move:
    args = {"path": path, "old": old, "new": new}
    return Move("edit_file", args, "ok", files={path: f"{old} {new}"})


def thinks(*texts: str) -> list[Move]:
    return [Move(thought=text) for text in texts]


def page(lines: list[str]) -> str:
    return "\n".join(lines)
