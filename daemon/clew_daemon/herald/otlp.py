"""Sends spans to a collector by OTLP over HTTP, in a thread."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import apsw
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from clew_daemon import VERSION
from clew_daemon.herald.spans import TraceSpan, Value
from clew_daemon.herald.spools import BACKOFF_MAX_S, BACKOFF_S, SpanSpool
from clew_shared.backoff import backoff_s

log = structlog.get_logger()

COLLECT_S = 0.5
"""How long spans are collected before they are sent together."""


class Tracer:
    """Sends spans to one collector."""

    def __init__(self, spool: SpanSpool, target: OtlpTarget) -> None:
        self._spool = spool
        self._target = target
        self._wake = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)

    def begin(self) -> None:
        """Start sending."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Look into the spool: there may be something new."""
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            time.sleep(COLLECT_S)
            self._wake.clear()
            try:
                while self._send():
                    pass
            except apsw.Error as error:
                self._failures += 1
                log.error("spans.held", reason=str(error))  # noqa: TRY400 - a reason
            if self._failures:
                time.sleep(backoff_s(self._failures - 1, BACKOFF_S, BACKOFF_MAX_S))
                self._wake.set()

    def _send(self) -> bool:
        """Send the next spans; return whether there may be more."""
        last, spans = self._spool.first()
        if not spans:
            return False
        answer = post(self._target, spans)
        if answer.error and not answer.final:
            self._failures += 1
            self._spool.failed(time.time(), answer.error)
            if self._failures == 1:
                log.warning("spans.failed", endpoint=self._target.label, reason=answer.error)
            return False
        self._failures = 0
        if answer.final:
            self._spool.refused(last, spans, time.time(), answer.error)
            log.error("spans.refused", endpoint=self._target.label, reason=answer.error)
        else:
            self._spool.sent(last)
        return True


POST_S = 10.0
ANSWER_BYTES_MAX = 1 << 16
RETRIED = frozenset((401, 403, 404, 408, 429, 502, 503, 504))
"""By the specification 429, 502, 503 and 504; and what a person may correct at the collector."""


class OtlpError(Exception):
    """The environment names no endpoint that can be used."""


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


@dataclass(frozen=True, slots=True)
class OtlpAnswer:
    """The outcome of a try: `error` is "" if the spans were taken; `final`: they never will be."""

    error: str = ""
    final: bool = False


def target_of(env: Mapping[str, str]) -> OtlpTarget | None:
    """Return where the environment says that spans go, None if it names no endpoint; raises OtlpError."""
    base = env.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    url = env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if not url and base:
        url = f"{base.rstrip('/')}/v1/traces"
    if not url:
        return None
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise OtlpError("OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// address")
    headers = _pairs(env.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
    headers |= _pairs(env.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS", ""))
    resource = {"service.name": "clew", "service.version": VERSION}
    resource |= _pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if name := env.get("OTEL_SERVICE_NAME"):
        resource["service.name"] = name
    return OtlpTarget(url, headers, resource)


def post(target: OtlpTarget, spans: Sequence[TraceSpan]) -> OtlpAnswer:
    """Send spans, and return whether the collector took them."""
    headers = {"Content-Type": "application/x-protobuf", **target.headers}
    body = encoded(target.resource, spans)
    request = urllib.request.Request(target.url, body, headers)  # noqa: S310 - http or https
    try:
        with urllib.request.urlopen(request, timeout=POST_S) as answer:  # noqa: S310
            answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        error.close()
        return OtlpAnswer(f"HTTP {error.code}", final=error.code not in RETRIED)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return OtlpAnswer(f"no connection: {type(reason).__name__}")
    return OtlpAnswer()


def encoded(resource: Mapping[str, str], spans: Sequence[TraceSpan]) -> bytes:
    """Return a request to export spans, in protobuf."""
    scope = ScopeSpans(
        scope=InstrumentationScope(name="clew", version=VERSION),
        spans=[_proto(span) for span in spans],
    )
    source = Resource(attributes=_attributes(resource))
    request = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=source, scope_spans=[scope])]
    )
    return bytes(request.SerializeToString())


def _proto(span: TraceSpan) -> ProtoSpan:
    failed = Status(code=Status.STATUS_CODE_ERROR, message=span.error)
    return ProtoSpan(
        trace_id=bytes.fromhex(span.trace),
        span_id=bytes.fromhex(span.id),
        parent_span_id=bytes.fromhex(span.parent),
        name=span.name,
        kind=ProtoSpan.SPAN_KIND_CLIENT if span.is_call else ProtoSpan.SPAN_KIND_INTERNAL,
        start_time_unix_nano=round(span.start * 1e9),
        end_time_unix_nano=round(span.end * 1e9),
        attributes=_attributes(span.attributes),
        status=failed if span.error else Status(),
    )


def _attributes(values: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any(value)) for key, value in sorted(values.items())]


def _any(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=value)


def _pairs(text: str) -> dict[str, str]:
    """Return `a=b,c=d` as a dict; values may be percent-encoded."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
