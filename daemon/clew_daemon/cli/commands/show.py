"""`clew show`: one action in full, as the ledger has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from clew_daemon.cli.display.output import Line
    from clew_daemon.cli.instance import Instance

INDENT = "    "


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
    from clew_daemon.cli.display.output import print_json, print_lines

    name, action = _found(instance, goal, seq)
    if as_json:
        print_json({"goal": name, "action": action})
    else:
        print_lines(action_lines(name, action))


def _found(instance: Instance, goal: str, seq: int) -> tuple[str, dict[str, Any]]:
    from clew_daemon.cli.queries import named, opened

    name = named(instance, goal)
    with opened(instance) as reader:
        if reader is None:
            raise CliError(f"there is no goal {goal!r}")
        from clew_daemon.record import pages

        action = pages.whole_action(reader, name, seq)
        near = [] if action else pages.nearest_actions(reader, name, seq)
    if action is None:
        raise CliError(_unknown(name, seq, near))
    return name, action


def _unknown(goal: str, seq: int, near: list[int]) -> str:
    if not near:
        return f"{goal} has no action #{seq}: it has no actions yet"
    which = " and ".join(f"#{one}" for one in near)
    are = "the nearest one is" if len(near) == 1 else "the nearest ones are"
    return f"{goal} has no action #{seq}; {are} {which}; `clew history {goal}` lists them"


def action_lines(goal: str, action: dict[str, Any]) -> list[Line]:
    """Return an action as a person reads it; its output stands last, whole."""
    from clew_daemon.cli.display.goals import why
    from clew_daemon.cli.display.output import RESULT_STYLE
    from clew_daemon.cli.display.sanitize import clean
    from clew_shared.record.moment import local

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
        "workspace": _CHANGED.get(action["changed"], ""),
        "rationale": action["rationale"],
        "verdict": action["verdict"],
    }
    if action["verdict"] == "blocked":
        facts["verdict"] = f"blocked: {action['reason']}"
        facts["signature"] = action["signature"]
    if result == "interrupted":
        facts["interrupted"] = f"{why(action['reason'])}; its effect is unknown"
    lines: list[Line] = [head]
    for name, value in facts.items():
        lines += _text(f"{name}: ", value) if value else []
    if action["message"]:
        lines += _text("message: ", action["message"])
    lines.append([("arguments:", "bold")])
    for name, value in action["args"].items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += _text(f"{INDENT}{clean(name)}: ", shown)
    return [*lines, *_output(action)]


_CHANGED = {True: "changed", False: "not changed"}


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
    """Return a text after its label; where it has several lines, they stand below it."""
    lines = _lines_of(text)
    if len(lines) < 2:
        return [[(label, "bold"), ("".join(lines), "")]]
    indent = " " * (len(label) - len(label.lstrip())) + INDENT
    return [[(label.rstrip(), "bold")], *([(f"{indent}{line}", "")] for line in lines)]


def _lines_of(text: str) -> list[str]:
    from clew_daemon.cli.display.sanitize import clean

    return (
        clean(text.replace("\r\n", "\n").expandtabs(), lines=True).rstrip("\n").split("\n")
        if text
        else []
    )
