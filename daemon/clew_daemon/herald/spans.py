"""A goal's trace, span by span as its events come, and a collector that takes spans (OpenTelemetry).

A span is complete when the event that ends it has come. Its ids are derived from the goal and the event that began it:
sent twice, it is the same span.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from clew_daemon.herald.notices import ChannelError, UndeliveredError
from clew_shared.record import events as ev
from clew_shared.record.events import Event
from clew_shared.text.redact import HIDDEN

log = structlog.get_logger()

Attributes = dict[str, str | int | bool]

# Names of OpenTelemetry's GenAI conventions (open-telemetry/semantic-conventions-genai); they are still in development.
OPERATION = "gen_ai.operation.name"
WORKFLOW, AGENT, CHAT, TOOL = "invoke_workflow", "invoke_agent", "chat", "execute_tool"
AGENT_NAME = "gen_ai.agent.name"
ERROR = "error.type"
_PROVIDERS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
NS = 1e9


@dataclass(slots=True)
class OpenSpan:
    """A span that has begun; `start` is in seconds since 1970."""

    name: str
    context: SpanContext
    parent: SpanContext | None
    start: float
    attributes: Attributes
    kind: SpanKind = SpanKind.INTERNAL

    def ended(self, at: float, error: str = "", more: Attributes | None = None) -> ReadableSpan:
        """Complete it, with `error` "" if it ended well."""
        given = self.attributes | (more or {}) | {ERROR: error}
        return ReadableSpan(
            self.name,
            self.context,
            self.parent,
            RESOURCE,
            {key: value for key, value in given.items() if value != ""},
            kind=self.kind,
            status=Status(StatusCode.ERROR, error) if error else Status(),
            start_time=round(self.start * NS),
            end_time=max(round(at * NS), round(self.start * NS)),
            instrumentation_scope=SCOPE,
        )


SCOPE = InstrumentationScope("clew", VERSION)
RESOURCE = Resource({"service.name": "clew", "service.version": VERSION}).merge(
    OTELResourceDetector().detect()
)


class Trace:
    """The open spans of a goal: its own, that of its epoch, and those of its actions by their numbers."""

    def __init__(self, goal: str) -> None:
        self._goal = goal
        self._name = goal
        self._agent = ""
        self._root: OpenSpan | None = None
        self._epoch: OpenSpan | None = None
        self._number = 0
        self.actions: dict[int, OpenSpan] = {}

    @property
    def is_closed(self) -> bool:
        """Whether no span is open."""
        return self._root is None and self._epoch is None and not self.actions

    def advance(self, event: Event, seq: int) -> ReadableSpan | None:
        """Take the next event, and return the span that it completes."""
        at = event.at
        match event:
            case ev.GoalAccepted():
                self._name = event.spec.name or self._goal
                self._root = self._begun(WORKFLOW, self._name, event, seq)
            case ev.GoalRequeued() if self._root is None:
                self._root = self._begun(WORKFLOW, self._name, event, seq)
            case ev.GoalEnded() if self._root is not None:
                root, self._root = self._root, None
                error: str = "" if event.status == "completed" else event.status
                given: Attributes = {"clew.status": event.status, "clew.verified": event.verified}
                return root.ended(at, error, given)
            case ev.WorkerStarted():
                before, self._agent = self._epoch, event.agent or self._agent
                self._number = event.epoch
                given = {AGENT_NAME: self._agent, "clew.epoch": event.epoch}
                self._epoch = self._begun(AGENT, self._agent, event, seq, given, span=event.span)
                return before.ended(at, "lost") if before else None
            case ev.WorkerExited() if self._epoch and event.epoch == self._number:
                epoch, self._epoch = self._epoch, None
                error = event.reason if event.crash else ""
                return epoch.ended(at, error, {"clew.reason": event.reason})
            case ev.Reflected() if event.llm_s or event.tokens:
                return self._called(event, seq)
            case _:
                return self._acted(event, seq)
        return None

    def _acted(self, event: Event, seq: int) -> ReadableSpan | None:
        match event:
            case ev.ActionAllowed():
                self.actions[seq] = self._judged(event, seq, "allowed")
            case ev.ActionBlocked():
                span = self._judged(event, seq, "blocked")
                return span.ended(event.at, "blocked", {"clew.reason": event.reason})
            case ev.ActionInterrupted() if found := self.actions.pop(event.of, None):
                return found.ended(event.at, "interrupted", {"clew.reason": event.reason})
            case ev.ActionFinished() if found := self.actions.pop(event.of, None):
                given: Attributes = {"clew.result": event.result, "clew.world": event.world}
                error = "" if event.result == "success" else event.error_class or event.result
                return found.ended(event.at, error, given)
        return None

    def _judged(
        self, event: ev.ActionAllowed | ev.ActionBlocked, seq: int, verdict: str
    ) -> OpenSpan:
        given: Attributes = {
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.call.id": str(seq),
            "clew.attempt": event.attempt,
            "clew.verdict": verdict,
        }
        return self._begun(TOOL, event.tool, event, seq, given)

    def _called(self, event: ev.Reflected, seq: int) -> ReadableSpan:
        known, served = (event.prompt.model, event.prompt.served) if event.prompt else ("", "")
        named, _, endpoint = known.rpartition("@")
        model = named or known
        given: Attributes = {
            "gen_ai.provider.name": _PROVIDERS.get(endpoint.partition(":")[0], "_OTHER"),
            "gen_ai.request.model": model,
            "gen_ai.response.model": served,
            AGENT_NAME: self._agent,
            "gen_ai.usage.input_tokens": event.tokens_in,
            "gen_ai.usage.output_tokens": event.tokens_out,
            "gen_ai.usage.cache_read.input_tokens": event.tokens_cached,
            "clew.iteration": event.iteration,
        }
        span = self._begun(CHAT, model, event, seq, given, at=event.at - event.llm_s)
        span.kind = SpanKind.CLIENT
        return span.ended(event.at)

    def _begun(
        self,
        operation: str,
        name: str,
        event: Event,
        seq: int,
        attributes: Attributes | None = None,
        *,
        at: float | None = None,
        span: str = "",
    ) -> OpenSpan:
        """Return a span that begins with an event; `at` is its start if that was earlier, `span` its id if known."""
        start = event.at if at is None else at
        parent = None if operation == WORKFLOW else self._root
        if operation in (CHAT, TOOL):
            parent = self._epoch or self._root
        span_id = int(span, 16) if span else _digest(f"{self._goal}\0{seq}\0{start!r}", 8)
        context = SpanContext(_digest(self._goal, 16), span_id, False, SAMPLED)
        given = {"gen_ai.conversation.id": self._goal, OPERATION: operation, **(attributes or {})}
        above = parent.context if parent else None
        return OpenSpan(f"{operation} {name}".rstrip(), context, above, start, given)


SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def _digest(text: str, size: int) -> int:
    """Return an id: an event's time is in it, since a restored ledger gives its number to another event."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size])


