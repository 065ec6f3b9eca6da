"""`clew run`: the daemon in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew_daemon.reading.errors import CliError
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_shared.config.places import Places
    from clew_shared.config.settings import Loaded


@click.command()
@click.pass_obj
def run(instance: Instance) -> None:
    """Run the daemon in the foreground, as systemd does.

    SIGTERM or SIGINT stops it, SIGHUP reads the config again. Exit code 78: the config cannot be
    used, and all its errors are on stderr; starting again would not change that.
    """
    from clew_daemon.host.own_process import collect_as_usual
    from clew_shared.config.faults import SettingsError
    from clew_shared.config.places import places

    try:
        loaded = instance.loaded
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", ExitCode.CONFIGURATION) from None
    collect_as_usual()
    raise click.exceptions.Exit(_run(places(instance.env, instance.home, loaded.settings), loaded))


def _run(places: Places, loaded: Loaded) -> int:
    from clew_daemon.bootstrap import BootstrapError, bootstrap, failed

    try:
        with bootstrap(places, loaded) as bootstrapped:
            from clew_daemon.app.lifecycle import run  # imported while the nursery starts

            return run(bootstrapped)
    except BootstrapError as error:
        return failed(str(error), error.code)
