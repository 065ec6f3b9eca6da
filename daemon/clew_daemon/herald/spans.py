"""A goal's trace, span by span as its events come, and sending spans to a collector by OTLP over HTTP (protobuf).

A span is complete when the event that ends it has come. Its ids are derived from the goal and the event that began it:
sent twice, it is the same span.
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from clew_daemon import VERSION
from clew_daemon.herald.senders import ChannelError, UndeliveredError
from clew_shared.record import events as ev
from clew_shared.record.events import Event

Attributes = dict[str, str | int | bool]

# Names of OpenTelemetry's GenAI conventions (open-telemetry/semantic-conventions-genai); they are still in development.
OPERATION = "gen_ai.operation.name"
WORKFLOW, AGENT, CHAT, TOOL = "invoke_workflow", "invoke_agent", "chat", "execute_tool"
AGENT_NAME = "gen_ai.agent.name"
ERROR = "error.type"
_PROVIDERS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
NS = 1e9


class Trace:
    """The open spans of a goal: its own, that of its epoch, and those of its actions by their numbers."""

    def __init__(self, goal: str) -> None:
        self._goal = goal
        self._name = goal
        self._agent = ""
        self._root: Span | None = None
        self._epoch: Span | None = None
        self._number = 0
        self.actions: dict[int, Span] = {}

    @property
    def is_closed(self) -> bool:
        """Whether no span is open."""
        return self._root is None and self._epoch is None and not self.actions

    def advance(self, event: Event, seq: int) -> list[Span]:
        """Take the next event, and return the spans that it completes."""
        match event:
            case ev.ActionAllowed() | ev.ActionBlocked():
                found = self._judged(event, seq)
            case ev.ActionFinished() | ev.ActionInterrupted():
                found = self._acted(event)
            case ev.WorkerStarted() | ev.WorkerExited():
                found = self._worked(event, seq)
            case ev.Reflected() if event.llm_s or event.tokens:
                found = self._called(event, seq)
            case _:
                found = self._goal_event(event, seq)
        return [] if found is None else [found]

    def _goal_event(self, event: Event, seq: int) -> Span | None:
        root = self._root
        if isinstance(event, ev.GoalAccepted):
            self._name = event.spec.name or self._goal
            self._root = self._begun(WORKFLOW, self._name, event, seq, {})
        elif isinstance(event, ev.GoalRequeued) and root is None:
            self._root = self._begun(WORKFLOW, self._name, event, seq, {})
        elif isinstance(event, ev.GoalEnded) and root is not None:
            self._root = None
            error = "" if event.status == "completed" else event.status
            ended: Attributes = {"clew.status": event.status, "clew.verified": event.verified}
            return _ended(root, event, error, ended)
        return None

    def _worked(self, event: ev.WorkerStarted | ev.WorkerExited, seq: int) -> Span | None:
        before, epoch = self._epoch, event.epoch
        if isinstance(event, ev.WorkerExited):
            if before is None or epoch != self._number:
                return None
            self._epoch = None
            error = event.reason if event.crash else ""
            return _ended(before, event, error, {"clew.reason": event.reason})
        self._agent, self._number = event.agent or self._agent, epoch
        given: Attributes = {AGENT_NAME: self._agent, "clew.epoch": epoch}
        self._epoch = self._begun(AGENT, self._agent, event, seq, given)
        if event.span:
            self._epoch.span_id = bytes.fromhex(event.span)
        return before and _ended(before, event, "lost")

    def _acted(self, event: ev.ActionFinished | ev.ActionInterrupted) -> Span | None:
        span = self.actions.pop(event.of, None)
        if span is None:
            return None
        if isinstance(event, ev.ActionInterrupted):
            return _ended(span, event, "interrupted", {"clew.reason": event.reason})
        given: Attributes = {"clew.result": event.result, "clew.world": event.world}
        error = "" if event.result == "success" else event.error_class or event.result
        return _ended(span, event, error, given)

    def _judged(self, event: ev.ActionAllowed | ev.ActionBlocked, seq: int) -> Span | None:
        given: Attributes = {
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.call.id": str(seq),
            "clew.attempt": event.attempt,
            "clew.verdict": "allowed" if isinstance(event, ev.ActionAllowed) else "blocked",
        }
        span = self._begun(TOOL, event.tool, event, seq, given)
        if isinstance(event, ev.ActionBlocked):
            return _ended(span, event, "blocked", {"clew.reason": event.reason})
        self.actions[seq] = span
        return None

    def _called(self, event: ev.Reflected, seq: int) -> Span:
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
        span.kind = Span.SPAN_KIND_CLIENT
        return _ended(span, event)

    def _begun(
        self,
        operation: str,
        name: str,
        event: Event,
        seq: int,
        attributes: Attributes,
        *,
        at: float | None = None,
    ) -> Span:
        """Return a span that begins with an event; `at` is its start if that was earlier."""
        start = event.at if at is None else at
        parent = None if operation == WORKFLOW else self._root
        if operation in (CHAT, TOOL):
            parent = self._epoch or self._root
        span = Span(
            trace_id=_digest(self._goal, 16),
            span_id=_digest(f"{self._goal}\0{seq}\0{start!r}", 8),
            parent_span_id=parent.span_id if parent else b"",
            name=f"{operation} {name}".rstrip(),
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=round(start * NS),
        )
        given = {"gen_ai.conversation.id": self._goal, OPERATION: operation, **attributes}
        span.attributes.extend(attribute(key, value) for key, value in given.items() if value != "")
        return span


def attribute(key: str, value: str | bool | int) -> KeyValue:
    """Return an attribute of a span or of what describes clew."""
    if isinstance(value, bool):
        return KeyValue(key=key, value=AnyValue(bool_value=value))
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _ended(span: Span, event: Event, error: str = "", attributes: Attributes | None = None) -> Span:
    """Complete a span, with `error` "" if it ended well."""
    span.end_time_unix_nano = max(round(event.at * NS), span.start_time_unix_nano)
    given: Attributes = {**(attributes or {}), ERROR: error}
    span.attributes.extend(attribute(key, value) for key, value in given.items() if value != "")
    if error:
        span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=error))
    return span


def _digest(text: str, size: int) -> bytes:
    """Return an id: an event's time is in it, since a restored ledger gives its number to another event."""
    return hashlib.sha256(text.encode()).digest()[:size]


