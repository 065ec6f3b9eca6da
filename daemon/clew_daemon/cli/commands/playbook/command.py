"""`clew playbook` and its commands: list, show, remove, restore, prune, export, import.

It reads the ledger, with or without a daemon; changes go through the daemon.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.commands.playbook.strategy import (
    has_words,
    playbook_of,
    strategy_lines,
    view_of,
)
from clew_daemon.cli.lazy import CommandGroup
from clew_daemon.control.requests import (
    IMPORTED_AT_ONCE_MAX,
    ImportRequest,
    PruneRequest,
    RemoveStrategyRequest,
    RestoreStrategyRequest,
)
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import columns, print_json, print_lines
from clew_daemon.reading.queries import model_needs
from clew_daemon.reading.sanitize import clean

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_daemon.reading.output import Line
    from clew_shared.config.tables import Settings
    from clew_shared.playbook.bullet import Bullet


COLUMNS = ("model", "verified goals", "turns needed", "first attempt", "later ones", "full until")


def models_view(instance: Instance) -> dict[str, Any]:
    """Return the models by name: what they needed, and what applies to those of the config's agents, else null."""
    from clew_daemon.config.need import GOALS_MIN

    needs, settings = model_needs(instance), instance.settings_for_display
    return {
        "models": [
            {
                "model": model,
                "goals": needs.goals(model),
                "needed": max(needs.by_model[model]),
                "applies": _applied(settings, model, needs.turns(model)),
            }
            for model in sorted(needs.by_model)
        ],
        "goals_min": GOALS_MIN,
        "adapt": settings.attempts.adapt,
    }


def _applied(settings: Settings, model: str, needed: int) -> dict[str, int] | None:
    """Return the turns of a first attempt and of later ones, and until when the context is full."""
    from clew_daemon.config.need import first_attempt, settings_for
    from clew_daemon.config.profiles import profiled_attempts
    from clew_daemon.learning.models import model_key
    from clew_shared.config.agent_tables import LlmAgentSettings

    llms = (a for a in settings.agents.named.values() if isinstance(a, LlmAgentSettings))
    agent = next((one for one in llms if model_key(one) == model), None)
    if agent is None:
        return None
    usual, first = profiled_attempts(settings, agent), first_attempt(settings, agent, needed)
    return {
        "first": first or usual.iterations,
        "later": max(first, usual.iterations),
        "full_until": settings_for(settings, agent, needed).context.full_until,
    }


def model_lines(view: dict[str, Any]) -> list[Line]:
    """Return the table of models, and under it when attempts adapt."""
    if not view["models"]:
        return [[("no model has completed a goal whose checks passed", "")]]
    head: Line = [(name, "bold") for name in COLUMNS]
    rows: list[Line] = []
    for one in view["models"]:
        applies = one["applies"] or {}
        shown = [applies.get(key, "-") for key in ("first", "later", "full_until")]
        cells = [clean(one["model"]), one["goals"], one["needed"], *shown]
        rows.append([(str(cell), "") for cell in cells])
    note = f"attempts adapt to a model from {view['goals_min']} verified goals on"
    off = "attempts do not adapt: [attempts] adapt is false"
    return [*columns([head, *rows]), [("", "")], [(note if view["adapt"] else off, "dim")]]


IMPORT_BYTES_MAX = 16 << 20


def write(file: Path, text: str, *, force: bool) -> None:
    """Write a file, a device or a pipe; an existing file is replaced atomically, and only with `force`."""
    if file.exists() and not file.is_file():
        file.write_text(text, encoding="utf-8")
        return
    if not force:
        try:
            with file.open("x", encoding="utf-8") as made:
                made.write(text)
        except FileExistsError:
            how = "name another file, or replace it with --force"
            raise CliError(f"{file} exists; {how}") from None
        return
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def read(file: str) -> list[Bullet]:
    """Return the strategies of a file, or of stdin for `-`; CliError where there are none."""
    from clew_daemon.learning.exchange import imported

    if file == "-":
        raw = sys.stdin.buffer.read(IMPORT_BYTES_MAX + 1)
    else:
        with Path(file).open("rb") as opened:
            raw = opened.read(IMPORT_BYTES_MAX + 1)
    if len(raw) > IMPORT_BYTES_MAX:
        raise CliError(f"{file} is larger than {IMPORT_BYTES_MAX >> 20} MiB: not a playbook")
    try:
        bullets = imported(raw.decode("utf-8"))
    except ValueError as error:
        raise CliError(f"{file} cannot be imported: {error}") from None
    if not bullets:
        needed = "what `clew playbook export` writes, or lines `- what to do` under `### Section`"
        raise CliError(f"{file} has no strategies: it needs {needed}")
    return bullets


_bullet_id = click.argument("bullet_id", metavar="ID", help="A strategy's id, such as fil-00042.")
_archived = click.option("--archived", is_flag=True, help="List removed and pruned strategies too.")


@click.group(cls=CommandGroup, invoke_without_command=True)
@_archived
@parameters.as_json
@click.pass_context
def playbook(context: click.Context, archived: bool, as_json: bool) -> None:
    """Manage the strategies learned across goals; without a command, list them."""
    if context.invoked_subcommand is None:
        context.invoke(list_, words=(), archived=archived, as_json=as_json)
    elif archived or as_json:
        option = "--json" if as_json else "--archived"
        raise click.UsageError(f"{option} goes after `{context.invoked_subcommand}`")


