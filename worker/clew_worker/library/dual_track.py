"""The dual-track context: results and thoughts in separate streams, prompts cut by window and size.

For agents that have an OpenAI-style message list of their own. It detects thoughts that go in
circles, and rebuilds the list so that the instructions stay prominent (the dual-track design:
the system prompt first, the question always, facts before thoughts). It calls no model and runs no tool,
and its judgement is advice; only the daemon refuses actions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from clew_shared.prompt.windows import Window, Windows, is_marker, progress_marker, urgency_marker
from clew_shared.text.shorten import without_middle
from clew_shared.text.thoughts import GENERAL, echoes, merged, theme
from clew_worker.library.exchanges import (
    Message,
    Piece,
    PieceKind,
    as_message,
    bare,
    cut,
    flatten,
    last_exchanges,
    text_of,
)

StuckType = Literal["theme_loop", "repeated_planning", "no_progress"]

_FACTS_HEADER = "[EARLIER RESULTS]"
_GO_ON = "[Continue: one tool call, or your answer.]"
"""Added after an assistant's message: strict servers do not answer one."""

_SHORTEST_RESULT_CHARS = 80


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A message list taken apart; `facts` are results whose call is no longer in the list."""

    history: Sequence[Piece]
    question: Message
    facts: Sequence[Piece]
    work: Sequence[Piece]
    latest: Sequence[Piece] = ()

    def droppable(self) -> list[Piece]:
        return [*self.history, *self.facts, *self.work]


class DualTrackContext:
    """Memory streams of one question, and the message list built from them.

    `max_tokens` bounds the built list (estimated; the system prompt, the question and what the
    user's last messages stay even beyond it). `windows` holds the thresholds by iteration; `themes` replaces the words
    of a built-in theme, or adds a theme (as `[loops.themes]` of the config).
    """

    def __init__(  # noqa: PLR0913 - the agreed signature, and all but two have defaults
        self,
        system_prompt: str,
        user_message: str,
        conversation_history: Iterable[Mapping[str, Any]] | None = None,
        max_tokens: int = 8000,
        consecutive_threshold: int = 3,
        theme_window: int = 3,
        max_iterations: int = 30,
        windows: Windows | None = None,
        *,
        themes: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if min(max_tokens, consecutive_threshold, theme_window, max_iterations) < 1:
            raise ValueError("max_tokens, thresholds and max_iterations must be at least 1")
        self.system_prompt = system_prompt
        self.user_message = user_message
        self.conversation_history = [as_message(one) for one in conversation_history or ()]
        self.max_tokens = max_tokens
        self.consecutive_threshold = consecutive_threshold
        self.theme_window = theme_window
        self.max_iterations = max_iterations
        self.windows = windows or Windows()
        self.tool_results: list[Message] = []
        self.thinking_blocks: list[str] = []
        self.research_context: dict[str, Any] = {}
        self.consecutive_thoughts_without_tools = 0
        self.last_thinking_themes: list[str] = []
        self.iterations_without_new_facts = 0
        self._themes = merged(themes or {})
        self._said: list[str] = []
        self._alike = 0
        self._known_facts: set[str] = set()
        self._news = False
        self._quiet_since = 0
        fixed = [self._system, self._question, *self.conversation_history]
        self._tokens = sum(map(self.windows.tokens, fixed))

    @property
    def _system(self) -> Message:
        return {"role": "system", "content": self.system_prompt}

    @property
    def _question(self) -> Message:
        return {"role": "user", "content": self.user_message}

    def add_tool_result(self, message: Mapping[str, Any] | str) -> None:
        """Store a tool's result message; only one not seen before counts as a new fact."""
        result: Message = (
            {"role": "tool", "content": message}
            if isinstance(message, str)
            else {"role": "tool", **as_message(message)}
        )
        self.tool_results.append(result)
        self._tokens += self.windows.tokens(result)
        self.consecutive_thoughts_without_tools = 0
        fact = f"{result.get('name') or ''}\n{' '.join(text_of(result).split())}"
        digest = sha256(fact.encode(errors="replace")).hexdigest()
        if digest not in self._known_facts:
            self._known_facts.add(digest)
            self._news = True
            self._said, self._alike = [], 0

    def add_thinking(self, content: str | None, has_tool_calls: bool = False) -> None:
        """Store a thought and its theme; one with tool calls ends a streak of thoughts without any."""
        text = content or ""
        self.thinking_blocks.append(text)
        self._tokens += self.windows.tokens({"role": "assistant", "content": text})
        self.last_thinking_themes.append(theme(text, self._themes))
        del self.last_thinking_themes[: -self.theme_window]
        self._alike = self._alike + 1 if echoes(text, self._said) else 1
        self._said = [*self._said, text][-self.theme_window :]
        streak = self.consecutive_thoughts_without_tools + 1
        self.consecutive_thoughts_without_tools = 0 if has_tool_calls else streak

    def detect_stuck_loop(self, iteration: int) -> StuckType | None:
        """Return how the agent is stuck, None if it is not; call it once per iteration.

        `theme_loop`: the last `theme_window` thoughts have one theme, or are the same thought
        re-phrased, with no new result in between; `repeated_planning`: `consecutive_threshold` thoughts
        without a tool call; `no_progress`: as many iterations without a new tool result as
        `windows.iterations_without_facts`.
        """
        if self._news:
            self._quiet_since, self._news = iteration, False
        self.iterations_without_new_facts = max(0, iteration - self._quiet_since)
        if self._one_theme() or self._one_thought():
            return "theme_loop"
        if self.consecutive_thoughts_without_tools >= self.consecutive_threshold:
            return "repeated_planning"
        if self.iterations_without_new_facts >= self.windows.iterations_without_facts:
            return "no_progress"
        return None

    def _one_theme(self) -> bool:
        themes = self.last_thinking_themes
        return len(themes) >= self.theme_window and {*themes} == {themes[0]} != {GENERAL}

    def _one_thought(self) -> bool:
        return self._alike >= max(2, self.theme_window)

    def should_trim_context(self, iteration: int) -> bool:
        """Return whether the list must be cut: because of the iteration, or of the tokens so far."""
        return self.windows.at(iteration) > Window.FULL or self._tokens > self.max_tokens

    def inject_urgency(self, iteration: int, stuck_type: str | None = None) -> str:
        """Return the text that urges the agent to act; "" where none is needed."""
        lines = [self._stuck_text(stuck_type)] if stuck_type else []
        lines.append(urgency_marker(self.windows.at(iteration), self._iterations_left(iteration)))
        return "\n".join(filter(None, lines))

    def build_optimized_messages(
        self, messages: Iterable[Mapping[str, Any]], iteration: int
    ) -> list[Message]:
        """Return the list to send, built from the agent's own; the stricter of window and size decides.

        The system prompt comes first and unchanged, the question is always there, tool calls only with all their
        results, markers in a separate last message, and nothing that a strict server refuses.
        `messages` is not changed.
        """
        conversation = self._take_apart([as_message(message) for message in messages])
        ending = self._ending(conversation, iteration)
        last = ending or [_go_on()]
        fixed = [self._system, conversation.question, *flatten(conversation.latest), *last]
        room = self.max_tokens - sum(map(self.windows.tokens, fixed))
        kept = self._fitted(conversation, self.windows.at(iteration), room)
        built = [
            self._system,
            *flatten(kept.history),
            conversation.question,
            *_facts_message(kept.facts),
            *flatten(kept.work),
            *flatten(conversation.latest),
            *ending,
        ]
        return [*built, _go_on()] if built[-1]["role"] == "assistant" else built

    def _take_apart(self, messages: list[Message]) -> _Conversation:
        rest = [message for at, message in enumerate(messages) if not self._is_own(at, message)]
        known = len(self.conversation_history)
        start = known if known and rest[:known] == self.conversation_history else 0
        asked = next((at for at in range(start, len(rest)) if self._is_question(rest[at])), None)
        if asked is None:
            history, question, after = rest[:start], self._question, rest[start:]
        else:
            history, question, after = rest[:asked], bare(rest[asked]), rest[asked + 1 :]
        pieces, _ = cut(after)
        work, latest = _split_latest(pieces)
        return _Conversation(
            history=cut(history or self.conversation_history)[0],
            question=question,
            facts=self._facts_without_calls(pieces),
            work=work,
            latest=latest,
        )

    def _is_own(self, at: int, message: Message) -> bool:
        """Return whether an earlier build added the message: it is made again each time."""
        text = text_of(message)
        if message.get("role") in {"system", "developer"}:
            return at == 0 or text == self.system_prompt
        return message.get("role") == "user" and (
            is_marker(text) or text == _GO_ON or text.startswith(_FACTS_HEADER + "\n")
        )

    def _is_question(self, message: Message) -> bool:
        return message.get("role") == "user" and text_of(message) == self.user_message

    def _facts_without_calls(self, pieces: Iterable[Piece]) -> list[Piece]:
        paired = Counter(_result_key(result) for piece in pieces for result in piece.results)
        facts: list[Piece] = []
        for result in reversed(self.tool_results):
            key = _result_key(result)
            if paired[key]:
                paired[key] -= 1
            else:
                facts.append(Piece(PieceKind.FACT, (_fact(result),)))
        return facts[::-1]

    def _fitted(self, whole: _Conversation, window: Window, room: int) -> _Conversation:
        """Return the part that the window allows; a stricter window is used while that is too large."""
        kept = self._windowed(whole, window)
        while window < Window.AGGRESSIVE and self._size(kept.droppable()) > room:
            window = Window(window + 1)
            kept = self._windowed(whole, window)
        return self._without_oldest(kept, room)

    def _windowed(self, whole: _Conversation, window: Window) -> _Conversation:
        if window is Window.FULL:
            return whole
        if window is Window.MODERATE:
            return replace(
                whole,
                history=last_exchanges(whole.history, self.windows.moderate_exchanges),
                work=self._last_thoughts(whole.work),
            )
        if window is Window.AGGRESSIVE:
            work = [piece for piece in whole.work if piece.kind in {PieceKind.PAIR, PieceKind.USER}]
            return replace(whole, history=(), work=work)
        pairs = _last_pairs(whole.work, self.windows.emergency_results)
        left = self.windows.emergency_results - sum(len(pair.results) for pair in pairs)
        return replace(whole, history=(), work=pairs, facts=whole.facts[-left:] if left > 0 else ())

    def _last_thoughts(self, work: Sequence[Piece]) -> list[Piece]:
        count = self.windows.moderate_thoughts
        thoughts = [piece for piece in work if piece.kind is PieceKind.THOUGHT]
        dropped = {id(piece) for piece in thoughts[: max(0, len(thoughts) - count)]}
        listed = {text_of(piece.messages[0]) for piece in work}
        unlisted = [
            Piece(PieceKind.THOUGHT, ({"role": "assistant", "content": text},))
            for text in (self.thinking_blocks[-count:] if count else ())
            if text.strip() and text not in listed
        ]
        return [*(piece for piece in work if id(piece) not in dropped), *unlisted]

    def _without_oldest(self, kept: _Conversation, room: int) -> _Conversation:
        """Drop the oldest pieces until the rest fits; the newest result is shortened rather than dropped."""
        size = self._size(kept.droppable())
        newest = next((p for p in reversed(kept.work) if p.kind is PieceKind.PAIR), None)
        dropped: set[int] = set()
        for piece in kept.droppable():
            if size <= room:
                break
            if piece is not newest:
                dropped.add(id(piece))
                size -= self._size([piece])
        work = [piece for piece in kept.work if id(piece) not in dropped]
        if newest and size > room:
            work = self._shortened(newest, room)
        facts = [piece for piece in kept.facts if id(piece) not in dropped]
        history = [piece for piece in kept.history if id(piece) not in dropped]
        return replace(kept, history=history, facts=facts, work=work)

    def _shortened(self, pair: Piece, room: int) -> list[Piece]:
        call, *results = pair.messages
        chars = max(len(text_of(result)) for result in results)
        while chars >= _SHORTEST_RESULT_CHARS:
            shorter = [{**one, "content": without_middle(text_of(one), chars)} for one in results]
            piece = Piece(PieceKind.PAIR, (call, *shorter))
            if self._size([piece]) <= room:
                return [piece]
            chars = chars * 3 // 4
        return []

    def _size(self, pieces: Iterable[Piece]) -> int:
        return sum(map(self.windows.tokens, flatten(pieces)))

    def _ending(self, conversation: _Conversation, iteration: int) -> list[Message]:
        lines = [urgency_marker(self.windows.at(iteration), self._iterations_left(iteration))]
        if iteration >= self.windows.progress_from:
            listed = sum(len(piece.results) for piece in conversation.work)
            used = max(len(self.tool_results), listed)
            pages = _count(self.research_context.get("pages_read"))
            lines.insert(0, progress_marker(iteration, self.max_iterations, used, pages))
        text = "\n".join(filter(None, lines))
        return [{"role": "user", "content": text}] if text else []

    def _iterations_left(self, iteration: int) -> int:
        return max(0, self.max_iterations - iteration)

    def _stuck_text(self, stuck_type: str) -> str:
        if stuck_type == "theme_loop":
            about = (self.last_thinking_themes or [GENERAL])[-1].replace("_", " ")
            alike = "said the same in other words"
            what = alike if self._one_thought() and not self._one_theme() else f"were {about}"
            seen = f"You're repeating yourself: the last {self.theme_window} thoughts {what}."
        elif stuck_type == "repeated_planning":
            count = self.consecutive_thoughts_without_tools
            seen = f"You have been thinking {count} times in a row without using a tool."
        elif stuck_type == "no_progress":
            count = self.iterations_without_new_facts
            seen = f"The last {count} iterations brought no new result."
        else:
            seen = f"You are stuck ({stuck_type})."
        return f"{seen} Take action immediately: one tool call not tried yet, or your answer."


def _go_on() -> Message:
    return {"role": "user", "content": _GO_ON}


def _split_latest(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    end = len(pieces)
    while end and pieces[end - 1].kind is PieceKind.USER:
        end -= 1
    return list(pieces[:end]), list(pieces[end:])


def _last_pairs(work: Sequence[Piece], results: int) -> list[Piece]:
    """Return the last pairs, with at most `results` results in all, but always the newest pair."""
    kept: list[Piece] = []
    count = 0
    for piece in reversed([piece for piece in work if piece.kind is PieceKind.PAIR]):
        count += len(piece.results)
        if kept and count > results:
            break
        kept.append(piece)
    return kept[::-1]


def _result_key(result: Message) -> str:
    return str(result.get("tool_call_id") or text_of(result))


def _fact(result: Message) -> Message:
    name = f"{result['name']}: " if result.get("name") else ""
    return {"role": "user", "content": f"- {name}{text_of(result)}"}


def _facts_message(facts: Sequence[Piece]) -> list[Message]:
    """Return the results whose call is gone as one text: as tool messages they would be orphans."""
    lines = [text_of(message) for message in flatten(facts)]
    text = "\n".join([_FACTS_HEADER, *lines])
    return [{"role": "user", "content": text}] if lines else []


def _count(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    return len(value) if isinstance(value, (list, tuple, set, frozenset, dict)) else 0
