"""`clew playbook`: list, show, remove, restore, prune, export and import the strategies learned across goals.

It reads the ledger, with or without a daemon; changes go through the daemon.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.client import call
from clew_daemon.cli.display.output import Line, print_json, print_lines
from clew_daemon.cli.display.sanitize import clean, short
from clew_daemon.cli.errors import CliError
from clew_daemon.cli.lazy import CommandGroup
from clew_daemon.cli.queries import ledger_if_any, open_ledger

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance
    from clew_shared.playbook.bullet import Bullet
    from clew_shared.playbook.playbook import LearnedPlaybook
    from clew_shared.record.events import Event

IMPORT_BYTES_MAX = 16 << 20
SENT_AT_ONCE = 100
SOURCE_KEYS = ("seq", "name", "args", "result")

_bullet_id = click.argument("bullet_id", metavar="ID", help="A strategy's id, such as fil-00042.")
_archived = click.option("--archived", is_flag=True, help="List removed and pruned strategies too.")


@click.group(cls=CommandGroup, invoke_without_command=True)
@_archived
@parameters.as_json
@click.pass_context
def playbook(context: click.Context, archived: bool, as_json: bool) -> None:
    """Manage the strategies learned across goals; without a command, list them."""
    if context.invoked_subcommand is None:
        context.invoke(list_, archived=archived, as_json=as_json)
    elif archived or as_json:
        option = "--json" if as_json else "--archived"
        raise click.UsageError(f"{option} goes after `{context.invoked_subcommand}`")


@playbook.command("list")
@_archived
@parameters.as_json
@click.pass_obj
def list_(instance: Instance, archived: bool, as_json: bool) -> None:
    """List the strategies by section, with their counts and contradictions."""
    from clew_shared.playbook.text import render

    playbook = _playbook_of(instance)
    in_archive = playbook.archived() if archived else []
    if as_json:
        print_json(
            {
                "bullets": [one.to_dict() for one in playbook.bullets()],
                "archived": [one.to_dict() for one in in_archive],
                "conflicts": [[one.id, other.id] for one, other in playbook.conflicts()],
            }
        )
        return
    text = render(playbook.bullets()) or "no strategies yet"
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
    view = _view(instance, bullet_id)
    if as_json:
        print_json(view)
    else:
        print_lines(_lines(view))


@playbook.command()
@_bullet_id
@click.pass_obj
def remove(instance: Instance, bullet_id: str) -> None:
    """Move a strategy to the archive, where no agent sees it."""
    call(instance.socket, "playbook_remove", id=bullet_id)
    print(f"{clean(bullet_id)}: removed; `clew playbook restore {clean(bullet_id)}` brings it back")


@playbook.command()
@_bullet_id
@click.pass_obj
def restore(instance: Instance, bullet_id: str) -> None:
    """Take a strategy out of the archive."""
    call(instance.socket, "playbook_restore", id=bullet_id)
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
    answer = call(instance.socket, "playbook_prune", below=below)
    if as_json:
        print_json(answer)
        return
    for bullet_id in answer["removed"]:
        print(f"{clean(bullet_id)}: removed")
    if not answer["removed"]:
        print(f"no strategy scores below {answer['below']:g}")


@playbook.command()
@click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    type=click.Path(path_type=Path),
    help="The file to write; omit for stdout.",
)
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
    text = exported(_playbook_of(instance), form)
    if file is None:
        sys.stdout.write(text)
    else:
        _write(file, text, force=force)


def _write(file: Path, text: str, *, force: bool) -> None:
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
    bullets = _read(file)
    done = {"added": 0, "updated": 0, "known": 0}
    for start in range(0, len(bullets), SENT_AT_ONCE):
        part = [one.to_dict() for one in bullets[start : start + SENT_AT_ONCE]]
        for name, count in call(instance.socket, "playbook_import", bullets=part).items():
            done[name] += count
    if as_json:
        print_json(done)
    else:
        print(f"{done['added']} added, {done['updated']} updated, {done['known']} already known")


def _read(file: str) -> list[Bullet]:
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


def _events(instance: Instance) -> list[tuple[int, Event]]:
    from clew_daemon.learning.playbook import playbook_events

    with ledger_if_any(instance) as reader:
        return [] if reader is None else list(playbook_events(reader))


def _playbook_of(instance: Instance) -> LearnedPlaybook:
    from clew_daemon.learning.playbook_fold import fold

    return fold(event for _, event in _events(instance))


def _view(instance: Instance, bullet_id: str) -> dict[str, Any]:
    """Return one strategy with its history and its source."""
    from clew_daemon.learning.playbook_fold import fold

    events = _events(instance)
    playbook = fold(event for _, event in events)
    live = playbook.get_bullet(bullet_id)
    bullet = live or next((one for one in playbook.archived() if one.id == bullet_id), None)
    if bullet is None:
        raise CliError(f"there is no strategy {bullet_id!r}; `clew playbook list` lists them")
    history = [(seq, event) for seq, event in events if getattr(event, "id", "") == bullet_id]
    pairs = [(one.id, other.id) for one, other in playbook.conflicts()]
    return {
        "bullet": bullet.to_dict(),
        "archived": live is None,
        "conflicts": [a if b == bullet_id else b for a, b in pairs if bullet_id in (a, b)],
        "source": _source(instance, history[0][1]),
        "events": [_event_view(seq, event) for seq, event in history],
    }


def _source(instance: Instance, added: Any) -> dict[str, Any]:
    """Return the goal and the actions that a strategy was learned from; of a deleted goal only their numbers."""
    from clew_daemon.record.pages import action

    with open_ledger(instance) as reader:
        found = [action(reader, added.source_goal, seq) for seq in added.actions]
    return {
        "goal": added.source_goal,
        "evidence": added.evidence,
        "action_seqs": list(added.actions),
        "actions": [{key: one[key] for key in SOURCE_KEYS} for one in found if one],
    }


def _event_view(seq: int, event: Any) -> dict[str, Any]:
    from clew_shared.record.moment import iso

    return {
        "seq": seq,
        "timestamp": iso(event.at),
        "event": event.kind.removeprefix("bullet_"),
        "tag": getattr(event, "tag", None),
        "times": getattr(event, "times", None),
        "goal": getattr(event, "source_goal", "") or None,
        "reason": getattr(event, "reason", "") or None,
    }


def _lines(view: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.display.goal import action_text
    from clew_shared.record.moment import local

    bullet, source = view["bullet"], view["source"]
    counts = ", ".join(f"{name} {bullet[name]}" for name in ("helpful", "harmful", "neutral"))
    archived = "  (archived)" if view["archived"] else ""
    lines: list[Line] = [
        [(f"{clean(bullet['id'])}{archived}", "bold"), (f"  {clean(bullet['section'])}", "dim")],
        [(f"  {clean(bullet['content'])}", "")],
        [(f"  {counts}", "")],
    ]
    if bullet.get("expires_at"):
        lines.append([(f"  expires {clean(local(bullet['expires_at']))}", "yellow")])
    lines += [[(f"  {clean(other)} says the opposite", "yellow")] for other in view["conflicts"]]
    if source["goal"] or source["evidence"]:
        lines.append([(f"  from {clean(source['goal']) or 'elsewhere'}", "")])
    if source["evidence"]:
        evidence = clean(source["evidence"], lines=True).splitlines()
        lines += [[(f"    {line}", "dim")] for line in evidence]
    lines += [
        [(f"    #{one['seq']} {clean(one['result'])}  {short(action_text(one), 120)}", "dim")]
        for one in source["actions"]
    ]
    return lines + [_event_line(event) for event in view["events"]]


def _event_line(event: dict[str, Any]) -> Line:
    from clew_shared.record.moment import local

    what = f"{event['event']} {event['tag'] or ''}".strip()
    times = f" x {event['times']}" if (event["times"] or 1) > 1 else ""
    rest = ", ".join(clean(event[key]) for key in ("goal", "reason") if event[key])
    when = local(event["timestamp"])
    return [(f"  {when}  ", "dim"), (f"{what}{times}", ""), (f"  {rest}", "dim")]
