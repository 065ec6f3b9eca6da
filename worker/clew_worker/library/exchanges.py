"""Cuts a message list into pieces that can be dropped separately: calls stay with their results.

Strict servers refuse a tool message without its call, a call without its result, an empty message
and a second system prompt, so no piece is half of a pair, or such a message. Messages are
OpenAI-style dicts; windows and budgets are applied elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

Message = dict[str, Any]

_SPEAKERS = frozenset(("assistant", "tool", "user"))
_OF_CALLS = frozenset(("tool_calls", "function_call", "tool_call_id"))
_OF_REASONING = ("reasoning_content", "reasoning")
"""Where servers that separate a model's reasoning from its answer put it."""


class PieceKind(Enum):
    """The kinds of pieces of a conversation."""

    PAIR = "pair"  # an assistant's tool calls with all their results
    THOUGHT = "thought"  # an assistant's text without calls
    USER = "user"
    FACT = "fact"  # a result whose call is gone, as text


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages that are kept or dropped together."""

    kind: PieceKind
    messages: tuple[Message, ...]

    @property
    def results(self) -> tuple[Message, ...]:
        return self.messages[1:] if self.kind is PieceKind.PAIR else ()

    @property
    def thought(self) -> str:
        """What the assistant wrote, alone or beside its calls; "" for nothing."""
        if self.kind not in {PieceKind.PAIR, PieceKind.THOUGHT}:
            return ""
        said = self.messages[0]
        texts = (text_of(said), *(said.get(name) for name in _OF_REASONING))
        return next((t.strip() for t in texts if isinstance(t, str) and t.strip()), "")

    def without_thought(self) -> "Piece":
        """Return a pair with nothing but its calls and results; any other piece as it is."""
        if self.kind is not PieceKind.PAIR or not self.thought:
            return self
        call, *results = self.messages
        bare_call = {name: v for name, v in call.items() if name not in _OF_REASONING}
        return replace(self, messages=({**bare_call, "content": ""}, *results))


def as_message(message: Any) -> Message:
    """Return a message as a dict; the objects of LLM clients (`model_dump`) are accepted."""
    if isinstance(message, Mapping):
        return dict(message)
    if hasattr(message, "model_dump"):
        dumped: Message = message.model_dump(exclude_none=True)
        return dumped
    raise TypeError(f"a message is a dict with role and content, not {type(message).__name__}")


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, also of one whose content is a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def bare(message: Message) -> Message:
    """Return a message without the fields of calls."""
    return {key: value for key, value in message.items() if key not in _OF_CALLS}


def cut(messages: Sequence[Message]) -> list[Piece]:
    """Return the pieces of a list; results whose call is missing or incomplete are left out.

    Of a call without all of its results directly after it, only the text remains. A message with an unknown role,
    and a later system message, become the user's.
    """
    pieces: list[Piece] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        role = _role(message)
        if role == "assistant":
            results = _results_after(message, messages, at)
            at += len(results)
            if results and len(results) == len(message["tool_calls"]):
                pieces.append(Piece(PieceKind.PAIR, (message, *results)))
            else:
                pieces += _without_calls(message)
        elif role == "user":
            pieces += _of_user(message)
    return pieces


def flatten(pieces: Iterable[Piece]) -> list[Message]:
    """Return the messages of pieces as one list."""
    return [message for piece in pieces for message in piece.messages]


def last_exchanges(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """Return the last `count` exchanges, each a user's message with everything that answers it."""
    starts = [at for at, piece in enumerate(pieces) if piece.kind is PieceKind.USER]
    if count <= 0:
        return []
    return list(pieces if len(starts) <= count else pieces[starts[-count] :])


def _results_after(call: Message, messages: Sequence[Message], at: int) -> list[Message]:
    waiting = _asked(call)
    results: list[Message] = []
    for message in messages[at:]:
        answered = str(message.get("tool_call_id") or "")
        if _role(message) != "tool" or not waiting[answered]:
            break
        waiting[answered] -= 1
        results.append({**message, "role": "tool", "content": message.get("content") or ""})
    return results


def _asked(call: Message) -> Counter[str]:
    """Count the ids of a message's calls; a call without an id can have no result."""
    ids = (_field(one, "id") for one in call.get("tool_calls") or ())
    return Counter(str(one) for one in ids if one)


def _field(call: Any, name: str) -> Any:
    return call.get(name) if isinstance(call, Mapping) else getattr(call, name, None)


def _without_calls(message: Message) -> list[Piece]:
    if not text_of(message).strip():
        return []
    return [Piece(PieceKind.THOUGHT, (bare(message),))]


def _role(message: Message) -> str:
    """Return the role of a message; one that answers a call and names no role is the tool's."""
    role = message.get("role") or ("tool" if message.get("tool_call_id") else "user")
    return role if role in _SPEAKERS else "user"


def _of_user(message: Message) -> list[Piece]:
    if not message.get("content"):
        return []
    own = message.get("role") == "user"
    shown = bare(message) if own else {"role": "user", "content": message["content"]}
    return [Piece(PieceKind.USER, (shown,))]