@playbook.command("list")
@click.argument(
    "words", metavar="[WORD]...", nargs=-1, help="List those that have all of these words."
)
@_archived
@parameters.as_json
@click.pass_obj
def list_(instance: Instance, words: tuple[str, ...], archived: bool, as_json: bool) -> None:
    """List the strategies by section, with their counts and contradictions."""
    from clew_daemon.learning.loops import is_shown
    from clew_shared.playbook.bullet import SEEN_MIN
    from clew_shared.playbook.text import render

    playbook = playbook_of(instance)
    bullets = [one for one in playbook.bullets() if has_words(one, words)]
    in_archive = [one for one in playbook.archived() if archived and has_words(one, words)]
    if as_json:
        print_json(
            {
                "bullets": [one.to_dict() for one in bullets],
                "archived": [one.to_dict() for one in in_archive],
                "conflicts": [[one.id, other.id] for one, other in playbook.conflicts()],
            }
        )
        return
    text = render(bullets) or ("no such strategy" if words else "no strategies yet")
    if waiting := [one.id for one in bullets if not is_shown(one)]:
        text += f"\n\nnot shown to agents yet ({SEEN_MIN} goals are needed): {', '.join(waiting)}"
    if in_archive:
        text += "\n\n" + render(in_archive).replace("## Learned Strategies", "## Archived")
    print_lines(
        [[(clean(line), "bold" if line.startswith("#") else "")] for line in text.split("\n")]
    )


@playbook.command()
@_bullet_id
@parameters.as_json
@click.pass_obj
def show(instance: Instance, bullet_id: str, as_json: bool) -> None:
    """Show one strategy: where it came from, and what counted for and against it."""
    view = view_of(instance, bullet_id)
    if as_json:
        print_json(view)
    else:
        print_lines(strategy_lines(view))


@playbook.command()
@parameters.as_json
@click.pass_obj
def models(instance: Instance, as_json: bool) -> None:
    """Show what each model needed in recent goals, and how long its attempts are for that."""
    view = models_view(instance)
    if as_json:
        print_json(view)
    else:
        print_lines(model_lines(view))


@playbook.command()
@_bullet_id
@click.pass_obj
def remove(instance: Instance, bullet_id: str) -> None:
    """Move a strategy to the archive, where no agent sees it."""
    send(instance.socket, RemoveStrategyRequest(bullet_id))
    print(f"{clean(bullet_id)}: removed; `clew playbook restore {clean(bullet_id)}` brings it back")


@playbook.command()
@_bullet_id
@click.pass_obj
def restore(instance: Instance, bullet_id: str) -> None:
    """Take a strategy out of the archive."""
    send(instance.socket, RestoreStrategyRequest(bullet_id))
    print(f"{clean(bullet_id)}: restored")


@playbook.command()
@click.option(
    "--below",
    type=click.FloatRange(-1, 1),
    help="The threshold (default: `[playbook] prune_below`).",
)
@parameters.as_json
@click.pass_obj
def prune(instance: Instance, below: float | None, as_json: bool) -> None:
    """Archive every strategy whose score, (helpful - harmful) / uses, is below a threshold."""
    answer = send(instance.socket, PruneRequest(below))
    if as_json:
        print_json(answer)
        return
    for bullet_id in answer["removed"]:
        print(f"{clean(bullet_id)}: removed")
    if not answer["removed"]:
        print(f"no strategy scores below {answer['below']:g}")


@playbook.command()
@parameters.optional_file("The file to write; omit for stdout.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    help="Default: markdown for a file named *.md, else json.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_obj
def export(instance: Instance, file: Path | None, form: str | None, force: bool) -> None:
    """Write the playbook to a file or to stdout, for another home, a program or a person."""
    from clew_daemon.learning.exchange import exported

    is_markdown = file is not None and file.suffix.casefold() in (".md", ".markdown")
    form = form or ("markdown" if is_markdown else "json")
    text = exported(playbook_of(instance), form)
    if file is None:
        sys.stdout.write(text)
    else:
        write(file, text, force=force)


@playbook.command("import")
@click.argument(
    "file",
    metavar="FILE|-",
    type=click.Path(allow_dash=True, readable=False),  # reading it gives the better error
    help="A JSON or Markdown playbook; `-` for stdin.",
)
@parameters.as_json
@click.pass_obj
def import_(instance: Instance, file: str, as_json: bool) -> None:
    """Import strategies from JSON or Markdown; importing twice changes nothing more."""
    bullets = read(file)
    done = {"added": 0, "updated": 0, "known": 0}
    for start in range(0, len(bullets), IMPORTED_AT_ONCE_MAX):
        part = tuple(one.to_dict() for one in bullets[start : start + IMPORTED_AT_ONCE_MAX])
        for name, count in send(instance.socket, ImportRequest(part)).items():
            done[name] += count
    if as_json:
        print_json(done)
    else:
        print(f"{done['added']} added, {done['updated']} updated, {done['known']} already known")
