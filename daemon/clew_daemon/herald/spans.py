"""A goal's trace, span by span as its events come, and a collector that takes spans (OpenTelemetry).

A span is complete when the event that ends it has come. Its ids are derived from the goal and the event that began it:
sent twice, it is the same span.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import requests
import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.re import parse_env_headers

from clew_daemon import VERSION
from clew_daemon.herald.channels import Book, Channel, batches
from clew_daemon.herald.notices import ChannelError, UndeliveredError
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.reader import Cursor, EventRow, Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.events import Event
from clew_shared.text.redact import hide

log = structlog.get_logger()

Attributes = Mapping[str, str | int | bool]

# Names of OpenTelemetry's GenAI conventions (open-telemetry/semantic-conventions-genai); they are still in development.
OPERATION = "gen_ai.operation.name"
WORKFLOW, AGENT, CHAT, TOOL = "invoke_workflow", "invoke_agent", "chat", "execute_tool"
AGENT_NAME = "gen_ai.agent.name"
ERROR = "error.type"
_PROVIDERS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
NS = 1e9
SCOPE = InstrumentationScope("clew", VERSION)
CLEW = Resource({"service.name": "clew", "service.version": VERSION})
RESOURCE = CLEW.merge(OTELResourceDetector().detect())
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Trace:
    """The open spans of a goal: its own and its epoch's by their operations, its actions' by their numbers."""

    def __init__(self, goal: str) -> None:
        self._goal = self._name = goal
        self._agent = ""
        self._number = 0  # of the epoch
        self.open: dict[str | int, ReadableSpan] = {}

    def advance(self, event: Event, seq: int) -> ReadableSpan | None:
        """Take the next event, and return the span that it completes."""
        key: str | int = seq
        error = ""
        given: Attributes = {}
        match event:
            case ev.GoalAccepted() | ev.GoalRequeued() if WORKFLOW not in self.open:
                named = event.spec.name if isinstance(event, ev.GoalAccepted) else self._name
                self._name = named or self._goal
                self._begin(WORKFLOW, self._name, event, seq)
            case ev.WorkerStarted():
                lost = self._end(AGENT, event.at, "lost")
                self._agent, self._number = event.agent or self._agent, event.epoch
                given = {AGENT_NAME: self._agent, "clew.epoch": event.epoch}
                self._begin(AGENT, self._agent, event, seq, given)
                return lost
            case ev.ActionAllowed() | ev.ActionBlocked():
                about: Attributes = {
                    "gen_ai.tool.name": event.tool,
                    "gen_ai.tool.call.id": str(seq),
                    "clew.attempt": event.attempt,
                    "clew.verdict": event.kind.removeprefix("action_"),
                }
                self._begin(TOOL, event.tool, event, seq, about)
                if isinstance(event, ev.ActionAllowed):
                    return None  # it has just begun
                error, given = "blocked", {"clew.reason": event.reason}
            case ev.Reflected() if event.llm_s or event.tokens:
                known = event.prompt.model if event.prompt else ""
                named, _, endpoint = known.rpartition("@")
                model = named or known
                about = {
                    "gen_ai.provider.name": _PROVIDERS.get(endpoint.partition(":")[0], "_OTHER"),
                    "gen_ai.request.model": model,
                    "gen_ai.response.model": event.prompt.served if event.prompt else "",
                    AGENT_NAME: self._agent,
                    "gen_ai.usage.input_tokens": event.tokens_in,
                    "gen_ai.usage.output_tokens": event.tokens_out,
                    "gen_ai.usage.cache_read.input_tokens": event.tokens_cached,
                    "clew.iteration": event.iteration,
                }
                self._begin(CHAT, model, event, seq, about)
            case ev.GoalEnded():
                key, error = WORKFLOW, "" if event.status == "completed" else event.status
                given = {"clew.status": event.status, "clew.verified": event.verified}
            case ev.WorkerExited() if event.epoch == self._number:
                key, error = AGENT, event.reason if event.crash else ""
                given = {"clew.reason": event.reason}
            case ev.ActionInterrupted():
                key, error, given = event.of, "interrupted", {"clew.reason": event.reason}
            case ev.ActionFinished():
                key, given = event.of, {"clew.result": event.result, "clew.world": event.world}
                error = "" if event.result == "success" else event.error_class or event.result
        return self._end(key, event.at, error, given)

    def _begin(
        self, operation: str, name: str, event: Event, seq: int, given: Attributes | None = None
    ) -> None:
        """Begin a span with an event; an LLM call began before it."""
        above = {WORKFLOW: (), AGENT: (WORKFLOW,)}.get(operation, (AGENT, WORKFLOW))
        parent = next((self.open[one].context for one in above if one in self.open), None)
        start = event.at - event.llm_s if isinstance(event, ev.Reflected) else event.at
        known = event.span if isinstance(event, ev.WorkerStarted) else ""
        span_id = int(known, 16) if known else _digest(f"{self._goal}\0{seq}\0{start!r}", 8)
        self.open[seq if operation in (CHAT, TOOL) else operation] = ReadableSpan(
            f"{operation} {name}".rstrip(),
            SpanContext(_digest(self._goal, 16), span_id, False, SAMPLED),
            parent,
            RESOURCE,
            {"gen_ai.conversation.id": self._goal, OPERATION: operation, **(given or {})},
            kind=SpanKind.CLIENT if operation == CHAT else SpanKind.INTERNAL,
            start_time=round(start * NS),
            instrumentation_scope=SCOPE,
        )

    def _end(
        self, key: str | int, at: float, error: str = "", more: Attributes | None = None
    ) -> ReadableSpan | None:
        """Complete an open span, with `error` "" if it ended well; None if it is not open."""
        if (begun := self.open.pop(key, None)) is None:
            return None
        given = {**(begun.attributes or {}), **(more or {}), ERROR: error}
        return ReadableSpan(
            begun.name,
            begun.context,
            begun.parent,
            RESOURCE,
            {name: value for name, value in given.items() if value != ""},
            kind=begun.kind,
            status=Status(StatusCode.ERROR, error) if error else Status(),
            start_time=begun.start_time,
            end_time=max(begun.start_time or 0, round(at * NS)),
            instrumentation_scope=SCOPE,
        )


def _digest(text: str, size: int) -> int:
    """Return an id: an event's time is in it, since a restored ledger gives its number to another event."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size])


