"""A client of one OpenAI-compatible endpoint: each request gives a completion or one of four errors.

It knows no goal and no daemon; an answer of any other form becomes an error.
"""

import asyncio
import errno
import json
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import openai

from clew_shared.wire.hello import AgentOptions

TRIES = 4
PAUSE_FIRST_S = 0.5
PAUSE_IN_PLACE_MAX_S = 5.0
"""A longer wait is left to the daemon: the goal is shown as waiting, and its worker ends."""

RETRY_AFTER_IN_PLACE_MAX_S = 1.0
CONNECT_TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 8 << 20
ERROR_BYTES_MAX = 64 << 10
RETRY_AFTER_MAX_S = 30 * 86_400.0
"""A later time that a server names is ignored: the usual back-off applies."""

TEXT_CHARS_MAX = 200_000
CALLS_MAX = 20
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
_OPTIONAL = ("temperature", "max_tokens")
_REFUSALS = (400, 404, 413, 415, 422)
_QUOTA = re.compile(r"insufficient_quota|billing|credit balance", re.IGNORECASE)

Slot = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class CallUsage:
    """The cost of a call: tokens as the server counted them, seconds on the clock."""

    input: int = 0
    output: int = 0
    cached: int = 0
    seconds: float = 0.0

    def __add__(self, other: "CallUsage") -> "CallUsage":
        return CallUsage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class NativeCall:
    """A tool call of the answer; `arguments` is the text that the model wrote."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Completion:
    """One answer: its text, its calls in order, why it ended (`stop`, `length`, ...)."""

    text: str = ""
    calls: tuple[NativeCall, ...] = ()
    finish_reason: str = ""
    usage: CallUsage = field(default_factory=CallUsage)


class LlmError(Exception):
    """A fault of the endpoint, in a sentence that can be shown anywhere."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in reason)
        )


class Temporary(LlmError):
    """A fault that may pass; `retry_after_s` if the server named a time, `in_place` if a short pause may help."""

    def __init__(
        self, reason: str, retry_after_s: float | None = None, *, in_place: bool = True
    ) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.in_place = in_place


class Misconfigured(LlmError):
    """A fault that a person must fix: key, model or address."""


class Overflow(LlmError):
    """The prompt is too long for the model."""


class Unsupported(LlmError):
    """The server refused the request as it was (400, 422): tools or a response format, perhaps."""


