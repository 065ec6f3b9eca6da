"""An agent's message list in pieces that are kept or dropped whole.

Strict servers refuse a tool message without its call, a call without its result, an empty message and a second
system prompt, so no piece is half of a pair, or such a message. Messages are OpenAI-style dicts.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clew_shared.prompt.windows import JSON_CHARS_PER_TOKEN

Message = dict[str, Any]

_SPEAKERS = frozenset(("assistant", "tool", "user"))
_OF_CALLS = frozenset(("tool_calls", "function_call", "tool_call_id"))
_OF_REASONING = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A message, or an assistant's calls with all results; a fact is a result whose call is gone, as text."""

    place: Literal["history", "fact", "work"]
    messages: tuple[Message, ...]

    @property
    def said(self) -> bool:
        """Whether it is the user's message after the question."""
        return self.place == "work" and self.messages[0]["role"] == "user"

    @property
    def results(self) -> int:
        return int(self.place == "fact") or len(self.messages) - 1

    @property
    def thought(self) -> str:
        """What the assistant wrote, alone or beside its calls; "" for nothing."""
        first = self.messages[0]
        texts = (text_of(first), *(first.get(name) for name in _OF_REASONING))
        said = next((t for t in texts if isinstance(t, str) and t.strip()), "")
        return said if first["role"] == "assistant" else ""

    def without_thought(self) -> "Piece":
        """Return a pair with nothing but its calls and results."""
        call, *results = self.messages
        bare_call = {name: v for name, v in call.items() if name not in _OF_REASONING}
        return Piece(self.place, ({**bare_call, "content": ""}, *results))


def as_message(message: Any) -> Message:
    """Return a message as a dict; the objects of LLM clients (`model_dump`) are accepted."""
    if isinstance(message, Mapping):
        return dict(message)
    if hasattr(message, "model_dump"):
        return dict(message.model_dump(exclude_none=True))
    raise TypeError(f"a message is a dict with role and content, not {type(message).__name__}")


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, also of one whose content is a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def json_chars(message: Mapping[str, Any]) -> int:
    """Return the characters of a message as JSON, by which its tokens are estimated."""
    return len(json.dumps(message, ensure_ascii=False, default=str))


def tokens(messages: Iterable[Message]) -> int:
    """Return an estimate of the tokens of messages, calls and framing included."""
    return sum(math.ceil(json_chars(one) / JSON_CHARS_PER_TOKEN) for one in messages)


def pieces(messages: Sequence[Message], place: Literal["history", "work"]) -> list[Piece]:
    """Return the pieces of a list, without results whose call is missing; of a call without all of them the text."""
    found: list[Piece] = []
    for at, message in enumerate(messages, start=1):
        role = _role(message)
        if role == "assistant" and (results := _results_after(message, messages[at:])):
            found.append(Piece(place, (message, *results)))
        elif role == "assistant" and text_of(message).strip():
            found.append(Piece(place, (bare(message),)))
        elif role == "user" and message.get("content"):
            plain = {"role": "user", "content": message["content"]}
            found.append(Piece(place, (bare(message) if message.get("role") == "user" else plain,)))
    return found


def facts(results: Sequence[Message], work: Iterable[Piece]) -> list[Piece]:
    """Return those of all results so far whose call is not in the list."""
    paired = Counter(_result_key(result) for piece in work for result in piece.messages[1:])
    found: list[Piece] = []
    for result in reversed(results):
        key = _result_key(result)
        paired[key] -= 1
        if paired[key] < 0:
            name = f"{result['name']}: " if result.get("name") else ""
            text = f"- {name}{text_of(result)}"
            found.append(Piece("fact", ({"role": "user", "content": text},)))
    return found[::-1]


def _result_key(result: Message) -> str:
    return str(result.get("tool_call_id") or text_of(result))


def _results_after(call: Message, messages: Sequence[Message]) -> list[Message]:
    """Return the results of an assistant's calls, none where one is missing."""
    calls = call.get("tool_calls") or ()
    asked = (one.get("id") if isinstance(one, Mapping) else getattr(one, "id", "") for one in calls)
    waiting = Counter(str(one) for one in asked if one)  # a call without an id can have no result
    results: list[Message] = []
    for message in messages:
        answered = str(message.get("tool_call_id") or "")
        if _role(message) != "tool" or not waiting[answered]:
            break
        waiting[answered] -= 1
        results.append({**message, "role": "tool", "content": message.get("content") or ""})
    return results if len(results) == len(calls) else []


def _role(message: Message) -> str:
    """Return the role of a message; one that answers a call and names no role is the tool's."""
    role = message.get("role") or ("tool" if message.get("tool_call_id") else "user")
    return role if role in _SPEAKERS else "user"


def bare(message: Message) -> Message:
    """Return a message without what belongs to calls."""
    return {key: value for key, value in message.items() if key not in _OF_CALLS}
