"""`clew version`: which clew this is, and what it runs on."""

from __future__ import annotations

import platform

import click

from clew_daemon import VERSION
from clew_daemon.cli import parameters


@click.command()
@parameters.as_json
def version(as_json: bool) -> None:
    """Show the version of clew; with --json also that of Python, and the platform."""
    if as_json:
        from clew_daemon.cli.display.output import print_json

        python = platform.python_version()
        print_json({"version": VERSION, "python": python, "platform": platform.platform()})
    else:
        print(line())


def line() -> str:
    """Return the version as `clew --version` prints it."""
    return f"clew {VERSION}"
