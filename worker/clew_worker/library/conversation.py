"""Takes an agent's own message list apart: what is question, history, work, and results without their calls.

What an earlier build had added to the list is left out, since it is made again each time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clew_shared.prompt.windows import is_marker, stuck_lines, without_marker
from clew_worker.library.exchanges import Message, Piece, PieceKind, bare, cut, flatten, text_of

GO_ON = "[Continue: one tool call, or your answer.]"
"""Added after an assistant's message: strict servers do not answer one."""

_FACTS_HEADER = "[EARLIER RESULTS]"


@dataclass(frozen=True, slots=True)
class ConversationFrame:
    """What is the same in every list of one question."""

    system_prompt: str
    user_message: str
    history: list[Message]

    @property
    def system(self) -> Message:
        return {"role": "system", "content": self.system_prompt}

    @property
    def question(self) -> Message:
        return {"role": "user", "content": self.user_message}


@dataclass(frozen=True, slots=True)
class ConversationParts:
    """A message list taken apart; `facts` are results whose call is no longer in the list."""

    history: Sequence[Piece]
    question: Message
    facts: Sequence[Piece]
    work: Sequence[Piece]
    latest: Sequence[Piece] = ()

    def droppable(self) -> list[Piece]:
        return [*self.history, *self.facts, *self.work]


def take_apart(
    messages: Sequence[Message], frame: ConversationFrame, results: Sequence[Message]
) -> ConversationParts:
    """Take the agent's own list apart; `results` are all tool results so far."""
    rest = [_unmarked(m) for at, m in enumerate(messages) if not _is_own(at, m, frame)]
    known = len(frame.history)
    start = known if known and rest[:known] == frame.history else 0
    asked = next((at for at in range(start, len(rest)) if _is_question(rest[at], frame)), None)
    if asked is None:
        history, question, after = rest[:start], frame.question, rest[start:]
    else:
        history, question, after = rest[:asked], bare(rest[asked]), rest[asked + 1 :]
    pieces = cut(after)
    work, latest = _split_latest(pieces)
    return ConversationParts(
        history=cut(history or frame.history),
        question=question,
        facts=_facts_without_calls(pieces, results),
        work=work,
        latest=latest,
    )


def _is_own(at: int, message: Message, frame: ConversationFrame) -> bool:
    """Return whether an earlier build added the message: it is made again each time."""
    text = text_of(message)
    if message.get("role") in {"system", "developer"}:
        return at == 0 or text == frame.system_prompt
    return message.get("role") == "user" and (
        is_marker(text) or text == GO_ON or text.startswith(_FACTS_HEADER + "\n")
    )


def urged(messages: Sequence[Message]) -> list[str]:
    """Return what a stuck agent was told by the last of the user's messages at the end of a list."""
    for message in reversed(messages):
        if message.get("role") != "user":
            break
        if is_marker(text := text_of(message)):
            return stuck_lines(text)
    return []


def _is_question(message: Message, frame: ConversationFrame) -> bool:
    return message.get("role") == "user" and text_of(message) == frame.user_message


def _facts_without_calls(pieces: Iterable[Piece], results: Sequence[Message]) -> list[Piece]:
    paired = Counter(_result_key(result) for piece in pieces for result in piece.results)
    facts: list[Piece] = []
    for result in reversed(results):
        key = _result_key(result)
        if paired[key]:
            paired[key] -= 1
        else:
            facts.append(Piece(PieceKind.FACT, (_fact(result),)))
    return facts[::-1]


def closed(built: Sequence[Message], markers: str, *, merged: bool) -> list[Message]:
    """Return a list that does not end with the assistant, and with the markers in a last message.

    With `merged` they go to the end of the last result, unless the assistant wrote something after it.
    """
    at = len(built) - 1
    while at > 0 and built[at]["role"] == "user":
        at -= 1
    last = built[at]
    if markers and merged and last["role"] == "tool" and isinstance(last["content"], str):
        marked = {**last, "content": f"{last['content']}\n\n{markers}"}
        return [*built[:at], marked, *built[at + 1 :]]
    if not markers and built[-1]["role"] != "assistant":
        return [*built]
    return [*built, {"role": "user", "content": markers or GO_ON}]


def _unmarked(message: Message) -> Message:
    text = message.get("content")
    if message.get("role") != "tool" or not isinstance(text, str):
        return message
    return {**message, "content": without_marker(text)}


def facts_message(facts: Sequence[Piece]) -> list[Message]:
    """Return the results whose call is gone as one text: as tool messages they would be orphans."""
    lines = [text_of(message) for message in flatten(facts)]
    text = "\n".join([_FACTS_HEADER, *lines])
    return [{"role": "user", "content": text}] if lines else []


def _split_latest(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    end = len(pieces)
    while end and pieces[end - 1].kind is PieceKind.USER:
        end -= 1
    return list(pieces[:end]), list(pieces[end:])


def _result_key(result: Message) -> str:
    return str(result.get("tool_call_id") or text_of(result))


def _fact(result: Message) -> Message:
    name = f"{result['name']}: " if result.get("name") else ""
    return {"role": "user", "content": f"- {name}{text_of(result)}"}
