"""An agent's message list taken apart: into pieces that are kept or dropped whole, and what an earlier build added.

Strict servers refuse a tool message without its call, a call without its result, an empty message and a second
system prompt, so no piece is half of a pair, or such a message. Messages are OpenAI-style dicts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from clew_shared.prompt.windows import stuck_lines

Message = dict[str, Any]

GO_ON = "[Continue: one tool call, or your answer.]"
"""Added after an assistant's message: strict servers do not answer one."""

FACTS_HEADER = "[EARLIER RESULTS]"

_SPEAKERS = frozenset(("assistant", "tool", "user"))
_OF_CALLS = frozenset(("tool_calls", "function_call", "tool_call_id"))
_OF_REASONING = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Messages kept or dropped together: a `pair` is an assistant's tool calls with all results, a `thought` its text.

    What the user said is a piece of its own.
    """

    kind: Literal["pair", "thought", "user"]
    messages: tuple[Message, ...]

    @property
    def thought(self) -> str:
        """What the assistant wrote, alone or beside its calls; "" for nothing."""
        if self.kind == "user":
            return ""
        said = self.messages[0]
        texts = (text_of(said), *(said.get(name) for name in _OF_REASONING))
        return next((t.strip() for t in texts if isinstance(t, str) and t.strip()), "")

    def without_thought(self) -> "Piece":
        """Return a pair with nothing but its calls and results; any other piece as it is."""
        if self.kind != "pair" or not self.thought:
            return self
        call, *results = self.messages
        bare_call = {name: v for name, v in call.items() if name not in _OF_REASONING}
        return replace(self, messages=({**bare_call, "content": ""}, *results))


class Parts(NamedTuple):
    """A list's pieces by where they stand: before the question, or after it; `latest` is what the user said last.

    `facts` are the results whose call is no longer in the list, as text.
    """

    history: list[Piece]
    facts: list[Piece]
    work: list[Piece]
    latest: list[Piece]


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


def flatten(*parts: Iterable[Piece]) -> list[Message]:
    """Return the messages of pieces as one list."""
    return [message for pieces in parts for piece in pieces for message in piece.messages]


def take_apart(
    messages: Sequence[Message],
    system: Message,
    question: Message,
    history: list[Message],
    results: Sequence[Message],
) -> tuple[Message, Parts]:
    """Take the agent's own list apart: its question, and what is around it.

    `results` are all tool results so far. What an earlier build had added is left out, since it is made again each
    time. The `history` of the question is used where the list has none.
    """
    rest = [m for at, m in enumerate(messages) if not _is_own(at, m, system)]
    start = len(history) if rest[: len(history)] == history else 0
    before, after = rest[:start], rest[start:]
    for at, message in enumerate(after, start):
        if message.get("role") == "user" and text_of(message) == question["content"]:
            before, after, question = rest[:at], rest[at + 1 :], _bare(message)
            break
    work = _cut(after)
    end = max((n for n, piece in enumerate(work, start=1) if piece.kind != "user"), default=0)
    facts = _facts_without_calls(work, results)
    return question, Parts(_cut(before or history), facts, work[:end], work[end:])


def _is_own(at: int, message: Message, system: Message) -> bool:
    text = text_of(message)
    if message.get("role") in {"system", "developer"}:
        return at == 0 or text == system["content"]
    added = text == GO_ON or text.startswith(f"{FACTS_HEADER}\n") or stuck_lines(text) is not None
    return message.get("role") == "user" and added


def _facts_without_calls(pieces: Iterable[Piece], results: Sequence[Message]) -> list[Piece]:
    paired = Counter(_result_key(result) for piece in pieces for result in piece.messages[1:])
    facts: list[Piece] = []
    for result in reversed(results):
        key = _result_key(result)
        paired[key] -= 1
        if paired[key] < 0:
            name = f"{result['name']}: " if result.get("name") else ""
            facts.append(
                Piece("user", ({"role": "user", "content": f"- {name}{text_of(result)}"},))
            )
    return facts[::-1]


def _result_key(result: Message) -> str:
    return str(result.get("tool_call_id") or text_of(result))


def _cut(messages: Sequence[Message]) -> list[Piece]:
    """Return the pieces of a list; results whose call is missing or incomplete are left out.

    Of a call without all of its results directly after it, only the text remains. A message with an unknown role,
    and a later system message, become the user's.
    """
    pieces: list[Piece] = []
    for at, message in enumerate(messages, start=1):
        role = _role(message)
        if role == "assistant":
            results = _results_after(message, messages[at:])
            if results and len(results) == len(message["tool_calls"]):
                pieces.append(Piece("pair", (message, *results)))
            elif text_of(message).strip():
                pieces.append(Piece("thought", (_bare(message),)))
        elif role == "user" and message.get("content"):
            plain = {"role": "user", "content": message["content"]}
            said = _bare(message) if message.get("role") == "user" else plain
            pieces.append(Piece("user", (said,)))
    return pieces


def _results_after(call: Message, messages: Sequence[Message]) -> list[Message]:
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
    return results


def _role(message: Message) -> str:
    """Return the role of a message; one that answers a call and names no role is the tool's."""
    role = message.get("role") or ("tool" if message.get("tool_call_id") else "user")
    return role if role in _SPEAKERS else "user"


def _bare(message: Message) -> Message:
    return {key: value for key, value in message.items() if key not in _OF_CALLS}
