"""The dual-track context: results and thoughts in separate streams, prompts cut by window and size.

For agents that have an OpenAI-style message list of their own. It detects thoughts that go in circles, and rebuilds the
list so that the instructions stay prominent (the dual-track design: the system prompt first, the question always, facts
before thoughts). It calls no model and runs no tool, and its judgement is advice; only the daemon refuses actions.
"""

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import takewhile
from typing import Any, Literal

from clew_shared.gate.rules import GENERAL, theme
from clew_shared.prompt.windows import JSON_CHARS_PER_TOKEN, Window, progress_marker, window_at
from clew_shared.text.shorten import one_line, without_middle
from clew_worker.library.messages import (
    Message,
    Piece,
    as_message,
    bare,
    facts,
    json_chars,
    pieces,
    text_of,
    tokens,
)

GO_ON = "[Continue: one tool call, or your answer.]"
"""Added after an assistant's message: strict servers do not answer one."""

FACTS_HEADER = "[EARLIER RESULTS]"
ACT = "Take action immediately: one tool call not tried yet, or your answer."
_OWN = re.compile(
    r"\[(?:Continue: one tool|EARLIER RESULTS\]\n|PROGRESS: Iteration |EMERGENCY: |\d+ iterations left\.)"
    rf"|(?P<stuck>.*{re.escape(ACT)})"
)
"""How a text begins that was added for the model; `stuck` is what it told a stuck one."""

PROGRESS_FROM, ITERATIONS_WITHOUT_FACTS = 5, 5
MODERATE_KEEPS, EMERGENCY_RESULTS = 2, 3
_SHORTEST_RESULT_CHARS = 80

StuckType = Literal["theme_loop", "repeated_planning", "no_progress"]


