"""`clew context`: the prompt that a goal's agent would send to its LLM now, with its size."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, print_json, print_lines, show
from clew_daemon.reading.queries import goal_id, goal_state
from clew_daemon.reading.sanitize import clean


@click.command()
@parameters.goal
@click.option(
    "--turn",
    type=click.IntRange(1),
    metavar="N",
    help="Show the prompt of turn N instead, with what changed since the turn before.",
)
@parameters.as_json
@click.pass_obj
def context(
    instance: Instance,
    goal: str,
    turn: int | None,
    as_json: bool,
) -> None:
    """Show exactly what the agent's LLM would be shown now, message by message, and its size."""
    from clew_daemon.reading.prompt_preview import preview
    from clew_shared.prompt.compact import compact_context

    name = goal_id(instance, goal)
    if turn:
        _print_turn(instance, name, turn, as_json=as_json)
        return
    prompt = preview(instance, name)
    if as_json:
        shown = instance.settings_for_display.context
        state = goal_state(instance, name)
        text = compact_context(state, shown.max_chars, recent_actions=shown.recent_actions)
        print_json({"goal": name, "context": text, "chars": len(text)} | prompt)
    else:
        print_lines(_prompt_lines(prompt))


def _prompt_lines(prompt: dict[str, Any]) -> list[Line]:
    from clew_daemon.reading.prompt_preview import message_text
    from clew_daemon.reading.prompt_text import left_out_lines, size_lines

    lines: list[Line] = [[(f"-- {clean(prompt['note'])}", "yellow")]] if prompt["note"] else []
    for message in prompt["messages"]:
        lines.append([(f"== {message['role']}", "bold")])
        lines.append([(clean(message_text(message), lines=True), "")])
    sizes = [(name, size["tokens"], size["chars"]) for name, size in prompt["sizes"].items()]
    lines += [*size_lines(sizes), *left_out_lines(prompt["left_out"])]
    return lines


def _print_turn(instance: Instance, goal: str, turn: int, *, as_json: bool) -> None:
    from clew_daemon.reading.prompt_preview import inspected
    from clew_daemon.reading.prompt_text import turn_lines

    found = inspected(instance, goal, turn)
    if found.turn != turn:
        raise CliError(f"{goal} has no turn {turn} yet; the next one is turn {found.turns}")
    show({"goal": goal, **asdict(found)}, turn_lines(found, whole=True), as_json=as_json)
