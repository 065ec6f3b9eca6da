"""`clew herald` and `clew metrics`."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from clew_daemon.herald.book import Book
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_shared.config.settings import Settings
from clew_shared.exit_codes import ExitCode

USAGE = 2
BOOK, LOCK = "herald.db", "herald.lock"


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Serve metrics there: 127.0.0.1 or [::1]; port 0 takes a free one.",
)
@click.option(
    "--test",
    is_flag=True,
    help="Send one message to each channel of [notify], say what came of it, and end.",
)
@click.pass_obj
def herald(instance: Instance, listen: str | None, test: bool) -> None:
    """Serve metrics, and send traces and messages, until it is stopped.

    It follows the daemon's events, or reads the ledger while no daemon runs. Exit code 78: the config cannot be used.
    """
    from clew_daemon.host.own_process import collect_as_usual, let_others_first

    collect_as_usual()
    let_others_first()
    settings = _settings(instance, listen)
    if test:
        _try_channels(instance, settings)
        return
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    state = instance.places.state
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as held:
        _hold_lock(held, state / LOCK)
        book = _open_book(held, state / BOOK)
        _run(instance, settings, book, stop, held)


@click.command()
@click.pass_obj
def metrics(instance: Instance) -> None:
    """Print the metrics once, as `clew herald` serves them."""
    from clew_daemon.herald.book import BookError
    from clew_daemon.herald.endpoint import readings_once
    from clew_daemon.herald.exposition import render
    from clew_daemon.herald.folding import UnknownEventError
    from clew_shared.ledger import LedgerError

    try:
        found = readings_once(instance, instance.places.state / BOOK)
    except (BookError, LedgerError, UnknownEventError) as error:
        raise CliError(str(error)) from None
    click.echo(render(found)[0].decode(), nl=False)


def _try_channels(instance: Instance, settings: Settings) -> None:
    from clew_daemon.herald.channels import ChannelError, tried

    try:
        found = tried(settings.notify, instance.env, instance.config.parent)
    except ChannelError as error:
        raise CliError(str(error), ExitCode.CONFIGURATION) from None
    if not found:
        raise CliError(
            "there is no channel: write an address into a file, and name it as [notify] urls_file in "
            f"{instance.config} (docs/herald.md)"
        )
    for label, delivery in found.items():
        click.echo(f"{label}: {f'not sent: {delivery.error}' if delivery.error else 'sent'}")
    if any(delivery.error for delivery in found.values()):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _settings(instance: Instance, listen: str | None) -> Settings:
    from clew_shared.config.settings import HeraldSettings, SettingsError

    try:
        settings = instance.loaded.settings
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", ExitCode.CONFIGURATION) from None
    if listen is None:
        return settings
    try:
        return settings.model_copy(update={"herald": HeraldSettings(listen=listen)})
    except ValueError:
        raise CliError(
            f"--listen must be 127.0.0.1:PORT or [::1]:PORT, not {listen!r}", USAGE
        ) from None


def _hold_lock(held: ExitStack, path: Path) -> None:
    from clew_shared.ledger.lock import HERALD, LockError, acquire

    try:
        held.enter_context(acquire(path, role=HERALD))
    except LockError as error:
        raise CliError(str(error)) from None


def _open_book(held: ExitStack, path: Path) -> Book:
    from clew_daemon.herald.book import Book, BookError

    try:
        book = Book.open(path)
    except BookError as error:
        raise CliError(str(error)) from None
    held.callback(book.close)
    return book


def _run(
    instance: Instance, settings: Settings, book: Book, stop: threading.Event, held: ExitStack
) -> None:
    from clew_daemon.herald.channels import ChannelError, senders
    from clew_daemon.herald.endpoint import serve
    from clew_daemon.herald.folding import UnknownEventError
    from clew_daemon.herald.herald import Herald
    from clew_daemon.herald.server import PortTakenError
    from clew_daemon.logs import setup

    setup.configure(settings.log.model_copy(update={"file": None}))
    folder = instance.places.config.parent
    try:
        channels = senders(book, settings.notify, instance.env, folder)
    except ChannelError as error:
        raise CliError(str(error), ExitCode.CONFIGURATION) from None
    found = Herald(instance, book, settings.notify, channels)
    try:
        server = serve(settings.herald.listen, instance.ledger, book, found.alerts)
        held.callback(server.close)
    except PortTakenError as error:
        raise CliError(str(error)) from None
    try:
        found.run(stop)
    except UnknownEventError as error:  # a service manager starts the version that is installed now
        raise CliError(str(error)) from None
