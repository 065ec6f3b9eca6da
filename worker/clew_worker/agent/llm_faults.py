"""The four ways in which an endpoint can fail, each with a sentence that can be shown anywhere."""

import contextlib
import errno
import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx2

from clew_shared.text.shorten import one_line
from clew_shared.wire.hello import AgentOptions
from clew_worker.agent.client import RETRY_AFTER_MAX_S, CannotContinue

_ERROR_CHARS = 500
_OVERFLOW = re.compile(
    r"context.{0,20}(length|size|window)|maximum context|too many tokens|prompt is too long"
    r"|exceeds? the (available )?context|input is too long|reduce the length",
    re.IGNORECASE,
)
_MODEL_UNKNOWN = re.compile(
    r"model.{0,80}(not found|does not exist|not exist|invalid|unknown|no such)"
    r"|(invalid|unknown|no such|not a valid).{0,20}model|try pulling it",
    re.IGNORECASE | re.DOTALL,
)
_UNSUPPORTED = re.compile(
    r"(does|do) not support (tools|function)|tools? param requires|unsupported.{0,20}tool",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient_quota|billing|credit balance", re.IGNORECASE)
_REFUSALS = (400, 404, 413, 415, 422)


class LlmError(CannotContinue):
    """A fault of the endpoint, in a sentence that can be shown anywhere."""

    kind: Literal["temporary", "configuration"] = "configuration"

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in reason)
        super().__init__(self.kind, shown, retry_after_s)


class Temporary(LlmError):
    """A fault that may pass; `retry_after_s` if the server named a time, `in_place` if a short pause may help."""

    kind = "temporary"

    def __init__(
        self, reason: str, retry_after_s: float | None = None, *, in_place: bool = True
    ) -> None:
        super().__init__(reason, retry_after_s)
        self.in_place = in_place


class Misconfigured(LlmError):
    """A fault that a person must fix: key, model or address."""


class Overflow(LlmError):
    """The prompt is too long for the model."""


class Unsupported(LlmError):
    """The server refused the request as it was (400, 422): tools or a response format, perhaps."""


def connection_fault(error: BaseException, agent: AgentOptions, connect_s: float) -> Temporary:
    """Return why there is no answer: no connection, none in time, or a broken one."""
    lasting = True
    match error:
        case httpx2.ConnectTimeout():
            reason = f"no connection within {connect_s:g} s"
        case httpx2.ConnectError():
            reason = _unreachable(error)
        case TimeoutError() | httpx2.TimeoutException():
            reason = f"no answer within {agent.timeout_s:g} s (`timeout_s`)"
        case _:
            reason, lasting = str(error) or type(error).__name__, False
    return Temporary(f"{agent.base_url}: {reason}", in_place=not lasting)


def _unreachable(error: BaseException) -> str:
    """Return the reason for a failed connection as the system names it."""
    found: list[BaseException] = [error]
    for one in found:  # grows in the loop; a name with several addresses has an error for each
        if isinstance(one, OSError) and one.errno is not None:
            text = one.strerror or str(one)
            return "connection refused" if one.errno == errno.ECONNREFUSED else text
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        found += [e for e in (*inner, one.__cause__ or one.__context__) if e and e not in found]
    return str(error) or type(error).__name__


def status_fault(
    status: int, headers: Mapping[str, str], body: bytes, agent: AgentOptions
) -> LlmError:
    """Return the fault that an error status stands for, with the server's own message from the `body`."""
    message = _server_message(body)
    reason = f"{agent.base_url} answered {status}: {message}"
    if status in _REFUSALS and _OVERFLOW.search(message):
        return Overflow(reason)
    if advice := _advice(status, message, agent.model):
        return Misconfigured(f"{reason}. {advice}")
    if status in _REFUSALS or _UNSUPPORTED.search(message):
        return Unsupported(reason)
    return Temporary(reason, _retry_after_s(headers))


def _advice(status: int, message: str, model: str) -> str:
    """Return what a person must fix; "" for nothing."""
    if status in (401, 403):
        return "Check the key: `api_key_env` or `api_key_file` of the agent"
    if status in (400, 404, 422) and _MODEL_UNKNOWN.search(message):
        return f"Check `model` ({model}) of the agent"
    if 300 <= status < 400 or status in (404, 405):
        return "Check `base_url` of the agent; most end in /v1"
    if status == 402 or (status == 429 and _QUOTA.search(message)):
        return "The account's quota is used up"
    return ""


def _server_message(body: bytes) -> str:
    """Return the server's own message in an error, with its code."""
    text = body.decode("utf-8", "replace").strip()
    found: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
    if isinstance(found, dict):
        found = found.get("error", found)
    fields = found if isinstance(found, dict) else {"message": found}
    message = fields.get("message") or fields.get("detail")
    if not (isinstance(message, str) and message.strip()):
        message = text or "nothing"
    code = str(fields.get("code") or "")
    return one_line(message)[:_ERROR_CHARS] + (f" ({code})" if code not in message else "")


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the server's own retry time: seconds, milliseconds (`retry-after-ms`), or a date.

    One that is too late is ignored: the usual back-off applies.
    """
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after", "")
    wait_s = math.inf
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        wait_s = parsedate_to_datetime(value).timestamp() - time.time()
    with contextlib.suppress(ValueError):
        wait_s = float(milliseconds) / 1000 if milliseconds else float(value)
    return max(wait_s, 0.0) if wait_s <= RETRY_AFTER_MAX_S else None
