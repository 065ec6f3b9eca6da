"""The commands put together, and the options that all of them have.

Declares, and does nothing: each command's work is in the file of its family.
"""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - typer reads annotations when it runs
from typing import Annotated

import typer

from clew_daemon.cli import checking, daemon, demo, goals, keeping, logs, playbook, steering, submit
from clew_daemon.cli.where import Where


def application() -> typer.Typer:
    """Build the command line."""
    app = typer.Typer(
        name="clew",
        help="Supervise LLM agents: record every step, restart at the same one, refuse loops.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon is running.",
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,  # plain help is the same everywhere, and at once
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_root)
    for family in (daemon, submit, goals, steering, logs, playbook, keeping, checking, demo):
        family.register(app)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"clew {version('clew')}")
        raise typer.Exit


def _root(
    context: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(help="Put everything under this folder (also: CLEW_HOME).", metavar="DIR"),
    ] = None,
    version: Annotated[  # noqa: ARG001 - acted upon by its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    context.obj = Where.of(home, os.environ)
    if context.invoked_subcommand is None:
        print(context.get_help())
