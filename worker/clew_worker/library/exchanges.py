"""A message list cut into the pieces that may be dropped whole: calls stay with their results.

Strict servers refuse a tool message whose call is gone, a call without its result, an empty message
and a second system prompt, so no piece here is half of a pair, or such a message. Messages are
OpenAI-style dicts; it knows no window and no budget.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

Message = dict[str, Any]

_SPEAKERS = frozenset(("assistant", "tool", "user"))
_OF_CALLS = frozenset(("tool_calls", "function_call", "tool_call_id"))


class Kind(Enum):
    """What a piece of a conversation is."""

    PAIR = "pair"  # an assistant's tool calls with all their results
    THOUGHT = "thought"  # an assistant's text without calls
    USER = "user"
    FACT = "fact"  # a result whose call is gone, as text


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages that are kept or dropped together."""

    kind: Kind
    messages: tuple[Message, ...]

    @property
    def results(self) -> tuple[Message, ...]:
        return self.messages[1:] if self.kind is Kind.PAIR else ()


def as_message(message: Any) -> Message:
    """Take a message as a dict; the objects of LLM clients (`model_dump`) are accepted."""
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
    """Return a message without what belongs to calls."""
    return {key: value for key, value in message.items() if key not in _OF_CALLS}


def cut(messages: Sequence[Message]) -> tuple[list[Piece], list[Message]]:
    """Cut a list into pieces; give also the results whose call is missing or incomplete.

    A call without all of its results directly after it loses the call and keeps its text; what a server
    has no role for, and what the system says later on, is said by the user.
    """
    pieces: list[Piece] = []
    orphans: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        role = _role(message)
        if role == "assistant":
            results = _results_after(message, messages, at)
            at += len(results)
            if results and len(results) == len(message["tool_calls"]):
                pieces.append(Piece(Kind.PAIR, (message, *results)))
            else:
                orphans += results
                pieces += _without_calls(message)
        elif role == "tool":
            orphans.append(message)
        else:
            pieces += _of_user(message)
    return pieces, orphans


def flatten(pieces: Iterable[Piece]) -> list[Message]:
    """Put the messages of pieces into one list."""
    return [message for piece in pieces for message in piece.messages]


def last_exchanges(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """Keep the last `count` exchanges, each a user's message with all that answers it."""
    starts = [at for at, piece in enumerate(pieces) if piece.kind is Kind.USER]
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
    return [Piece(Kind.THOUGHT, (bare(message),))]


def _role(message: Message) -> str:
    """Say who speaks; what answers a call and names no role is the tool."""
    role = message.get("role") or ("tool" if message.get("tool_call_id") else "user")
    return role if role in _SPEAKERS else "user"


def _of_user(message: Message) -> list[Piece]:
    if not message.get("content"):
        return []
    own = message.get("role") == "user"
    said = bare(message) if own else {"role": "user", "content": message["content"]}
    return [Piece(Kind.USER, (said,))]
