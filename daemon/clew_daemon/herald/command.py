"""`clew herald` and `clew metrics`."""

import click

from clew_daemon.cli.parameters import command
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_shared.exit_codes import ExitCode


@command()
def herald(instance: Instance) -> None:
    """Serve metrics, and send traces and messages, until it is stopped.

    Exit code 78: the config cannot be used.
    """
    from clew_daemon.herald.herald import serve
    from clew_daemon.host.own_process import collect_as_usual, let_others_first
    from clew_shared.config.settings import SettingsError

    collect_as_usual()
    let_others_first()
    try:
        settings = instance.loaded.settings
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", ExitCode.CONFIGURATION) from None
    serve(instance, settings)


@command()
def metrics(instance: Instance) -> None:
    """Print the metrics once, as `clew herald` serves them."""
    from clew_daemon.herald.herald import metrics_now

    click.echo(metrics_now(instance), nl=False)
