"""`clew playbook`: list, show, remove, restore, prune, export and import the strategies learned across goals.

Reading goes to the ledger, with or without a daemon; changing asks the daemon.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.errors import CliError
from clew_daemon.cli.lazy import Commands
from clew_daemon.cli.printable import clean, short

if TYPE_CHECKING:
    from clew_daemon.cli.output import Line
    from clew_daemon.cli.where import Where
    from clew_shared.playbook.bullet import Bullet
    from clew_shared.playbook.playbook import LearnedPlaybook
    from clew_shared.record.events import Event

IMPORT_BYTES_MAX = 16 << 20
SENT_AT_ONCE = 100


_bullet_id = click.argument("bullet_id", metavar="ID", help="A strategy's id, such as fil-00042.")


_archived = click.option("--archived", is_flag=True, help="List removed and pruned strategies too.")


@click.group(cls=Commands, invoke_without_command=True)
@_archived
@arguments.as_json
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
@arguments.as_json
@click.pass_obj
def list_(where: Where, archived: bool, as_json: bool) -> None:
    """List the strategies by section, with their counts and contradictions."""
    from clew_daemon.cli.output import print_json, print_lines
    from clew_shared.playbook.text import render

    playbook = _playbook_of(where)
    put_away = playbook.archived() if archived else []
    if as_json:
        print_json(
            {
                "bullets": [one.to_dict() for one in playbook.bullets()],
                "archived": [one.to_dict() for one in put_away],
                "conflicts": [[one.id, other.id] for one, other in playbook.conflicts()],
            }
        )
        return
    text = render(playbook.bullets()) or "no strategies yet"
    if put_away:
        text += "\n\n" + render(put_away).replace("## Learned Strategies", "## Archived")
    print_lines(
        [[(clean(line), "bold" if line.startswith("#") else "")] for line in text.split("\n")]
    )


@playbook.command()
@_bullet_id
@arguments.as_json
@click.pass_obj
def show(where: Where, bullet_id: str, as_json: bool) -> None:
    """Show one strategy: where it came from, and what counted for and against it."""
    from clew_daemon.cli.output import print_json, print_lines

    view = _view(where, bullet_id)
    if as_json:
        print_json(view)
    else:
        print_lines(_lines(view))


@playbook.command()
@_bullet_id
@click.pass_obj
def remove(where: Where, bullet_id: str) -> None:
    """Move a strategy to the archive, where no agent sees it."""
    _asked(where, "playbook_remove", id=bullet_id)
    print(f"{clean(bullet_id)}: removed; `clew playbook restore {clean(bullet_id)}` brings it back")


@playbook.command()
@_bullet_id
@click.pass_obj
def restore(where: Where, bullet_id: str) -> None:
    """Take a strategy out of the archive."""
    _asked(where, "playbook_restore", id=bullet_id)
    print(f"{clean(bullet_id)}: restored")


@playbook.command()
@click.option(
    "--below",
    type=click.FloatRange(-1, 1),
    help="The threshold (default: `[playbook] prune_below`).",
)
@arguments.as_json
@click.pass_obj
def prune(where: Where, below: float | None, as_json: bool) -> None:
    """Archive every strategy whose score, (helpful - harmful) / uses, is below a threshold."""
    from clew_daemon.cli.output import print_json

    answer = _asked(where, "playbook_prune", below=below)
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
def export(where: Where, file: Path | None, form: str | None, force: bool) -> None:
    """Write the playbook to a file or to stdout, for another home, a program or a person."""
    from clew_daemon.learning.exchange import exported

    is_markdown = file is not None and file.suffix.casefold() in (".md", ".markdown")
    form = form or ("markdown" if is_markdown else "json")
    text = exported(_playbook_of(where), form)
    if file is None:
        sys.stdout.write(text)
    else:
        _write(file, text, force=force)


def _write(file: Path, text: str, *, force: bool) -> None:
    """Write a file, or to a device or a pipe; a file that exists is replaced at once, and only with `force`."""
    if file.exists() and not file.is_file():
        file.write_text(text, encoding="utf-8")
        return
    if not force:
        try:
            with file.open("x", encoding="utf-8") as made:
                made.write(text)
        except FileExistsError:
            raise CliError(
                f"{file} exists; name another file, or replace it with --force"
            ) from None
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
    type=click.Path(allow_dash=True, readable=False),  # reading it says why not
    help="A JSON or Markdown playbook; `-` for stdin.",
)
@arguments.as_json
@click.pass_obj
def import_(where: Where, file: str, as_json: bool) -> None:
    """Import strategies from JSON or Markdown; importing twice changes nothing more."""
    from clew_daemon.cli.output import print_json

    bullets = _read(file)
    done = {"added": 0, "updated": 0, "known": 0}
    for start in range(0, len(bullets), SENT_AT_ONCE):
        part = [one.to_dict() for one in bullets[start : start + SENT_AT_ONCE]]
        for name, count in _asked(where, "playbook_import", bullets=part).items():
            done[name] += count
    if as_json:
        print_json(done)
    else:
        print(f"{done['added']} added, {done['updated']} updated, {done['known']} already known")


def _asked(where: Where, method: str, **params: Any) -> Any:
    from clew_daemon.cli.client import call

    return call(where.socket, method, **params)


def _read(file: str) -> list[Bullet]:
    from pathlib import Path

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
        raise CliError(
            f"{file} has no strategies: it needs what `clew playbook export` writes, or lines "
            "`- what to do` under `### Section`"
        )
    return bullets


def _events(where: Where) -> list[tuple[int, Event]]:
    from clew_daemon.cli.record import opened
    from clew_daemon.learning.playbook import playbook_events

    with opened(where) as reader:
        return [] if reader is None else list(playbook_events(reader))


def _playbook_of(where: Where) -> LearnedPlaybook:
    from clew_daemon.learning.record import fold

    return fold(event for _, event in _events(where))


def _view(where: Where, bullet_id: str) -> dict[str, Any]:
    """Return one strategy with its history and its source."""
    from clew_daemon.learning.record import fold

    events = _events(where)
    playbook = fold(event for _, event in events)
    live = playbook.get_bullet(bullet_id)
    bullet = live or next((one for one in playbook.archived() if one.id == bullet_id), None)
    if bullet is None:
        raise CliError(f"there is no strategy {bullet_id!r}; `clew playbook list` lists them")
    of_it = [(seq, event) for seq, event in events if getattr(event, "id", "") == bullet_id]
    pairs = [(one.id, other.id) for one, other in playbook.conflicts()]
    return {
        "bullet": bullet.to_dict(),
        "archived": live is None,
        "conflicts": [a if b == bullet_id else b for a, b in pairs if bullet_id in (a, b)],
        "source": _source(where, of_it[0][1]),
        "events": [_event_view(seq, event) for seq, event in of_it],
    }


def _source(where: Where, added: Any) -> dict[str, Any]:
    """Return what a strategy was drawn from; of a goal that was deleted only the numbers are left."""
    from clew_daemon.cli.record import opened
    from clew_daemon.record.pages import action

    actions: list[dict[str, Any]] = []
    with opened(where) as reader:
        if reader is not None:
            found = (action(reader, added.source_goal, seq) for seq in added.actions)
            actions = [one for one in found if one]
    return {
        "goal": added.source_goal,
        "evidence": added.evidence,
        "action_seqs": list(added.actions),
        "actions": [
            {key: one[key] for key in ("seq", "name", "args", "result")} for one in actions
        ],
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
    from clew_daemon.cli.tree import action_text
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
