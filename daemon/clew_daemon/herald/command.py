"""`clew herald` and `clew metrics`."""

import click

from clew_daemon.cli.parameters import command, flag
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_shared.exit_codes import ExitCode


@command(
    flag("--test", "Send one message to each channel of [notify], say what came of it, and end.")
)
def herald(instance: Instance, test: bool) -> None:
    """Serve metrics, and send traces and messages, until it is stopped.

    Exit code 78: the config cannot be used.
    """
    from clew_daemon.herald.herald import serve, try_channels
    from clew_daemon.host.own_process import collect_as_usual, let_others_first
    from clew_shared.config.settings import SettingsError

    collect_as_usual()
    let_others_first()
    try:
        settings = instance.loaded.settings
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", ExitCode.CONFIGURATION) from None
    (try_channels if test else serve)(instance, settings)


@command()
def metrics(instance: Instance) -> None:
    """Print the metrics once, as `clew herald` serves them."""
    from clew_daemon.herald.herald import metrics_now

    click.echo(metrics_now(instance), nl=False)
