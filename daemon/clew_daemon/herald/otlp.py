"""Sending spans to a collector, by OTLP over HTTP (protobuf)."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from clew_daemon import VERSION
from clew_daemon.herald.senders import ChannelError, UndeliveredError
from clew_daemon.herald.spans import attribute

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
