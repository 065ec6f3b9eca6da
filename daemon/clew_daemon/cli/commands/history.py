"""`clew history` and `clew show`: a goal's actions, or its iteration records, as the ledger has them."""

from __future__ import annotations

from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading import output
from clew_daemon.reading.actions import action_lines, last_actions, place, took, whole_action
from clew_daemon.reading.goal_text import shown_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line, columns, print_json, print_lines
from clew_daemon.reading.queries import goal_id, goal_state, open_ledger
from clew_daemon.reading.sanitize import clean, short
from clew_shared.record.moment import local
from clew_shared.text.words import ordinal

ARGS_CHARS = 120
"""The length to which an action's arguments are shortened in its line; `clew show` has them whole."""


@click.command()
@parameters.goal
@parameters.limit
@click.option("--before", type=parameters.SEQ, metavar="SEQ", help="Only actions before this one.")
@click.option(
    "--iterations",
    is_flag=True,
    help="Show iteration records instead: the calls of each turn and what was found.",
)
@parameters.as_json
@click.pass_obj
def history(
    instance: Instance,
    goal: str,
    limit: int | None,
    before: int | None,
    iterations: bool,
    as_json: bool,
) -> None:
    """Show a goal's last actions, oldest first; `clew show` shows one of them in full."""
    name = goal_id(instance, goal)
    last = parameters.limited(limit, as_json=as_json)
    what, number = ("iterations", "iteration") if iterations else ("actions", "seq")
    if iterations:
        found, more = _iterations(instance, name, last, before)
    else:
        found, more = last_actions(instance, name, last, before, outputs=as_json)
    if as_json:
        print_json({"goal": name, what: found, "more": more})
        return
    again = any(one.get("attempt", 1) > 1 for one in found)
    rows = (
        _iteration_rows(found)
        if iterations
        else [_action_row(action, attempt=again) for action in found]
    )
    first = found[0][number] if found else 0
    command = f"clew history {name} {'--iterations ' * iterations}--before {first}"
    earlier = parameters.earlier_lines(more, what, command)
    print_lines([*earlier, *(columns(rows) or [_none_yet(instance, name, what)])])


def _none_yet(instance: Instance, goal: str, what: str) -> Line:
    """Return a line saying that there are no actions or iterations yet, and which action is running."""
    flights = list(goal_state(instance, goal).in_flight.values()) if what == "actions" else []
    if not flights:
        return [(f"no {what} yet", "dim")]
    running = "running" if instance.holder is not None else "begun before the daemon ended"
    last = flights[-1]
    action = short(shown_action({"name": last.action.name, "args": last.action.args}), ARGS_CHARS)
    show = f"clew show {clean(goal)} {last.seq}"
    return [(f"no finished actions yet; {running}: #{last.seq} {action} ({show})", "dim")]


def _iterations(
    instance: Instance, goal: str, limit: int | None, before: int | None
) -> tuple[list[dict[str, Any]], bool]:
    from clew_daemon.record.iterations import IterationFold
    from clew_daemon.record.store import catch_up

    with open_ledger(instance) as reader:
        records = list(catch_up(IterationFold(), reader, goal))
    found = [one for one in records if before is None or one["iteration"] < before]
    shown = found if limit is None else found[-limit:]
    return shown, len(shown) < len(found)


def _iteration_rows(records: list[dict[str, Any]]) -> list[Line]:
    """Return rows for each iteration, one for each call: what was done and what was found."""
    from clew_shared.prompt.reasoning import did, found, reasoning_line

    rows: list[Line] = []
    for record in records:
        calls = [
            reasoning_line(
                did(call["tool"], call["params"]),
                found(call["insights"], call["learning"], call["outcome"], call["raw_output"]),
            )
            for call in record["tool_calls"]
        ]
        head: Line = [
            (f"iteration {record['iteration']}", ""),
            (clean(local(record["timestamp"])), "dim"),
            (clean(record["progress_assessment"]), "dim"),
        ]
        lines = calls or [record["synthesis"] or "no action"]
        rows += [[*head, (clean(line), "")] for line in lines]
    return rows


def _action_row(action: dict[str, Any], *, attempt: bool) -> Line:
    run = f", {ordinal(action['run'])} run" if action.get("run", 1) > 1 else ""
    return [
        (f"#{action['seq']}", "dim"),
        (clean(local(action["timestamp"])), "dim"),
        (place(action), ""),
        (f"epoch {action['epoch']}", "dim"),
        *([(f"attempt {action['attempt']}", "dim")] if attempt else []),
        (f"{clean(action['result'])}{run}", RESULT_STYLE.get(action["result"], "")),
        (took(action) or "-", "dim"),
        (short(shown_action(action), ARGS_CHARS), ""),
    ]


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
    name = goal_id(instance, goal)
    action = whole_action(instance, name, seq)
    output.show({"goal": name, "action": action}, action_lines(name, action), as_json=as_json)
