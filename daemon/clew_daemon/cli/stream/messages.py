"""What arrives on the stream of events, read from its lines; pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SILENT_S = 30.0
"""After this time without a line the daemon counts as gone: it sends one at least every 10 s."""

ANSWER_S = 5.0
"""How long the answer to `follow` may take; the ledger has the events in the meantime."""

LINE_BYTES_MAX = 64 << 20

RETRY_S, RETRY_MAX_S = 0.1, 5.0
"""The pause before another connection: the first one, and the longest one."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A durable event; `goal` is "" for the daemon's own, `body` its JSON, which `record.codec` decodes."""

    seq: int
    goal: str
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamBegin:
    """The stream begins, or begins again after an interruption.

    With `reset`, the earlier cursor is of another ledger, or events after it were purged. `goals` has the entries of
    `clew status --json` if the stream does not continue from an earlier cursor.
    """

    after: str
    reset: bool
    goals: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """Events in the order in which they were recorded; none while nothing happens. `after` is the cursor after them."""

    after: str
    events: tuple[StreamEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamGone:
    """The daemon cannot be followed for now; `refused` if one runs and refused it."""

    reason: str
    refused: bool = False


StreamNews = StreamBegin | StreamBatch | StreamGone


class StreamError(ValueError):
    """A line that is not of the stream."""


def follow_line(goal: str | None, after: str | None) -> bytes:
    """Return the request to follow, as it is sent."""
    params = {k: v for k, v in (("goal", goal), ("after", after)) if v is not None}
    request = {"jsonrpc": "2.0", "id": 1, "method": "follow", "params": params}
    return json.dumps(request).encode() + b"\n"


def read_line(line: bytes) -> StreamNews:
    """Return what a line says; raises StreamError."""
    try:
        return _news(json.loads(line))
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise StreamError(f"the daemon's answer cannot be read: {error}") from None


def _news(message: dict[str, Any]) -> StreamNews:
    if "error" in message:
        return StreamGone(str(message["error"]["message"]), refused=True)
    if "result" in message:
        result = message["result"]
        return StreamBegin(str(result["after"]), bool(result["reset"]), tuple(result["goals"]))
    params = message["params"]
    return StreamBatch(str(params["after"]), tuple(map(_event, params["events"])))


def _event(found: dict[str, Any]) -> StreamEvent:
    event = found["event"]
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    return StreamEvent(int(found["seq"]), str(found["goal"]), str(event["kind"]), body)
