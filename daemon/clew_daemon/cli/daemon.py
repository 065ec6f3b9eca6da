"""Running the daemon: `run` in the foreground, `service` by systemd."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import click

from clew_daemon.cli.errors import EXIT_CONFIG, EXIT_FAILED, CliError
from clew_daemon.cli.later import Commands

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where
    from clew_daemon.units import Installed
    from clew_shared.settings import Loaded, Places

GC_USUAL = (700, 10, 10)


@click.command()
@click.pass_obj
def run(where: Where) -> None:
    """Run the daemon in the foreground, as systemd does.

    SIGTERM or SIGINT stops it, SIGHUP reads the config again. Exit code 78: the config cannot be
    used, and all its faults are on stderr; another start with it would change nothing.
    """
    from clew_shared.settings import SettingsError, places

    try:
        loaded = where.loaded
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", EXIT_CONFIG) from None
    gc.set_threshold(*GC_USUAL)
    raise click.exceptions.Exit(_run(places(where.env, where.home, loaded.settings), loaded))


def _run(places: Places, loaded: Loaded) -> int:
    from clew_daemon.begin import CannotBegin, beginning, failed

    try:
        with beginning(places, loaded) as begun:
            from clew_daemon.app import run  # while the nursery warms up

            return run(begun)
    except CannotBegin as error:
        return failed(str(error), error.code)


@click.group(cls=Commands, no_args_is_help=False)
def service() -> None:
    """Run the daemon by systemd, as a service of this user."""


@service.command()
@click.pass_obj
def install(where: Where) -> None:
    """Write and enable the systemd user unit for this clew."""
    from clew_daemon import units

    grace_s = where.settings.restart.stop_grace_s
    _report(units.install(_program(), home=where.home, stop_grace_s=grace_s, env=where.env))


@service.command()
@click.pass_obj
def uninstall(where: Where) -> None:
    """Stop, disable and remove the systemd user unit."""
    from clew_daemon import units

    _report(units.uninstall(env=where.env))


def _report(done: Installed) -> None:
    print("\n".join(done.messages))
    if not done.ok:
        raise click.exceptions.Exit(EXIT_FAILED)


def _program() -> str:
    """Return the absolute path of the `clew` that is running, or of the one beside this Python."""
    import shutil
    from pathlib import Path

    beside = Path(sys.executable).with_name("clew")
    if beside.exists():
        return str(beside)
    named = shutil.which("clew")
    if named is None:
        raise CliError("the program `clew` is not on PATH: install clew, e.g. `pipx install clew`")
    return str(Path(named).absolute())