POST_S = 10.0
ANSWER_BYTES_MAX = 1 << 16
RETRIED = frozenset((401, 403, 404, 408, 429, 502, 503, 504))
"""By the specification 429, 502, 503 and 504; and what a person may correct at the collector."""


class RefusedError(Exception):
    """The collector will never take these spans."""


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """Where spans are sent, with the headers (secret) and what describes this clew."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    resource: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What people may see of it."""
        found = urlsplit(self.url)
        return f"{found.hostname}:{found.port}" if found.port else str(found.hostname)


def target_of(env: Mapping[str, str]) -> OtlpTarget | None:
    """Return where the environment says that spans go, None if it names no endpoint; raises ChannelError."""
    base = env.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    url = env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if not url and base:
        url = f"{base.rstrip('/')}/v1/traces"
    if not url:
        return None
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ChannelError("OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// address")
    headers = _pairs(env.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
    headers |= _pairs(env.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS", ""))
    resource = {"service.name": "clew", "service.version": VERSION}
    resource |= _pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if name := env.get("OTEL_SERVICE_NAME"):
        resource["service.name"] = name
    return OtlpTarget(url, headers, resource)


def post(target: OtlpTarget, spans: Sequence[Span]) -> None:
    """Send spans; raises UndeliveredError if the collector may take them later, RefusedError if it never will."""
    headers = {"Content-Type": "application/x-protobuf", **target.headers}
    request = urllib.request.Request(target.url, _encoded(target.resource, spans), headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=POST_S) as answer:  # noqa: S310 - http or https
            answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        error.close()
        kind = UndeliveredError if error.code in RETRIED else RefusedError
        raise kind(f"HTTP {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UndeliveredError(f"no connection: {type(reason).__name__}") from None


def _encoded(resource: Mapping[str, str], spans: Sequence[Span]) -> bytes:
    scope = InstrumentationScope(name="clew", version=VERSION)
    source = Resource(attributes=[attribute(key, value) for key, value in resource.items()])
    sent = ResourceSpans(resource=source, scope_spans=[ScopeSpans(scope=scope, spans=spans)])
    return bytes(ExportTraceServiceRequest(resource_spans=[sent]).SerializeToString())


def _pairs(text: str) -> dict[str, str]:
    """Return `a=b,c=d` as a dict; values may be percent-encoded."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
