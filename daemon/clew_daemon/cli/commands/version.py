"""`clew version`: the versions of clew and Python, and the platform."""

from __future__ import annotations

import platform

import click

from clew_daemon import VERSION
from clew_daemon.cli import parameters
from clew_daemon.cli.display.output import print_json


@click.command()
@parameters.as_json
def version(as_json: bool) -> None:
    """Show the version of clew; with --json also that of Python, and the platform."""
    if as_json:
        python = platform.python_version()
        print_json({"version": VERSION, "python": python, "platform": platform.platform()})
    else:
        print(version_line())


def version_line() -> str:
    """Return the line of `clew --version`."""
    return f"clew {VERSION}"
