"""The dual-track context: results and thoughts in separate streams, prompts cut by window and size.

For agents that have an OpenAI-style message list of their own. It detects thoughts that go in circles, and rebuilds the
list so that the instructions stay prominent (the dual-track design: the system prompt first, the question always, facts
before thoughts). It calls no model and runs no tool, and its judgement is advice; only the daemon refuses actions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import takewhile
from typing import Any, Literal

from clew_shared.prompt.windows import (
    Window,
    Windows,
    json_chars,
    progress_marker,
    stuck_lines,
    urgency_marker,
)
from clew_shared.text.shorten import one_line, without_middle
from clew_shared.text.themes import GENERAL, theme
from clew_worker.library.messages import (
    FACTS_HEADER,
    GO_ON,
    Message,
    Parts,
    Piece,
    as_message,
    flatten,
    take_apart,
    text_of,
)

_SHORTEST_RESULT_CHARS = 80

StuckType = Literal["theme_loop", "repeated_planning", "no_progress"]


@dataclass(eq=False)
class DualTrackContext:
    """Memory streams of one question, and the message list built from them.

    `max_tokens` bounds the built list (estimated; the system prompt, the question and what the
    user's last messages stay even beyond it). `windows` holds the thresholds by iteration.
    """

    system_prompt: str
    user_message: str
    conversation_history: list[Message] = field(default_factory=list)
    max_tokens: int = 8000
    consecutive_threshold: int = 3
    theme_window: int = 3
    max_iterations: int = 30
    windows: Windows = field(default_factory=Windows)
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
        self.windows = self.windows or Windows()
        self._known_facts: set[str] = set()
        self._facts_before = self._quiet_since = 0
        self._chars = sum(map(json_chars, [*self._begin, *self.conversation_history]))

    @property
    def _begin(self) -> tuple[Message, Message]:
        """The system prompt and the question."""
        system: Message = {"role": "system", "content": self.system_prompt}
        return system, {"role": "user", "content": self.user_message}

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
        thoughts without a tool call; `no_progress`: as many iterations without a new tool result as
        `windows.iterations_without_facts`.
        """
        if len(self._known_facts) > self._facts_before:
            self._facts_before, self._quiet_since = len(self._known_facts), iteration
        self.iterations_without_new_facts = max(0, iteration - self._quiet_since)
        themes = self.last_thinking_themes
        if len(themes) >= self.theme_window and {*themes} == {themes[0]} != {GENERAL}:
            return "theme_loop"
        if self.consecutive_thoughts_without_tools >= self.consecutive_threshold:
            return "repeated_planning"
        if self.iterations_without_new_facts >= self.windows.iterations_without_facts:
            return "no_progress"
        return None

    def should_trim_context(self, iteration: int) -> bool:
        """Return whether the list must be cut: because of the iteration, or of the tokens so far."""
        room = self.max_tokens * self.windows.chars_per_token
        return self.windows.at(iteration) > Window.FULL or self._chars > room

    def inject_urgency(self, iteration: int, stuck_type: str | None = None) -> str:
        """Return the text that urges the agent to act; "" where none is needed."""
        lines = [self._stuck_text(stuck_type)] if stuck_type else []
        left = max(0, self.max_iterations - iteration)
        lines.append(urgency_marker(self.windows.at(iteration), left))
        return "\n".join(filter(None, lines))

    def build_optimized_messages(
        self, messages: Iterable[Mapping[str, Any]], iteration: int
    ) -> list[Message]:
        """Return the list to send, built from the agent's own; the stricter of window and size decides.

        The system prompt comes first and unchanged, the question is always there, tool calls only with all their
        results, markers in a separate last message, and nothing that a strict server refuses. What `inject_urgency`
        said at the end of the list is among the markers; what it said before is left out. `messages` is not changed.
        """
        own = [as_message(message) for message in messages]
        system, asked = self._begin
        history, results = self.conversation_history, self.tool_results
        question, parts = take_apart(own, system, asked, history, results)
        markers = self._markers(parts, iteration, own)
        last = {"role": "user", "content": markers or GO_ON}
        room = self.max_tokens - self._size([system, question, *flatten(parts.latest), last])
        kept = self._fitted(parts, self.windows.at(iteration), room)
        text = "\n".join([FACTS_HEADER, *map(text_of, flatten(kept.facts))])
        # as tool messages, results whose call is gone would be orphans
        facts = [{"role": "user", "content": text}] if kept.facts else []
        after = flatten(kept.work, parts.latest)
        built = [system, *flatten(kept.history), question, *facts, *after]
        return [*built, last] if markers or built[-1]["role"] == "assistant" else built

    def _markers(self, parts: Parts, iteration: int, own: Sequence[Message]) -> str:
        latest = takewhile(lambda message: message.get("role") == "user", reversed(own))
        told = (stuck_lines(text_of(message)) for message in latest)
        lines = next(filter(None, told), [])  # what a stuck agent was told last
        if iteration >= self.windows.progress_from:
            used = sum(len(piece.messages) - 1 for piece in parts.work)
            pages = _count(self.research_context.get("pages_read"))
            used = max(len(self.tool_results), used)
            lines.append(progress_marker(iteration, self.max_iterations, used, pages))
        lines.append(self.inject_urgency(iteration))
        return "\n".join(filter(None, lines))

    def _fitted(self, parts: Parts, window: Window, room: int) -> Parts:
        """Return what fits: of a stricter window, then without the oldest; the newest result is rather shortened."""
        kept = self._windowed(parts, window)
        while window < Window.AGGRESSIVE and self._size(flatten(*kept)) > room:
            window = Window(window + 1)
            kept = self._windowed(parts, window)
        size = self._size(flatten(*kept))
        newest = next((piece for piece in reversed(kept.work) if piece.kind == "pair"), None)
        for pieces in kept:
            for piece in list(pieces):
                if size > room and piece is not newest:
                    pieces.remove(piece)
                    size -= self._size(piece.messages)
        if newest and size > room:
            kept.work[:] = self._shortened(newest, room)
        return kept

    def _windowed(self, parts: Parts, window: Window) -> Parts:
        """Return what a window leaves, but for what the user said last: that always stays."""
        history, facts, work, latest = parts
        if window is Window.FULL:
            return parts._replace(latest=[])
        if window is Window.MODERATE:
            # each exchange is a user's message with all that answers it
            count = self.windows.moderate_exchanges
            starts = [at for at, piece in enumerate(history) if piece.kind == "user"]
            first = starts[-count] if len(starts) > count > 0 else 0
            exchanges = history[first:] if count > 0 else []
            return Parts(exchanges, facts, self._last_thoughts(work), [])
        calls = [piece.without_thought() for piece in work]
        pairs = [piece for piece in calls if piece.kind == "pair"]
        if window is Window.EMERGENCY:
            # so many results in all, but always the newest pair
            left, newest, pairs = self.windows.emergency_results, pairs[::-1], []
            for pair in newest:
                results = len(pair.messages) - 1
                if pairs and results > left:
                    break
                left -= results
                pairs.append(pair)
            facts = facts[-left:] if left > 0 else []
        said = [] if latest else [piece for piece in calls if piece.kind == "user"][-1:]
        kept = {*pairs, *said}
        return Parts([], facts, [piece for piece in calls if piece in kept], [])

    def _last_thoughts(self, work: Sequence[Piece]) -> list[Piece]:
        """Keep the last thoughts, alone or beside their calls; those that are in no message come last."""
        count = self.windows.moderate_thoughts
        listed = [piece for piece in work if piece.thought]
        texts = {"", *(piece.thought for piece in listed)}
        unlisted = [
            Piece("thought", ({"role": "assistant", "content": text},))
            for text in (self.thinking_blocks[-count:] if count else ())
            if text.strip() not in texts
        ]
        dropped = {*listed[: max(0, len(listed) + len(unlisted) - count)]}
        kept = [p for p in work if p.kind != "thought" or p not in dropped]
        return [*(p.without_thought() if p in dropped else p for p in kept), *unlisted]

    def _shortened(self, pair: Piece, room: int) -> list[Piece]:
        call, *results = pair.messages
        chars = max(len(text_of(result)) for result in results)
        while chars >= _SHORTEST_RESULT_CHARS:
            shorter = [{**one, "content": without_middle(text_of(one), chars)} for one in results]
            if self._size([call, *shorter]) <= room:
                return [Piece("pair", (call, *shorter))]
            chars = chars * 3 // 4
        return []

    def _size(self, messages: Iterable[Message]) -> int:
        return sum(map(self.windows.tokens, messages))

    def _stuck_text(self, stuck_type: str) -> str:
        if stuck_type == "theme_loop":
            about = (self.last_thinking_themes or [GENERAL])[-1].replace("_", " ")
            return (
                "ERROR: You're repeating yourself. Take action immediately. The last "
                f"{self.theme_window} thoughts were {about}: make one tool call not tried yet, or answer."
            )
        thoughts, quiet = self.consecutive_thoughts_without_tools, self.iterations_without_new_facts
        seen = f"You are stuck ({stuck_type})."
        if stuck_type == "repeated_planning":
            seen = f"You have been thinking {thoughts} times in a row without using a tool."
        elif stuck_type == "no_progress":
            seen = f"The last {quiet} iterations brought no new result."
        return f"{seen} Take action immediately: one tool call not tried yet, or your answer."


def _count(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    return len(value) if isinstance(value, list | tuple | set | frozenset | dict) else 0
