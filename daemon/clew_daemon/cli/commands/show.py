"""`clew show`: one action in full, as it is on record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import INDENT, RESULT_STYLE, Line, print_json, print_lines
from clew_daemon.reading.queries import goal_id, open_ledger
from clew_daemon.reading.sanitize import clean

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance

CHANGED = {True: "changed", False: "not changed"}


@click.command()
@parameters.goal
@click.argument(
    "seq",
    type=parameters.SEQ,
    metavar="SEQ",
    help="The action's number, as `clew history GOAL` lists it.",
)
@parameters.as_json
@click.pass_obj
def show(instance: Instance, goal: str, seq: int, as_json: bool) -> None:
    """Show one action in full: arguments, verdict, result, time, and all of its output."""
    name, action = _found(instance, goal, seq)
    if as_json:
        print_json({"goal": name, "action": action})
    else:
        print_lines(action_lines(name, action))


def _found(instance: Instance, goal: str, seq: int) -> tuple[str, dict[str, Any]]:
    from clew_daemon.record import pages

    name = goal_id(instance, goal)
    with open_ledger(instance) as reader:
        action = pages.whole_action(reader, name, seq)
    if action is None:
        raise CliError(f"{name} has no action #{seq}; `clew history {name}` lists them")
    return name, action


def action_lines(goal: str, action: dict[str, Any]) -> list[Line]:
    """Return the lines of an action; its whole output comes last."""
    from clew_shared.record.moment import local
    from clew_shared.text.words import ending, ordinal, refusal

    result = action["result"] or "running"
    at = f"{action['task_idx'] + 1}.{action['subtask_idx'] + 1}"
    head: Line = [
        (f"#{action['seq']}  ", "bold"),
        (clean(action["name"]), "bold"),
        ("  ", ""),
        (result, RESULT_STYLE.get(result, "")),
    ]
    facts = {
        "goal": f"{goal}, subtask {at}, epoch {action['epoch']}",
        "time": local(action["timestamp"]),
        "duration": _duration(action),
        "exit code": "" if action["exit_code"] is None else str(action["exit_code"]),
        "workspace": CHANGED.get(action["changed"], ""),
        "run": "" if action["run"] == 1 else f"{ordinal(action['run'])} of this action",
        "rationale": action["rationale"],
        "verdict": action["verdict"],
    }
    if action["verdict"] == "blocked":
        facts["verdict"] = f"refused: {refusal(action['reason'])}"
        facts["signature"] = action["signature"]
    if result == "interrupted":
        facts["interrupted"] = f"{ending(action['reason'])}; its effect is unknown"
    lines: list[Line] = [head]
    for name, value in facts.items():
        lines += _text(f"{name}: ", value) if value else []
    if action["message"]:
        lines += _text("the agent was told: ", action["message"])
    lines.append([("arguments:", "bold")])
    for name, value in action["args"].items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += _text(f"{INDENT}{clean(name)}: ", shown)
    return [*lines, *_output(action)]


def _duration(action: dict[str, Any]) -> str:
    seconds = action["duration_s"]
    return "" if seconds is None else f"{seconds:.2f} s"


def _output(action: dict[str, Any]) -> list[Line]:
    if action["result"] in (None, "blocked"):
        return []
    lines = _lines_of(action["output"])
    if not lines:
        return [[("output: ", "bold"), ("none", "dim")]]
    return [[("output:", "bold")], *([(f"{INDENT}{line}", "")] for line in lines)]


def _text(label: str, text: str) -> list[Line]:
    """Return a text behind its label; several lines are below it, indented."""
    lines = _lines_of(text)
    if len(lines) < 2:
        return [[(label, "bold"), ("".join(lines), "")]]
    indent = " " * (len(label) - len(label.lstrip())) + INDENT
    return [[(label.rstrip(), "bold")], *([(f"{indent}{line}", "")] for line in lines)]


def _lines_of(text: str) -> list[str]:
    if not text:
        return []
    return clean(text.replace("\r\n", "\n").expandtabs(), lines=True).rstrip("\n").split("\n")
