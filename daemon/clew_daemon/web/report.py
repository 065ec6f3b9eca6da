"""`clew report`: a goal's report, or its page as one file that needs no server: no scripts, nothing loaded, no keys."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path

import click

from clew_daemon import VERSION
from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import goal_id
from clew_daemon.reading.sanitize import clean
from clew_shared.record.moment import local

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
    text = _page(instance, name) if as_html else _markdown(instance, name)
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


def _page(instance: Instance, goal: str) -> str:
    """Return a goal's page as one file."""
    from markupsafe import Markup

    from clew_daemon.cli.commands.diff.command import hide_keys
    from clew_daemon.cli.commands.diff.listing import changed_files
    from clew_daemon.web.pages import Pages
    from clew_daemon.web.rendering import STATIC, page

    hide_keys(instance)
    style = (STATIC / "clew.css").read_text(encoding="utf-8")
    return page(
        "report.html",
        redacted=True,
        standalone=True,
        base="",
        read_only=True,
        running=True,
        before=None,
        **Pages(instance, read_only=True).whole(goal, ACTIONS_MAX),
        changed=changed_files(instance, goal),
        style=Markup(style),  # noqa: S704 - our own stylesheet
        style_hash=f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}",
        version=VERSION,
        written=local(time.time()),
    )
