"""`clew playbook` and its commands: reading goes to the ledger, with or without a daemon, changes to the daemon."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.app import CommandGroup
from clew_daemon.cli.parameters import Shown, reading
from clew_daemon.learning.deltas import IMPORTED_AT_ONCE_MAX, fold, imported
from clew_daemon.learning.playbook import playbook_events
from clew_daemon.reading.client import call
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import ledger_if_any
from clew_daemon.reading.sanitize import clean
from clew_shared.playbook.playbook import LearnedPlaybook, render
from clew_shared.record.events import Event
from clew_shared.record.moment import iso, local

IMPORT_BYTES_MAX = 16 << 20

_bullet_id = click.argument("bullet_id", metavar="ID", help="A strategy's id, such as fil-00042.")


def _recorded(instance: Instance) -> tuple[list[tuple[int, Event]], LearnedPlaybook]:
    with ledger_if_any(instance) as reader:
        events = [] if reader is None else list(playbook_events(reader))
    return events, fold(event for _, event in events)


@click.group(cls=CommandGroup, invoke_without_command=True)
@parameters.as_json
@click.pass_context
def playbook(ctx: click.Context, as_json: bool) -> None:
    """Manage the strategies learned across goals; without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)
    elif as_json:
        raise click.UsageError("--json goes after the command", ctx)


@reading(name="list", of=playbook)
def list_(instance: Instance) -> Shown:
    """List the strategies by section, with their counts and contradictions."""
    _, known = _recorded(instance)
    found = {
        "bullets": [one.to_dict() for one in known.bullets()],
        "archived": [one.to_dict() for one in known.archived()],
        "conflicts": [[one.id, other.id] for one, other in known.conflicts()],
    }
    text = render(known.bullets()) or "no strategies yet"
    return found, map(clean, text.split("\n"))


@reading(_bullet_id, of=playbook)
def show(instance: Instance, bullet_id: str) -> Shown:
    """Show one strategy: where it came from, and what counted for and against it."""
    events, known = _recorded(instance)
    live = known.get_bullet(bullet_id)
    bullet = live or next((one for one in known.archived() if one.id == bullet_id), None)
    if bullet is None:
        raise CliError(f"there is no strategy {bullet_id!r}; `clew playbook list` lists them")
    history = [(seq, event) for seq, event in events if getattr(event, "id", "") == bullet_id]
    first: Any = history[0][1]
    source = {"goal": first.source_goal, "evidence": first.evidence}
    pairs = [{one.id, other.id} for one, other in known.conflicts()]
    view = {
        "bullet": bullet.to_dict(),
        "archived": live is None,
        "conflicts": [*{one for pair in pairs if bullet_id in pair for one in pair - {bullet_id}}],
        "source": {**source, "action_seqs": list(first.actions)},
        "events": [
            {
                "seq": seq,
                "timestamp": iso(event.at),
                "event": event.kind.removeprefix("bullet_"),
                "goal": getattr(event, "source_goal", "") or None,
                **{key: getattr(event, key, None) or None for key in ("tag", "times", "reason")},
            }
            for seq, event in history
        ],
    }
    return view, map(clean, _strategy_lines(view))


def _strategy_lines(view: Mapping[str, Any]) -> Iterator[str]:
    bullet, source = view["bullet"], view["source"]
    counts = ", ".join(f"{name} {bullet[name]}" for name in ("helpful", "harmful", "neutral"))
    yield f"{bullet['id']}{'  (archived)' if view['archived'] else ''}  {bullet['section']}"
    yield f"  {bullet['content']}"
    yield f"  {counts}; from {source['goal'] or 'elsewhere'}"
    yield from (f"  {other} says the opposite" for other in view["conflicts"])
    yield from (f"    {line}" for line in source["evidence"].splitlines())
    for event in view["events"]:
        times = f" x {event['times']}" if (event["times"] or 1) > 1 else ""
        what = f"{event['event']} {event['tag'] or ''}".strip() + times
        rest = ", ".join(event[key] for key in ("goal", "reason") if event[key])
        yield f"  {local(event['timestamp'])}  {what}  {rest}"


@parameters.command(_bullet_id, of=playbook)
def remove(instance: Instance, bullet_id: str) -> None:
    """Move a strategy to the archive, where no agent sees it."""
    call(instance.socket, "playbook_remove", id=bullet_id)
    print(f"{clean(bullet_id)}: removed")


@reading(of=playbook)
def prune(instance: Instance) -> Shown:
    """Archive every strategy whose score, (helpful - harmful) / uses, is below `[playbook] prune_below`."""
    answer = call(instance.socket, "playbook_prune")
    none = f"no strategy scores below {answer['below']:g}"
    lines = [f"{clean(bullet_id)}: removed" for bullet_id in answer["removed"]]
    return answer, lines or [none]


@parameters.command(of=playbook)
def export(instance: Instance) -> None:
    """Print the playbook as JSON, for another home, a program or a person."""
    print(json.dumps(_recorded(instance)[1].to_dict(), ensure_ascii=False, indent=2))


IMPORTED = click.argument(
    "file",
    metavar="FILE|-",
    type=click.Path(allow_dash=True, readable=False),  # reading it gives the better error
    help="What `clew playbook export` writes, or a list of strategies; `-` for stdin.",
)


@reading(IMPORTED, name="import", of=playbook)
def import_(instance: Instance, file: str) -> Shown:
    """Import strategies from JSON; importing twice changes nothing more."""
    with sys.stdin.buffer if file == "-" else Path(file).open("rb") as opened:
        raw = opened.read(IMPORT_BYTES_MAX + 1)
    if len(raw) > IMPORT_BYTES_MAX:
        raise CliError(f"{file} is larger than {IMPORT_BYTES_MAX >> 20} MiB: not a playbook")
    try:
        bullets = imported(raw.decode("utf-8"))
    except ValueError as error:
        raise CliError(f"{file} cannot be imported: {error}") from None
    if not bullets:
        raise CliError(f"{file} has no strategies: it needs what `clew playbook export` writes")
    done = {"added": 0, "updated": 0, "known": 0}
    known = [one.to_dict() for one in bullets]
    for start in range(0, len(known), IMPORTED_AT_ONCE_MAX):
        part = known[start : start + IMPORTED_AT_ONCE_MAX]
        for name, count in call(instance.socket, "playbook_import", bullets=part).items():
            done[name] += count
    text = f"{done['added']} added, {done['updated']} updated, {done['known']} already known"
    return done, [text]
