"""A client of one OpenAI-compatible endpoint: each request gives a completion or one of four errors."""

import asyncio
import contextlib
import errno
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx2

from clew_shared.record.spec import SERVED_CHARS_MAX
from clew_shared.text.shorten import one_line
from clew_shared.wire.hello import AgentOptions
from clew_shared.wire.protocol import Usage
from clew_worker.agent.client import RETRY_AFTER_MAX_S, CannotContinue

TRIES = 4
PAUSE_FIRST_S, PAUSE_IN_PLACE_MAX_S = 0.5, 5.0
RETRY_AFTER_IN_PLACE_MAX_S = 1.0  # for a longer one the goal waits, and its worker ends
CONNECT_TIMEOUT_S = 5.0
ANSWER_BYTES_MAX, ERROR_BYTES_MAX = 8 << 20, 64 << 10
TEXT_CHARS_MAX = 200_000
_OPTIONAL = ("temperature", "max_tokens")
_ERROR_CHARS = 500
# What servers say of it, each in one line.
_OVERFLOW = re.compile(
    r"(?i)context.{0,20}(length|size|window)|maximum context|too many tokens|prompt is too long"
    r"|exceeds? the (available )?context|input is too long|reduce the length"
)
_MODEL_UNKNOWN = re.compile(
    r"(?i)model.{0,80}(not found|does not exist|not exist|invalid|unknown|no such)"
    r"|(invalid|unknown|no such|not a valid).{0,20}model|try pulling it"
)
_UNSUPPORTED = re.compile(
    r"(?i)(does|do) not support (tools|function)|tools? param requires|unsupported.{0,20}tool"
)
_QUOTA = re.compile(r"(?i)insufficient_quota|billing|credit balance")
_REFUSALS = (400, 404, 413, 415, 422)

Slot = Callable[[], AbstractAsyncContextManager[None]]


class LlmError(CannotContinue):
    """A fault of the endpoint, in a sentence that can be shown anywhere."""

    kind: Literal["temporary", "configuration"] = "configuration"

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in reason)
        super().__init__(self.kind, shown, retry_after_s)


class Temporary(LlmError):
    """A fault that may pass; `retry_after_s` if the server named a time, `in_place` if a short pause may help."""

    kind = "temporary"

    def __init__(self, reason: str, after_s: float | None = None, *, in_place: bool = True) -> None:
        super().__init__(reason, after_s)
        self.in_place = in_place


class Misconfigured(LlmError):
    """A fault that a person must fix: key, model or address."""


class Overflow(LlmError):
    """The prompt is too long for the model."""


class Unsupported(LlmError):
    """The server refused the request as it was (400, 422): tools or a response format, perhaps."""


@dataclass(frozen=True)
class Completion:
    """One answer: text, calls (name, arguments as written), why it ended, what the server says that it runs."""

    text: str = ""
    calls: tuple[tuple[str, object], ...] = ()
    finish_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    served: str = ""


class LlmClient:
    """Asks one endpoint; short faults are waited out in place, an unreachable endpoint is left to the daemon."""

    def __init__(self, agent: AgentOptions, api_key: str | None, *, slot: Slot) -> None:
        self._agent = agent
        self._unwanted: set[str] = set()
        self._slot = slot
        self._connect_s = min(agent.timeout_s, CONNECT_TIMEOUT_S)
        self._http = httpx2.AsyncClient(  # no TLS context, and no way to https, for http
            headers={"Authorization": f"Bearer {api_key or 'none'}", "Accept": "application/json"},
            verify=not agent.base_url.startswith("http://"),
            follow_redirects=False,
            timeout=httpx2.Timeout(agent.timeout_s, connect=self._connect_s),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        tools: Sequence[Mapping[str, Any]] = (),
        response_format: Mapping[str, Any] | None = None,
        temperature_min: float = 0.0,
    ) -> Completion:
        """Return one completion, at no lower a temperature than `temperature_min`; raises only `LlmError`s."""
        agent = self._agent
        for name in ("model", "base_url"):
            if not getattr(agent, name):
                unset = f"no `{name}` is set for this agent"
                raise Misconfigured(f"{unset}; set it in its [agents.NAME] table")
        warmth = None if agent.temperature is None else max(agent.temperature, temperature_min)
        body: dict[str, object] = {"model": agent.model, "messages": messages}
        body |= {"temperature": warmth, "max_tokens": max_tokens}
        body |= {"tools": tools or None, "response_format": response_format}
        wanted = {k: v for k, v in body.items() if v is not None and k not in self._unwanted}
        pause_s = PAUSE_FIRST_S
        for tries_left in range(TRIES - 1, -1, -1):
            try:
                async with self._slot():
                    return await self._once(wanted)
            except Unsupported as fault:
                named = {key for key in _OPTIONAL if key in wanted and key in str(fault)}
                if not (tries_left and named):
                    raise
                self._unwanted |= named
                wanted = {key: value for key, value in wanted.items() if key not in named}
                continue
            except Temporary as fault:
                wait_s, most_s = pause_s, PAUSE_IN_PLACE_MAX_S
                if fault.retry_after_s is not None:
                    wait_s, most_s = fault.retry_after_s, RETRY_AFTER_IN_PLACE_MAX_S
                if not (tries_left and fault.in_place) or wait_s > most_s:
                    raise
            await asyncio.sleep(wait_s)
            pause_s *= 3
        raise AssertionError  # the last try has returned or raised

    async def _once(self, body: Mapping[str, object]) -> Completion:
        agent, base_url, started = self._agent, self._agent.base_url, time.monotonic()
        url = f"{base_url.rstrip('/')}/chat/completions"
        try:
            async with (
                asyncio.timeout(agent.timeout_s),
                self._http.stream("POST", url, json=body) as response,
            ):
                refused = response.status_code >= 300
                raw = await _bounded(response, ERROR_BYTES_MAX if refused else ANSWER_BYTES_MAX)
        except (TimeoutError, httpx2.TransportError) as error:
            raise connection_fault(error, agent, self._connect_s) from None
        except Exception as error:  # noqa: BLE001 - HTTP faults that no library foresaw
            raise Temporary(f"{base_url}: {type(error).__name__}: {error}") from None
        if refused:
            raise status_fault(response, raw, agent)
        if completion := read_completion(raw, time.monotonic() - started):
            return completion
        head = raw[:200].decode("utf-8", "replace").strip() or "nothing"
        if head.lower().startswith(("<!doctype", "<html")):
            advice = "check `base_url` (most end in /v1) and whether a login page is in the way"
            page = f"{base_url} answered with a web page, not with a completion"
            raise Misconfigured(f"{page}: {advice}")
        raise Temporary(f"{base_url} answered no chat completion but: {head}")