@dataclass(eq=False)
class DualTrackContext:
    """Streams of one question, and the list built from them: of `max_tokens` (estimated) but for what must stay."""

    system_prompt: str
    user_message: str
    conversation_history: list[Message] = field(default_factory=list)
    max_tokens: int = 8000
    consecutive_threshold: int = 3
    theme_window: int = 3
    max_iterations: int = 30
    tool_results: list[Message] = field(default_factory=list, init=False)
    thinking_blocks: list[str] = field(default_factory=list, init=False)
    research_context: dict[str, Any] = field(default_factory=dict, init=False)
    consecutive_thoughts_without_tools: int = field(default=0, init=False)
    last_thinking_themes: list[str] = field(default_factory=list, init=False)
    iterations_without_new_facts: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        counts = self.max_tokens, self.consecutive_threshold, self.theme_window, self.max_iterations
        if min(counts) < 1:
            raise ValueError("max_tokens, thresholds and max_iterations must be at least 1")
        self.conversation_history = [as_message(one) for one in self.conversation_history or ()]
        self._system: Message = {"role": "system", "content": self.system_prompt}
        self._question: Message = {"role": "user", "content": self.user_message}
        self._known_facts: set[str] = set()
        self._facts_before = self._quiet_since = 0
        begin = [self._system, self._question, *self.conversation_history]
        self._chars = sum(map(json_chars, begin))

    def add_tool_result(self, message: Mapping[str, Any] | str) -> None:
        """Store a tool's result message; only one not seen before counts as a new fact."""
        given = {"content": message} if isinstance(message, str) else as_message(message)
        result: Message = {"role": "tool", **given}
        self.tool_results.append(result)
        self._chars += json_chars(result)
        self.consecutive_thoughts_without_tools = 0
        fact = f"{result.get('name') or ''}\n{one_line(text_of(result))}"
        self._known_facts.add(sha256(fact.encode(errors="replace")).hexdigest())

    def add_thinking(self, content: str | None, has_tool_calls: bool = False) -> None:
        """Store a thought and its theme; one with tool calls ends a streak of thoughts without any."""
        text = content or ""
        self.thinking_blocks.append(text)
        self._chars += json_chars({"role": "assistant", "content": text})
        self.last_thinking_themes.append(theme(text))
        del self.last_thinking_themes[: -self.theme_window]
        streak = self.consecutive_thoughts_without_tools + 1
        self.consecutive_thoughts_without_tools = 0 if has_tool_calls else streak

    def detect_stuck_loop(self, iteration: int) -> StuckType | None:
        """Return how the agent is stuck, None if it is not; call it once per iteration.

        `theme_loop`: the last `theme_window` thoughts have one theme; `repeated_planning`: `consecutive_threshold`
        thoughts without a tool call; `no_progress`: five iterations without a new tool result.
        """
        if len(self._known_facts) > self._facts_before:
            self._facts_before, self._quiet_since = len(self._known_facts), iteration
        self.iterations_without_new_facts = max(0, iteration - self._quiet_since)
        themes = self.last_thinking_themes
        if len(themes) >= self.theme_window and {*themes} == {themes[0]} != {GENERAL}:
            return "theme_loop"
        if self.consecutive_thoughts_without_tools >= self.consecutive_threshold:
            return "repeated_planning"
        quiet = self.iterations_without_new_facts >= ITERATIONS_WITHOUT_FACTS
        return "no_progress" if quiet else None

    def should_trim_context(self, iteration: int) -> bool:
        """Return whether the list must be cut: because of the iteration, or of the tokens so far."""
        room = self.max_tokens * JSON_CHARS_PER_TOKEN
        return window_at(iteration) > Window.FULL or self._chars > room

    def inject_urgency(self, iteration: int, stuck_type: str | None = None) -> str:
        """Return the text that urges the agent to act; "" where none is needed."""
        stuck = self._stuck_text(stuck_type) if stuck_type else ""
        left, window = max(0, self.max_iterations - iteration), window_at(iteration)
        marker = ""
        if window is Window.EMERGENCY:
            marker = f"[EMERGENCY: {left} iterations remaining. Synthesize NOW.]"
        elif window is Window.AGGRESSIVE:
            marker = f"[{left} iterations left. Complete your answer.]"
        return "\n".join(filter(None, [stuck, marker]))

    def build_optimized_messages(
        self, messages: Iterable[Mapping[str, Any]], iteration: int
    ) -> list[Message]:
        """Return the list to send, built from the agent's own; the stricter of window and size decides.

        The system prompt comes first and unchanged, the question is always there, tool calls only with all their
        results, markers in a separate last message, and nothing that a strict server refuses. What `inject_urgency`
        said at the end of the list is among the markers; what it said before is left out. `messages` is not changed.
        """
        own = [as_message(message) for message in messages]
        question, parts = self._taken_apart(own)
        markers = self._markers(parts, iteration, own)
        last = {"role": "user", "content": markers or GO_ON}
        room = self.max_tokens - tokens([self._system, question, last])
        found: dict[str, list[Message]] = {"history": [], "fact": [], "work": []}
        for piece in _fitted(parts, window_at(iteration), room):
            found[piece.place] += piece.messages
        text = "\n".join([FACTS_HEADER, *map(text_of, found["fact"])])
        # as tool messages, results whose call is gone would be orphans
        known = [{"role": "user", "content": text}] if found["fact"] else []
        built = [self._system, *found["history"], question, *known, *found["work"]]
        return [*built, last] if markers or built[-1]["role"] == "assistant" else built

    def _taken_apart(self, own: Sequence[Message]) -> tuple[Message, list[Piece]]:
        """Return the question as the list has it, and what is around it without what an earlier build had added."""
        rest = [m for at, m in enumerate(own) if not self._is_own(at, m)]
        history = self.conversation_history
        at = len(history) if rest[: len(history)] == history else 0
        before, after, question = rest[:at], rest[at:], self._question
        for n, message in enumerate(after):
            if message.get("role") == "user" and text_of(message) == self.user_message:
                before, after, question = [*before, *after[:n]], after[n + 1 :], bare(message)
                break
        work = pieces(after, "work")
        known = facts(self.tool_results, work)
        return question, [*pieces(before or history, "history"), *known, *work]

    def _is_own(self, at: int, message: Message) -> bool:
        text = text_of(message)
        if message.get("role") in {"system", "developer"}:
            return at == 0 or text == self.system_prompt
        return message.get("role") == "user" and _OWN.match(text) is not None

    def _markers(self, parts: Iterable[Piece], iteration: int, own: Sequence[Message]) -> str:
        latest = takewhile(lambda message: message.get("role") == "user", reversed(own))
        told = filter(None, (_OWN.match(text_of(message)) for message in latest))
        stuck = next((one["stuck"] for one in told if one["stuck"]), "")
        progress = ""
        if iteration >= PROGRESS_FROM:
            pages = self.research_context.get("pages_read")
            if isinstance(pages, Collection) and not isinstance(pages, str):
                pages = len(pages)
            read = pages if isinstance(pages, int) else 0
            listed = sum(piece.results for piece in parts if piece.place == "work")
            used = max(len(self.tool_results), listed)
            progress = progress_marker(iteration, self.max_iterations, used, read)
        return "\n".join(filter(None, [stuck, progress, self.inject_urgency(iteration)]))

    def _stuck_text(self, stuck_type: str) -> str:
        thoughts, quiet = self.consecutive_thoughts_without_tools, self.iterations_without_new_facts
        seen = {
            "theme_loop": "ERROR: You're repeating yourself.",
            "repeated_planning": f"You have been thinking {thoughts} times in a row without using a tool.",
            "no_progress": f"The last {quiet} iterations brought no new result.",
        }.get(stuck_type, f"You are stuck ({stuck_type}).")
        return f"{seen} {ACT}"


