"""`clew loops`: the loops that were detected, with the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.display.output import Line, print_json, print_lines
from clew_daemon.cli.display.sanitize import clean
from clew_daemon.cli.queries import goal_id, ledger_if_any

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance


@click.command()
@parameters.optional_goal
@parameters.limit
@click.option("--before", type=parameters.SEQ, metavar="SEQ", help="Only loops before this event.")
@parameters.as_json
@click.pass_obj
def loops(
    instance: Instance, goal: str | None, limit: int | None, before: int | None, as_json: bool
) -> None:
    """Show the last loops that were detected, with the evidence, oldest first."""
    found, more = _found(instance, goal, parameters.limited(limit, as_json=as_json), before)
    if as_json:
        print_json({"loops": found, "more": more})
        return
    if not found:
        print_lines([[("no loops", "dim")]])
        return
    command = f"clew loops {goal + ' ' if goal else ''}--before {found[0]['seq']}"
    lines = [line for entry in found for line in _loop_lines(entry)]
    print_lines([*parameters.earlier_lines(more, "loops", command), *lines])


def _found(
    instance: Instance, goal: str | None, limit: int | None, before: int | None
) -> tuple[list[dict[str, Any]], bool]:
    """Return the last loops of one goal or of all, and whether there are earlier ones."""
    name = None if goal is None else goal_id(instance, goal)
    with ledger_if_any(instance) as reader:
        if reader is None:
            return [], False
        from clew_daemon.record import pages

        return pages.loops(reader, name, limit, before)


def _loop_lines(entry: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.display.units import counted
    from clew_shared.record.moment import local
    from clew_shared.text.words import loop

    escalated = {"person": ", left to you", "task": ", another plan", "goal": ", another plan"}.get(
        entry["escalated_to"], ""
    )
    times = f" ({counted(entry['attempt_count'], 'time')})" if entry["attempt_count"] else ""
    at = f"{entry['task_idx'] + 1}.{entry['subtask_idx'] + 1}"
    lines: list[Line] = [
        [
            (clean(local(entry["timestamp"])), "dim"),
            (f"  {clean(entry['goal'])} {at}  ", ""),
            (clean(loop(entry["kind"])), "bold magenta"),
            (f"{times}{clean(escalated)}", ""),
        ],
    ]
    if entry["action_signature"]:
        lines.append([(f"    {clean(entry['action_signature'])}", "")])
    evidence = clean(str(entry["evidence"] or ""), lines=True).splitlines()
    return lines + [[(f"    {line}", "dim")] for line in evidence]
