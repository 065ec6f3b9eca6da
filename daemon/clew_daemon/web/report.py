"""`clew report`: a goal's report, or its page as one file that needs no server: no scripts, nothing loaded, no keys."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.queries import goal_id
from clew_daemon.reading.sanitize import clean

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance

ACTIONS_MAX = 500


@click.command()
@parameters.goal
@click.option("--html", "as_html", is_flag=True, help="Write the goal's page, also without -o.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file instead of stdout; the page, if it ends in .html.",
)
@click.pass_obj
def report(instance: Instance, goal: str, as_html: bool, output: Path | None) -> None:
    """Write a goal's report as Markdown, or its page as one HTML file; keys are hidden, if they can be recognised."""
    name = goal_id(instance, goal)
    as_html = as_html or (output is not None and output.suffix.lower() in (".html", ".htm"))
    text = goal_html(instance, name) if as_html else _markdown(instance, name)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8", errors="replace")
        click.echo(f"written: {clean(str(output))}")


def _markdown(instance: Instance, goal: str) -> str:
    path = instance.report_of(goal)
    if not path:
        raise CliError(f"{goal} has no report yet: there is one when it ends or needs you")
    return Path(path).read_text(encoding="utf-8", errors="replace")


def goal_html(instance: Instance, goal: str) -> str:
    """Return a goal's page as one file."""
    from clew_daemon.cli.commands.diff.command import hide_keys
    from clew_daemon.cli.commands.diff.listing import changed_files
    from clew_daemon.record import pages
    from clew_daemon.record.timeline import timeline
    from clew_daemon.web.goal_page import action_row, goal_row
    from clew_daemon.web.record import LOOPS_SHOWN, Record
    from clew_daemon.web.rendering import STATIC, page
    from clew_shared.record.moment import local

    hide_keys(instance)
    now, record = time.time(), Record(instance)
    style = (STATIC / "clew.css").read_text(encoding="utf-8")
    with record.opened() as reader:
        state = record.state(reader, goal)
        assert reader is not None  # noqa: S101 - there is no state without one
        known = record.timeline(reader, goal)
        actions, more = pages.actions(reader, goal, ACTIONS_MAX)
        loops, _ = pages.loops(reader, goal, LOOPS_SHOWN)
    return page(
        "report.html",
        redacted=True,
        standalone=True,
        base="",
        read_only=True,
        running=True,
        state=state,
        row=goal_row(state, now, running=instance.holder is not None),
        buttons=[],
        timeline=timeline(known, state.ended_at if state.ended else now),
        refusals=list(known.refusals)[::-1],
        loops=loops[::-1],
        actions=[action_row(one) for one in actions[::-1]],
        more=more,
        before=None,
        running_actions=list(state.in_flight.values()),
        changed=changed_files(instance, goal),
        style=_markup(style),
        style_hash=f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}",
        version=_version(),
        written=local(now),
    )


def _markup(style: str) -> object:
    from markupsafe import Markup

    return Markup(style)  # noqa: S704 - our own stylesheet


def _version() -> str:
    from clew_daemon import VERSION

    return VERSION