# Statuses of refusals that end by themselves, or when a person corrects something at the collector.
PASSING = {401, 403, 404, 408, 429, *range(500, 600)}


class Traces(Channel):
    """Spans to an OpenTelemetry collector, which takes the same one twice; the environment says where it is."""

    def __init__(self, book: Book, ledger: Path, env: Mapping[str, str]) -> None:
        """Read the variables of OpenTelemetry; raises ChannelError."""
        prefix = "OTEL_EXPORTER_OTLP"
        address = env.get(f"{prefix}_TRACES_ENDPOINT") or env.get(f"{prefix}_ENDPOINT", "")
        url = urlsplit(address.strip())
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ChannelError(f"{prefix}_ENDPOINT must be an http:// or https:// address")
        for name in ("_HEADERS", "_TRACES_HEADERS"):
            hide(parse_env_headers(env.get(f"{prefix}{name}", ""), liberal=True).values())
        self._host = f"{url.hostname}:{url.port}" if url.port else url.hostname
        super().__init__("otlp", f"OTLP, {self._host}", book, ledger)
        self._traces: dict[str, Trace] = {}
        self._status = 0
        session = requests.Session()
        session.hooks["response"].append(self._answered)
        logging.getLogger("opentelemetry").disabled = True
        for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "urllib3"):
            logging.getLogger(name).disabled = True  # what they log may hold secrets
        self._exporter = OTLPSpanExporter(session=session)

    def _deliver(self, reader: Reader | None) -> None:
        if reader is None:
            return
        after = Cursor.parse(self.record.cursor or "0-")
        if not reader.holds(after.seq, after.hash):
            self._traces.clear()
            after = Cursor.at_end(reader)
        try:
            for rows, end in batches(reader, after):
                completed = (self._completed(reader, row) for row in rows if row.goal)
                spans = [span for span in completed if span]
                self._send(spans)
                self._move(end, delivered=bool(spans))
        except (UndeliveredError, LedgerError):
            self._traces.clear()  # they are ahead of the cursor
            raise

    def _completed(self, reader: Reader, row: EventRow) -> ReadableSpan | None:
        """Return the span that an event completes; what came before of its goal is read if it is not known."""
        trace = self._traces.get(row.goal)
        if trace is None:
            trace = self._traces[row.goal] = Trace(row.goal)
            for earlier in reader.read(row.goal):
                if earlier.seq >= row.seq:
                    break
                trace.advance(decode(earlier.body), earlier.seq)
        found = trace.advance(decode(row.body), row.seq)
        if not trace.open:
            del self._traces[row.goal]
        return found

    def _send(self, spans: Sequence[ReadableSpan]) -> None:
        """Send spans, none twice; those that the collector will never take are dropped. Raises UndeliveredError."""
        self._status = 0
        if not spans or self._exporter.export(spans) is SpanExportResult.SUCCESS:
            return
        status = self._status
        if not status or status in PASSING:
            raise UndeliveredError(f"HTTP {status}" if status else "no connection")
        log.error("spans.refused", channel=self._host, count=len(spans), reason=f"HTTP {status}")

    def _answered(self, answer: requests.Response, *_: object, **_kept: object) -> None:
        self._status = answer.status_code