class LlmClient:
    """Asks one endpoint; short faults are waited out in place, without holding a slot.

    An unreachable endpoint is not a short fault: the daemon waits for it, and shows that.
    """

    def __init__(
        self,
        agent: AgentOptions,
        api_key: str | None,
        *,
        slot: Slot,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.base_url = agent.base_url
        self.model = agent.model
        self._temperature = agent.temperature
        self._unwanted: set[str] = set()
        self._timeout_s = agent.timeout_s
        self._slot = slot
        self._pause = pause
        plain = self.base_url.startswith("http://")
        self._connect_s = min(self._timeout_s, CONNECT_TIMEOUT_S)
        timeout = openai.Timeout(self._timeout_s, connect=self._connect_s)
        self._http = _BoundedHttp(  # no TLS context, and no way to https, for http
            verify=not plain, follow_redirects=False, timeout=timeout, trust_env=False
        )
        self._api = openai.AsyncOpenAI(
            base_url=self.base_url,
            api_key=api_key or "none",
            max_retries=0,
            timeout=timeout,
            http_client=self._http,
        )

    async def close(self) -> None:
        await self._api.close()

    async def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        response_format: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature_min: float = 0.0,
    ) -> Completion:
        """Return one completion; raises only `LlmError`s.

        `temperature_min` raises the agent's own temperature for this request.
        """
        if not self.model or not self.base_url:
            missing = "model" if not self.model else "base_url"
            raise Misconfigured(
                f"no `{missing}` is set for this agent; set it in its [agents.NAME] table"
            )
        body: dict[str, Any] = {"model": self.model, "messages": messages}
        warmth = self._temperature
        if warmth is not None:
            warmth = max(warmth, temperature_min)
        extras = {"temperature": warmth, "max_tokens": max_tokens}
        wanted = {k: v for k, v in extras.items() if v is not None and k not in self._unwanted}
        body |= wanted
        if tools:
            body["tools"] = tools
        if response_format:
            body["response_format"] = response_format
        return await self._persistently(body)

    async def _persistently(self, body: dict[str, Any]) -> Completion:
        pause_s = PAUSE_FIRST_S
        for tries_left in range(TRIES - 1, -1, -1):
            try:
                async with self._slot():
                    return await self._once(body)
            except Unsupported as fault:
                if not (tries_left and self._drop_extra(body, str(fault))):
                    raise
                continue
            except Temporary as fault:
                wait_s, most_s = pause_s, PAUSE_IN_PLACE_MAX_S
                if fault.retry_after_s is not None:
                    wait_s, most_s = fault.retry_after_s, RETRY_AFTER_IN_PLACE_MAX_S
                if not (tries_left and fault.in_place) or wait_s > most_s:
                    raise
            await self._pause(wait_s)
            pause_s *= 3
        raise AssertionError  # the last try has returned or raised

    def _drop_extra(self, body: dict[str, Any], refusal: str) -> bool:
        """Drop the optional parameters that a server names in its refusal; False if there are none."""
        named = {key for key in _OPTIONAL if key in body and key in refusal}
        for key in named:
            del body[key]
        self._unwanted |= named
        return bool(named)

    async def _once(self, body: dict[str, Any]) -> Completion:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                raw = await self._post(body)
        except openai.APIStatusError as error:
            raise self._status_fault(error) from None
        except (TimeoutError, openai.APIConnectionError) as error:
            raise self._connection_fault(error) from None
        except (openai.OpenAIError, OSError) as error:
            raise Temporary(f"{self.base_url}: {type(error).__name__}: {error}") from None
        except Exception as error:  # noqa: BLE001 - HTTP faults that no library foresaw
            raise Temporary(f"{self.base_url}: {type(error).__name__}: {error}") from None
        return self._completion(raw, time.monotonic() - started)

    def _connection_fault(self, error: BaseException) -> Temporary:
        """Return why there is no answer: no connection, none in time, or a broken one."""
        cause = error.__cause__ or error
        kind = type(cause).__name__  # openai's version decides which HTTP library has these classes
        if kind == "ConnectTimeout":
            reason = f"{self.base_url}: no connection within {self._connect_s:g} s"
            return Temporary(reason, in_place=False)
        if kind == "ConnectError":
            return Temporary(f"{self.base_url}: {_unreachable(cause)}", in_place=False)
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            reason = f"{self.base_url}: no answer within {self._timeout_s:g} s (`timeout_s`)"
            return Temporary(reason, in_place=False)
        return Temporary(f"{self.base_url}: {str(cause) or type(cause).__name__}")

    async def _post(self, body: dict[str, Any]) -> bytes:
        request = self._api.chat.completions.with_streaming_response.create(**body)
        async with request as response:
            return await _bounded(response.iter_bytes(), ANSWER_BYTES_MAX)

    def _status_fault(self, error: openai.APIStatusError) -> LlmError:
        """Return the fault that an error status stands for, with the server's own message."""
        status, message = error.status_code, _server_message(error)
        reason = f"{self.base_url} answered {status}: {message}"
        if status in _REFUSALS and _OVERFLOW.search(message):
            return Overflow(reason)
        if advice := self._advice(status, message):
            return Misconfigured(f"{reason}. {advice}")
        if status in _REFUSALS or _UNSUPPORTED.search(message):
            return Unsupported(reason)
        return Temporary(reason, _retry_after_s(error.response.headers))

    def _advice(self, status: int, message: str) -> str:
        """Return what a person must fix; "" for nothing."""
        if status in (401, 403):
            return "Check the key: `api_key_env` or `api_key_file` of the agent"
        if status in (400, 404, 422) and _MODEL_UNKNOWN.search(message):
            return f"Check `model` ({self.model}) of the agent"
        if 300 <= status < 400 or status in (404, 405):
            return "Check `base_url` of the agent; most end in /v1"
        if status == 402 or (status == 429 and _QUOTA.search(message)):
            return "The account's quota is used up"
        return ""

    def _completion(self, raw: bytes, seconds: float) -> Completion:
        """Return the completion in an answer; anything else is a temporary fault that quotes it."""
        try:
            answer = json.loads(raw)
            choice = answer["choices"][0]
            message = choice.get("message") or {}
            calls = [_native(c) for c in (message.get("tool_calls") or ())[:CALLS_MAX]]
            text = _text(message.get("content")) or _text(message.get("refusal"))
            return Completion(
                text=text[:TEXT_CHARS_MAX],
                calls=tuple(call for call in calls if call),
                finish_reason=str(choice.get("finish_reason") or ""),
                usage=_usage(answer.get("usage"), seconds),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            head = raw[:200].decode("utf-8", "replace").strip() or "nothing"
            reason = f"{self.base_url} answered no chat completion but: {head}"
            raise Temporary(reason) from None


async def _bounded(chunks: AsyncIterator[bytes], most: int) -> bytes:
    taken = bytearray()
    async for chunk in chunks:
        taken += chunk
        if len(taken) > most:
            break  # not a model's answer; the cut one cannot be read as one either
    return bytes(taken[: most + 1])


class _BoundedHttp(openai.DefaultAsyncHttpxClient):
    """Bounds the body of an error, which openai's client would read to its end, however long."""

    async def send(self, request: Any, **options: Any) -> Any:
        response = await super().send(request, **options)
        if response.status_code < 300:
            return response
        head = await _bounded(response.aiter_bytes(), ERROR_BYTES_MAX)
        await response.aclose()
        headers = {k: value for k, value in response.headers.items() if k in _HEADERS_READ}
        return type(response)(response.status_code, headers=headers, content=head, request=request)


_HEADERS_READ = ("content-type", "retry-after", "retry-after-ms")


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


def _native(raw: Any) -> NativeCall | None:
    function = raw.get("function") if isinstance(raw, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    return NativeCall(function["name"].strip(), function.get("arguments"))


def _text(content: Any) -> str:
    """Return a content as text: a string, or a list of parts."""
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, dict)]
        return "\n".join(p for p in parts if isinstance(p, str))
    return content if isinstance(content, str) else ""


def _usage(raw: Any, seconds: float) -> CallUsage:
    usage = raw if isinstance(raw, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return CallUsage(
        input=_count(usage.get("prompt_tokens")),
        output=_count(usage.get("completion_tokens")),
        cached=_count(cached),
        seconds=seconds,
    )


def _count(value: Any) -> int:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 40
    return int(value) if sound else 0


def _server_message(error: openai.APIStatusError) -> str:
    """Return the server's own message in an error."""
    body: Any = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
    message = body if isinstance(body, str) and body.strip() else error.message
    code = f" ({error.code})" if error.code and error.code not in message else ""
    return " ".join(message.split())[:_ERROR_CHARS] + code


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the server's own retry time: seconds, milliseconds (`retry-after-ms`), or a date."""
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds:
            return _seconds(float(milliseconds) / 1000)
        return _seconds(float(value)) if value else None
    except ValueError:
        pass
    try:
        return _seconds(parsedate_to_datetime(str(value)).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds(value: float) -> float | None:
    return max(value, 0.0) if math.isfinite(value) and value <= RETRY_AFTER_MAX_S else None