PASSING = {401, 403, 404, 408, 429, *range(500, 600)}
"""Statuses of refusals that end by themselves, or when a person corrects something at the collector."""


class Collector:
    """Where the environment says that spans go, by the variables of OpenTelemetry; raises ChannelError."""

    def __init__(self, env: Mapping[str, str]) -> None:
        prefix = "OTEL_EXPORTER_OTLP"
        address = env.get(f"{prefix}_TRACES_ENDPOINT") or env.get(f"{prefix}_ENDPOINT", "")
        url = urlsplit(address.strip())
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ChannelError(f"{prefix}_ENDPOINT must be an http:// or https:// address")
        for name in ("_HEADERS", "_TRACES_HEADERS"):
            HIDDEN.hide(parse_env_headers(env.get(f"{prefix}{name}", ""), liberal=True).values())
        self.label = f"{url.hostname}:{url.port}" if url.port else url.hostname
        self._status = 0
        session = requests.Session()
        session.hooks["response"].append(self._answered)
        logging.getLogger("opentelemetry").disabled = True
        for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "urllib3"):
            logging.getLogger(name).disabled = True  # what they log may hold secrets
        self._exporter = OTLPSpanExporter(session=session)

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Send spans, none twice; those that the collector will never take are dropped. Raises UndeliveredError."""
        self._status = 0
        if not spans or self._exporter.export(spans) is SpanExportResult.SUCCESS:
            return
        status = self._status
        if not status or status in PASSING:
            raise UndeliveredError(f"HTTP {status}" if status else "no connection")
        log.error("spans.refused", channel=self.label, count=len(spans), reason=f"HTTP {status}")

    def _answered(self, answer: requests.Response, *_: object, **_kept: object) -> None:
        self._status = answer.status_code
