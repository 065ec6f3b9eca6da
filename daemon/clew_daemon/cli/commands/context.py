"""`clew context`: the prompt that a goal's agent would send to its LLM now, with its size, or the compact text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, print_json, print_lines
from clew_daemon.reading.queries import goal_id, goal_state
from clew_daemon.reading.sanitize import clean


@click.command()
@parameters.goal
@click.option("--compact", is_flag=True, help="Show the compact text instead of the prompt.")
@click.option(
    "--max-chars",
    type=click.IntRange(200),
    help="The greatest length of the compact text, in characters.",
)
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
    compact: bool,
    max_chars: int | None,
    turn: int | None,
    as_json: bool,
) -> None:
    """Show exactly what the agent's LLM would be shown now, message by message, and its size."""
    from clew_daemon.reading.prompt_preview import preview
    from clew_shared.prompt.compact import compact_context

    if max_chars and not (compact or as_json):
        raise click.UsageError("--max-chars is the length of the compact text: add --compact")
    if turn and (compact or max_chars):
        raise click.UsageError("--turn cannot be used with --compact or --max-chars")
    name = goal_id(instance, goal)
    if turn:
        _print_turn(instance, name, turn, as_json=as_json)
        return
    limit = max_chars or instance.settings_for_display.context.max_chars
    state = goal_state(instance, name)
    recent = instance.settings_for_display.context.recent_actions
    text = compact_context(state, limit, recent_actions=recent)
    if compact and not as_json:
        size = f"-- {len(text)} characters, at most {limit}"
        print_lines([[(clean(text, lines=True), "")], [(size, "dim")]])
        return
    prompt = preview(instance, name)
    if as_json:
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
    sha, last = prompt["sha"], prompt["sha_of_last_call"]
    same = "the same as in the last call" if sha == last else f"it was {last} in the last call"
    change = "no calls yet" if last is None else same
    return [*lines, [(f"-- hash of the prompt's head: {sha} ({change})", "dim")]]


def _print_turn(instance: Instance, goal: str, turn: int, *, as_json: bool) -> None:
    from clew_daemon.reading.prompt_preview import inspected
    from clew_daemon.reading.prompt_text import turn_lines

    found = inspected(instance, goal, turn)
    if found.turn != turn:
        raise CliError(f"{goal} has no turn {turn} yet; the next one is turn {found.turns}")
    if as_json:
        print_json({"goal": goal, **asdict(found)})
    else:
        print_lines(turn_lines(found, whole=True))
