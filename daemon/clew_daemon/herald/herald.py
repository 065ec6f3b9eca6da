"""The life of `clew herald`: events are counted as they are recorded, and wake the channels, until it is stopped."""

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

import click
import structlog
from prometheus_client import generate_latest

from clew_daemon.herald.channels import Book, Channel, Messages, batches, opened
from clew_daemon.herald.metrics import Metrics, MetricsServer
from clew_daemon.herald.notices import ChannelError, Notice, Situation, UndeliveredError, senders
from clew_daemon.host.own_process import pip
from clew_daemon.logs import setup
from clew_daemon.reading.errors import CliError, print_error
from clew_daemon.reading.instance import Instance
from clew_shared.config.tables import NotifySettings, Settings
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger.errors import LedgerCorrupt, LedgerError
from clew_shared.ledger.lock import HERALD, LockError, acquire
from clew_shared.ledger.reader import Cursor, Reader

log = structlog.get_logger()

BOOK, LOCK = "herald.json", "herald.lock"
POLL_S, ASK_S, TROUBLE_S = 0.5, 5.0, 5.0


class Herald:
    """Follows the ledger; `book` has how far each part of it has got."""

    def __init__(self, instance: Instance, book: Book) -> None:
        self._ledger, self._book = instance.ledger, book
        self._situation = Situation(instance)
        self._is_loaded = False
        self._asked_at = float("-inf")
        self.metrics = Metrics(book, self._situation)

    def channels(self, instance: Instance, notify: NotifySettings) -> list[Channel]:
        """Return the channels of the config and the environment; raises ChannelError."""
        found: list[Channel] = [
            Messages(one, self._book, self._ledger, notify, self._situation)
            for one in senders(notify, instance.env, instance.places.config.parent)
        ]
        if any(instance.env.get(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT") for name in ("", "TRACES_")):
            try:
                from clew_daemon.herald.spans import Traces
            except ImportError:
                why = f"traces need one more package: {pip('install', 'opentelemetry-exporter-otlp-proto-http')}"
                raise ChannelError(why) from None
            found.append(Traces(self._book, self._ledger, instance.env))
        with self._book.changing() as known:
            keys = {channel.key for channel in found}
            known.channels = {key: one for key, one in known.channels.items() if key in keys}
        return found

    def run(self, channels: Sequence[Channel], stop: threading.Event) -> None:
        """Work until `stop` is set; raises UnknownEventError, with which the channels wait for another version."""
        begun, trouble = False, ""
        while not stop.is_set():
            before, trouble, news = trouble, "", True
            try:
                news = self.look()
            except LedgerError as error:
                trouble = str(error)
                if trouble != before:
                    log.error("herald.held", reason=trouble)  # noqa: TRY400 - a reason
            for channel in channels:
                if not begun:
                    channel.begin()
                elif news:
                    channel.wake()
            begun = True
            stop.wait(TROUBLE_S if trouble else POLL_S)
        with self._book.changing():
            pass  # it has what was counted last

    def unready(self) -> str:
        """Return why the ledger does not answer, "" if it does; one that does not exist yet has no goals."""
        try:
            with opened(self._ledger) as reader:
                if reader is not None:
                    reader.last_seq()
        except LedgerError as error:
            return str(error)
        return ""

    def look(self) -> bool:
        """Take what is new; return whether anything is. Raises LedgerError, UnknownEventError."""
        with opened(self._ledger) as reader:
            news = reader is not None and self._take(reader)
        now = time.monotonic()
        if now - self._asked_at > ASK_S:
            self._situation.ask(time.time())
            self._asked_at = time.monotonic()
        before = self._situation.conditions
        self._situation.look(time.time())
        return news or self._situation.conditions != before

    def _take(self, reader: Reader) -> bool:
        """Count what was recorded since; of another ledger than before nothing that is in it now."""
        after = Cursor.parse(self._book.contents.counted or "0-")
        if not reader.holds(after.seq, after.hash):
            after, self._is_loaded = Cursor.at_end(reader), False
            with self._book.changing(at_once=False) as contents:
                contents.counted, contents.agents = str(after), {}
        news = not self._is_loaded
        try:
            for rows, end in batches(reader, after):
                news = True
                self.metrics.take(rows, end)
                if self._is_loaded:
                    self._situation.advance(reader, rows)
        except LedgerError as error:
            # what was counted is seen at the next look, unless the ledger is damaged
            self._is_loaded &= isinstance(error, LedgerCorrupt)
            raise
        if not self._is_loaded:
            self._situation.load(reader)
            self._is_loaded = True
        return news


def metrics_now(instance: Instance) -> str:
    """Return the metrics as they are served; raises CliError."""
    try:
        found = Herald(instance, Book(instance.places.state / BOOK))
        found.look()
    except LedgerError as error:
        raise CliError(str(error)) from None
    return generate_latest(found.metrics.registry).decode()


def try_channels(instance: Instance, settings: Settings) -> None:
    """Send one message to each channel of [notify], and say what came of it; raises ChannelError."""
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


def serve(instance: Instance, settings: Settings) -> None:
    """Serve metrics, and send traces and messages, until a signal; raises ChannelError, CliError."""
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
        except LockError as error:
            raise CliError(str(error)) from None
        found = Herald(instance, Book(state / BOOK))
        channels, registry = found.channels(instance, settings.notify), found.metrics.registry
        server = MetricsServer(host.strip("[]"), int(port), registry, found.unready)
        held.callback(server.close)
        log.info("herald.ready", metrics=f"http://{host}:{server.port}/metrics")
        # after its error a service manager starts the version that is installed now
        found.run(channels, stop)