async def _bounded(response: httpx2.Response, most: int) -> bytes:
    taken = bytearray()
    async for chunk in response.aiter_bytes():
        taken += chunk
        if len(taken) > most:
            break  # not a model's answer; the cut one cannot be read as one either
    return bytes(taken[: most + 1])


def read_completion(raw: bytes, seconds: float) -> Completion | None:
    try:
        answer = json.loads(raw)
        choice = answer["choices"][0]
        message = choice.get("message") or {}
        asked = message.get("tool_calls") or ()
        functions = [call.get("function") for call in asked if isinstance(call, dict)]
        named = [f for f in functions if isinstance(f, dict) and isinstance(f.get("name"), str)]
        text = _text(message.get("content")) or _text(message.get("refusal"))
        served = (answer.get("model"), answer.get("system_fingerprint"))
        return Completion(
            text=text[:TEXT_CHARS_MAX],
            calls=tuple((f["name"].strip(), f.get("arguments")) for f in named),
            finish_reason=str(choice.get("finish_reason") or ""),
            usage=_usage(answer.get("usage"), seconds),
            served=" ".join(s for s in served if isinstance(s, str) and s)[:SERVED_CHARS_MAX],
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, dict)]
        return "\n".join(p for p in parts if isinstance(p, str))
    return content if isinstance(content, str) else ""


def _usage(raw: Any, seconds: float) -> Usage:
    usage = raw if isinstance(raw, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    asked, answered = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return Usage(input=asked, output=answered, cached=_count(cached), seconds=seconds)


def _count(value: Any) -> int:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 40
    return int(value) if sound else 0


# ---- the ways in which an endpoint can fail, each in a sentence that can be shown anywhere


def connection_fault(error: BaseException, agent: AgentOptions, connect_s: float) -> Temporary:
    """Return why there is no answer: no connection, none in time, or a broken one."""
    match error:
        case httpx2.ConnectTimeout():
            reason = f"no connection within {connect_s:g} s"
        case httpx2.ConnectError():
            reason = _unreachable(error)
        case TimeoutError() | httpx2.TimeoutException():
            reason = f"no answer within {agent.timeout_s:g} s (`timeout_s`)"
        case _:  # a broken connection: another try may help at once
            broken = str(error) or type(error).__name__
            return Temporary(f"{agent.base_url}: {broken}")
    return Temporary(f"{agent.base_url}: {reason}", in_place=False)


def _unreachable(error: BaseException) -> str:
    found: list[BaseException] = [error]
    for one in found:  # grows in the loop; a name with several addresses has an error for each
        if isinstance(one, OSError) and one.errno is not None:
            text = one.strerror or str(one)
            return "connection refused" if one.errno == errno.ECONNREFUSED else text
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        found += [e for e in (*inner, one.__cause__ or one.__context__) if e and e not in found]
    return str(error) or type(error).__name__


def status_fault(response: httpx2.Response, body: bytes, agent: AgentOptions) -> LlmError:
    """Return the fault that an error status stands for, with the server's own message from the `body`."""
    status, message = response.status_code, _server_message(body)
    reason = f"{agent.base_url} answered {status}: {message}"
    if status in _REFUSALS and _OVERFLOW.search(message):
        return Overflow(reason)
    if advice := _advice(status, message, agent.model):
        return Misconfigured(f"{reason}. {advice}")
    if status in _REFUSALS or _UNSUPPORTED.search(message):
        return Unsupported(reason)
    return Temporary(reason, _retry_after_s(response.headers))


def _advice(status: int, message: str, model: str) -> str:
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
    text = body.decode("utf-8", "replace").strip()
    found: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
    if isinstance(found, dict):
        found = found.get("error", found)
    fields = found if isinstance(found, dict) else {"message": found}
    message, code = fields.get("message") or fields.get("detail"), str(fields.get("code") or "")
    if not (isinstance(message, str) and message.strip()):
        message = text or "nothing"
    return one_line(message)[:_ERROR_CHARS] + (f" ({code})" if code not in message else "")


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the server's own retry time (seconds or a date), None if it is too late to wait for."""
    value, wait_s = headers.get("retry-after", ""), math.inf
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        wait_s = parsedate_to_datetime(value).timestamp() - time.time()
    with contextlib.suppress(ValueError):
        wait_s = float(value)
    return max(wait_s, 0.0) if wait_s <= RETRY_AFTER_MAX_S else None
