"""An answer of a chat completions endpoint: its text, its tool calls and what it cost. Pure."""

import json
from dataclasses import dataclass, field
from typing import Any

from clew_shared.record.prompt_facts import SERVED_CHARS_MAX

TEXT_CHARS_MAX = 200_000
CALLS_MAX = 20


@dataclass(frozen=True)
class CallUsage:
    """The cost of a call: tokens as the server counted them, seconds on the clock."""

    input: int = 0
    output: int = 0
    cached: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class NativeCall:
    """A tool call of the answer; `arguments` is the text that the model wrote."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Completion:
    """One answer: its text, its calls in order, why it ended (`stop`, `length`, ...).

    `served` is what the server says that it runs: the model, and a fingerprint of its own version.
    """

    text: str = ""
    calls: tuple[NativeCall, ...] = ()
    finish_reason: str = ""
    usage: CallUsage = field(default_factory=CallUsage)
    served: str = ""


def read_completion(raw: bytes, seconds: float) -> Completion | None:
    """Return the completion in an answer, None for anything else."""
    try:
        answer = json.loads(raw)
        choice = answer["choices"][0]
        message = choice.get("message") or {}
        calls = [_native(c) for c in (message.get("tool_calls") or ())[:CALLS_MAX]]
        text = _text(message.get("content")) or _text(message.get("refusal"))
        named = (answer.get("model"), answer.get("system_fingerprint"))
        return Completion(
            text=text[:TEXT_CHARS_MAX],
            calls=tuple(call for call in calls if call),
            finish_reason=str(choice.get("finish_reason") or ""),
            usage=_usage(answer.get("usage"), seconds),
            served=" ".join(s for s in named if isinstance(s, str) and s)[:SERVED_CHARS_MAX],
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None


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
