"""`clew herald` and `clew metrics`."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack

import click

from clew_daemon.reading.errors import CliError, print_error
from clew_daemon.reading.instance import Instance
from clew_shared.config.tables import Settings
from clew_shared.exit_codes import ExitCode

BOOK, LOCK = "herald.json", "herald.lock"


@click.command()
@click.option(
    "--test",
    is_flag=True,
    help="Send one message to each channel of [notify], say what came of it, and end.",
)
@click.pass_obj
def herald(instance: Instance, test: bool) -> None:
    """Serve metrics, and send traces and messages, until it is stopped.

    Exit code 78: the config cannot be used.
    """
    from clew_daemon.herald.senders import ChannelError
    from clew_daemon.host.own_process import collect_as_usual, let_others_first
    from clew_shared.config.faults import SettingsError

    collect_as_usual()
    let_others_first()
    try:
        settings = instance.loaded.settings
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", ExitCode.CONFIGURATION) from None
    try:
        if test:
            _test_channels(instance, settings)
        else:
            _run(instance, settings)
    except ChannelError as error:
        raise CliError(str(error), ExitCode.CONFIGURATION) from None


@click.command()
@click.pass_obj
def metrics(instance: Instance) -> None:
    """Print the metrics once, as `clew herald` serves them."""
    from prometheus_client import generate_latest

    from clew_daemon.herald.book import Book, BookError, UnknownEventError
    from clew_daemon.herald.herald import Herald
    from clew_shared.ledger import LedgerError

    try:
        found = Herald(instance, Book(instance.places.state / BOOK))
        found.look()
    except (BookError, LedgerError, UnknownEventError) as error:
        raise CliError(str(error)) from None
    click.echo(generate_latest(found.metrics.registry()).decode(), nl=False)


def _test_channels(instance: Instance, settings: Settings) -> None:
    from clew_daemon.herald.senders import UndeliveredError, senders
    from clew_daemon.herald.situation import Notice

    found = senders(settings.notify, instance.env, instance.config.parent)
    failed = not found
    if failed:
        how = "write an address into a file, and name it as [notify] urls_file in"
        print_error(f"there is no channel: {how} {instance.config} (docs/herald.md)")
    for sender in found:
        try:
            sender.send(Notice("completed", "clew: a test", "clew herald can send you messages."))
            click.echo(f"{sender.label}: sent")
        except UndeliveredError as error:
            click.echo(f"{sender.label}: not sent: {error}")
            failed = True
    if failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _run(instance: Instance, settings: Settings) -> None:
    import structlog

    from clew_daemon.herald.book import Book, BookError, UnknownEventError
    from clew_daemon.herald.herald import Herald
    from clew_daemon.herald.metrics import MetricsServer, PortTakenError
    from clew_daemon.logs import setup
    from clew_shared.ledger.lock import HERALD, LockError, acquire

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    state = instance.places.state
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    setup.configure(settings.log.model_copy(update={"file": None}))
    host, _, port = settings.herald.listen.rpartition(":")
    with ExitStack() as held:
        try:
            held.enter_context(acquire(state / LOCK, role=HERALD))
            found = Herald(instance, Book(state / BOOK))
            channels = found.channels(instance, settings.notify)
            server = MetricsServer(
                host.strip("[]"), int(port), found.metrics.registry(), found.unready
            )
            held.callback(server.close)
            url = f"http://{host}:{server.port}/metrics"
            structlog.get_logger().info("herald.ready", metrics=url)
            found.run(channels, stop)
        # after an event of a later clew a service manager starts the version that is installed now
        except (LockError, BookError, PortTakenError, UnknownEventError) as error:
            raise CliError(str(error)) from None