def _fitted(parts: list[Piece], window: Window, room: int) -> list[Piece]:
    """Return what fits: of a stricter window, then without the oldest; the newest results are rather shortened."""
    kept = _windowed(parts, window)
    while window < Window.AGGRESSIVE and _size(kept) > room:
        window = Window(window + 1)
        kept = _windowed(parts, window)
    newest = next((one for one in reversed(kept) if one.place == "work" and one.results), None)
    latest = [*takewhile(lambda piece: piece.said, reversed(parts))]
    excess = _size(kept) - room
    for piece in list(kept):
        if excess > 0 and piece not in (newest, *latest):
            kept.remove(piece)
            excess -= tokens(piece.messages)
    if newest and excess > 0:
        at = kept.index(newest)
        kept[at : at + 1] = _shortened(newest, tokens(newest.messages) - excess)
    return kept


def _windowed(parts: list[Piece], window: Window) -> list[Piece]:
    """Return what a window leaves; the newest call with its results and what the user said last always stay."""
    if window is Window.FULL:
        return list(parts)
    moderate = window is Window.MODERATE
    exchanges = thoughts = MODERATE_KEEPS if moderate else 0
    results = EMERGENCY_RESULTS if window is Window.EMERGENCY else sys.maxsize
    kept, has_results, has_said, is_latest = list[Piece](), False, False, True
    for piece in reversed(parts):
        is_latest = is_latest and piece.said
        is_thought = piece.place == "work" and bool(piece.thought)
        thoughts -= is_thought
        if piece.place == "history":  # an exchange is a user's message with all that answers it
            drop = exchanges <= 0
            exchanges -= piece.messages[0]["role"] == "user"
        elif piece.results:
            drop = has_results and piece.results > results
            results = 0 if drop else results - piece.results
            has_results = True
        else:
            old = has_said and not is_latest
            drop = not moderate and old if piece.said else thoughts < 0
            has_said = has_said or piece.said
        if not drop:
            bare_pair = is_thought and thoughts < 0
            kept.append(piece.without_thought() if bare_pair else piece)
    return kept[::-1]


def _size(kept: Iterable[Piece]) -> int:
    return sum(tokens(piece.messages) for piece in kept)


def _shortened(pair: Piece, room: int) -> list[Piece]:
    call, *results = pair.messages
    chars = max(len(text_of(result)) for result in results)
    while chars >= _SHORTEST_RESULT_CHARS:
        shorter = [{**one, "content": without_middle(text_of(one), chars)} for one in results]
        if tokens([call, *shorter]) <= room:
            return [Piece(pair.place, (call, *shorter))]
        chars = chars * 3 // 4
    return []
