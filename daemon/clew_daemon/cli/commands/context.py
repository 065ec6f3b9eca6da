"""`clew context`: the prompt that a goal's agent would send to its LLM now, with its size."""

from collections.abc import Iterator
from dataclasses import asdict

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, show
from clew_daemon.reading.prompt_text import Preview, inspected, preview, size_lines, turn_lines
from clew_daemon.reading.queries import goal_state
from clew_daemon.reading.sanitize import clean
from clew_shared.prompt.compact import compact_context


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
def context(instance: Instance, goal: str, turn: int | None, as_json: bool) -> None:
    """Show exactly what the agent's LLM would be shown now, message by message, and its size."""
    if turn:
        found = inspected(instance, goal, turn)
        if found.turn != turn:
            raise CliError(f"{goal} has no turn {turn} yet; the next one is turn {found.turns}")
        show({"goal": goal, **asdict(found)}, turn_lines(found, whole=True), as_json=as_json)
        return
    prompt, known = preview(instance, goal), instance.settings_for_display.context
    state = goal_state(instance, goal)
    text = compact_context(state, known.max_chars, recent_actions=known.recent_actions)
    value = {"goal": goal, "context": text, "chars": len(text), **asdict(prompt)}
    show(value, _prompt_lines(prompt), as_json=as_json)


def _prompt_lines(prompt: Preview) -> Iterator[Line]:
    if prompt.note:
        yield [(f"-- {clean(prompt.note)}", "yellow")]
    for role, text in prompt.said:
        yield [(f"== {role}", "bold")]
        yield [(clean(text, lines=True), "")]
    yield from size_lines(prompt.rows, prompt.left_out)
