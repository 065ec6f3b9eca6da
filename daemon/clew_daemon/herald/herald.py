"""The life of `clew herald`: what is recorded is counted, served as metrics, and wakes the channels.

Counters only ever grow, whatever is purged from the ledger.
"""

import json
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from itertools import accumulate
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import structlog
from prometheus_client import CollectorRegistry, core, generate_latest, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from clew_daemon import VERSION
from clew_daemon.herald.channels import Book, Channel, Messages, batches, opened
from clew_daemon.herald.notices import ChannelError, Situation, senders
from clew_daemon.ledger.lock import HERALD, LockError, acquire
from clew_daemon.logs import setup
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.record.goal_status import needs_person
from clew_shared.config.tables import NotifySettings, Settings
from clew_shared.ledger.errors import LedgerCorrupt, LedgerError
from clew_shared.ledger.reader import Cursor, EventRow, Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.events import Event
from clew_shared.record.model import GoalStatus

log = structlog.get_logger()

BOOK, LOCK = "herald.json", "herald.lock"
POLL_S, ASK_S, TROUBLE_S = 0.5, 5.0, 5.0


ACTIONS, REFUSALS = "clew_actions", "clew_refusals"
RESTARTS, INTERVENTIONS = "clew_worker_restarts", "clew_interventions"
CHECKS, TOKENS, PROOFS = "clew_checks", "clew_llm_tokens", "clew_proofs"
COUNTERS = {
    ACTIONS: ("Actions that agents proposed, when they ended or were refused.", "verdict result"),
    REFUSALS: ("Actions that the gate refused.", "reason"),
    INTERVENTIONS: ("Times that an agent was told that it gets no further.", "kind"),
    RESTARTS: ("Workers that died.", "reason"),
    PROOFS: ("Finishes whose checks passed, by what the proof says of them.", "label"),
    CHECKS: ("Checks that the daemon ran.", "result"),
    TOKENS: ("Tokens that LLMs read and wrote.", "direction agent"),
}
Series = tuple[str, ...]  # a counter's name, and the values of its labels


def counted(event: Event, agent: str) -> Iterator[tuple[Series, int]]:
    """Yield what an event of a goal that `agent` works on adds to which counters."""
    match event:
        case ev.ActionFinished():
            yield (ACTIONS, "allowed", event.result), 1
        case ev.ActionInterrupted():
            yield (ACTIONS, "allowed", "interrupted"), 1
        case ev.ActionBlocked():
            yield (ACTIONS, "blocked", "blocked"), 1
            yield (REFUSALS, event.reason), 1
        case ev.Intervened():
            yield (INTERVENTIONS, event.intervention), 1
        case ev.WorkerExited(crash=True):
            yield (RESTARTS, event.reason), 1
        case ev.CheckFinished():
            yield (CHECKS, "passed" if event.passed else "failed"), 1
        case ev.ProofMade():
            yield (PROOFS, event.label), 1
        case ev.Reflected(tokens_in=0, tokens_out=0):  # an agent that reports a sum only
            yield (TOKENS, "unknown", agent), event.tokens
        case ev.Reflected():
            yield (TOKENS, "input", agent), event.tokens_in
            yield (TOKENS, "output", agent), event.tokens_out


class Metrics(Collector):
    """What the metrics show: the situation, and the counters of the book, which grow with what is recorded."""

    def __init__(self, book: Book, situation: Situation) -> None:
        self._book, self._situation = book, situation
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    @property
    def values(self) -> dict[Series, int]:
        """The counters that are not 0."""
        return {tuple(json.loads(name)): n for name, n in self._book.contents.counters.items()}

    def take(self, rows: Iterable[EventRow], after: Cursor) -> None:
        """Count events, up to the cursor behind them."""
        counters, agents = Counter(self._book.contents.counters), dict(self._book.contents.agents)
        for goal, event in ((row.goal, decode(row.body)) for row in rows if row.goal):
            if isinstance(event, ev.WorkerStarted) and event.agent:
                agents[goal] = event.agent
            elif isinstance(event, ev.GoalEnded):
                agents.pop(goal, None)
            for series, count in counted(event, agents.get(goal, "")):
                counters[json.dumps(series)] += count
        with self._book.changing(at_once=False) as contents:
            contents.counted, contents.agents = str(after), agents
            contents.counters = dict(+counters)

    def collect(self) -> Iterator[Metric]:
        goals, health = list(self._situation.goals.values()), self._situation.health
        yield core.InfoMetricFamily("clew_build", "The version of clew.", {"version": VERSION})
        statuses = core.GaugeMetricFamily("clew_goals", "Goals on record.", labels=["status"])
        counts = Counter(str(state.goal.status) for state in goals)
        for status in GoalStatus:
            statuses.add_metric([status], counts[status])
        yield statuses
        needing = sum(map(needs_person, goals))
        yield core.GaugeMetricFamily("clew_needs_person", "Goals that wait for a person.", needing)
        values = sorted(self.values.items())
        for name, (text, labels) in COUNTERS.items():
            family = core.CounterMetricFamily(name, text, labels=labels.split())
            for series, count in values:
                if series[0] == name:
                    family.add_metric(series[1:], count)
            yield family
        up = int(health is not None)
        yield core.GaugeMetricFamily("clew_daemon_up", "Whether the daemon answers.", up)
        if health is not None:
            commits = health["commits"]
            bounds = [*map(str, commits["bounds_s"]), "+Inf"]
            yield core.HistogramMetricFamily(
                "clew_ledger_commit_seconds",
                "How long the daemon's commits to the ledger took.",
                list(zip(bounds, accumulate(commits["counts"]), strict=True)),
                commits["sum_s"],
            )


REQUEST_S = 5.0  # for a client's request, and to read the answer


class MetricsServer:
    """Serves in threads; `unready` returns why the ledger does not answer, "" if it does. Raises CliError."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, unready: Callable[[], str]
    ) -> None:
        self._metrics = make_wsgi_app(registry, disable_compression=True)
        self._unready = unready
        kind = _Server6 if ":" in host else _Server
        try:
            self._server = make_server(host, port, self._app, kind, _Handler)
        except OSError as error:
            raise CliError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.port = int(self._server.server_port)
        shown = f"[{host}]" if ":" in host else host
        self._hosts = {f"{name}:{self.port}" for name in (shown, "localhost")}
        serve = self._server.serve_forever
        threading.Thread(target=serve, name="metrics", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _app(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path, status, text = environ["PATH_INFO"], HTTPStatus.OK, "ok"
        if environ.get("HTTP_HOST", "").lower() not in self._hosts:
            status, text = HTTPStatus.MISDIRECTED_REQUEST, "this host name is not served"
        elif environ["REQUEST_METHOD"] != "GET":
            status, text = HTTPStatus.NOT_IMPLEMENTED, "GET alone"
        elif path == "/metrics":
            return cast("Iterable[bytes]", self._metrics(environ, start))
        elif path == "/readyz" and (why := self._unready()):
            status, text = HTTPStatus.SERVICE_UNAVAILABLE, why
        elif path not in ("/healthz", "/readyz"):
            status, text = HTTPStatus.NOT_FOUND, "/metrics, /healthz, /readyz"
        start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log no error: a client went away."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_S
    server_version, sys_version = "clew", ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Log no requests."""


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
                package = "opentelemetry-exporter-otlp-proto-http"
                why = f"traces need one more package: {sys.executable} -m pip install {package}"
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
