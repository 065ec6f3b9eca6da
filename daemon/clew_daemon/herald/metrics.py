"""The metrics: counters as a fold of events, what Prometheus reads, and the loopback address that serves it.

Counters only ever grow, whatever is purged from the ledger.
"""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from itertools import accumulate
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, core, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from clew_daemon import VERSION
from clew_daemon.herald.channels import Book
from clew_daemon.herald.notices import DaemonHealth, Situation
from clew_daemon.reading.errors import CliError
from clew_shared.ledger.reader import Cursor, EventRow
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.events import Event
from clew_shared.record.model import GoalStatus
from clew_shared.views.publish import needs_person

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
            yield _commits(health)


def _commits(health: DaemonHealth) -> Metric:
    name, text = "clew_ledger_commit_seconds", "How long the daemon's commits to the ledger took."
    bounds = [*map(str, health.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(health.counts), strict=True))
    return core.HistogramMetricFamily(name, text, buckets, health.sum_s)


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
