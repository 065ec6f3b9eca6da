"""How much of a conversation is shown, by iteration: the progressive windows and their markers. Pure."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

JSON_CHARS_PER_TOKEN = 3.5
"""Characters of JSON per token until a server's own count is known: on the safe side for English and code."""


class Window(IntEnum):
    """How strictly a conversation is cut; a larger value keeps less."""

    FULL = 0
    MODERATE = 1
    AGGRESSIVE = 2
    EMERGENCY = 3


def window_at(iteration: int, *starts: int) -> Window:
    """Return the window of an iteration, given where the ones after the first start."""
    return Window(sum(iteration >= start for start in starts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The thresholds of trimming: iterations from 0, each `until` the first beyond; characters of JSON per token."""

    full_until: int = 10
    moderate_until: int = 15
    aggressive_until: int = 20
    progress_from: int = 5
    iterations_without_facts: int = 5
    moderate_exchanges: int = 2
    moderate_thoughts: int = 2
    emergency_results: int = 3
    chars_per_token: float = JSON_CHARS_PER_TOKEN

    def __post_init__(self) -> None:
        full, moderate, aggressive = self.full_until, self.moderate_until, self.aggressive_until
        if not 0 <= full <= moderate <= aggressive:
            given = f"full_until={full}, moderate_until={moderate}, aggressive_until={aggressive}"
            raise ValueError(f"windows out of order: {given}; none may be less than the one before")
        if self.chars_per_token <= 0:
            raise ValueError(f"chars_per_token is {self.chars_per_token}; it must be above 0")

    def at(self, iteration: int) -> Window:
        return window_at(iteration, self.full_until, self.moderate_until, self.aggressive_until)

    def tokens(self, message: Mapping[str, Any]) -> int:
        """Return an estimate of the tokens of one message, calls and framing included."""
        return math.ceil(json_chars(message) / self.chars_per_token)


def json_chars(value: Any) -> int:
    """Return the characters of a message or another value as JSON, by which tokens are estimated."""
    return len(json.dumps(value, ensure_ascii=False, default=str))


def progress_marker(
    iteration: int, max_iterations: int, tools_used: int, pages_read: int | None = None
) -> str:
    """Return the progress: `[PROGRESS: Iteration 7/30 | 3 tools used | 2 pages read]`."""
    pages = "" if pages_read is None else f" | {pages_read} pages read"
    return f"[PROGRESS: Iteration {iteration}/{max_iterations} | {tools_used} tools used{pages}]"


def urgency_marker(window: Window, iterations_left: int) -> str:
    """Return a text that presses for an answer in the last two windows, "" before."""
    if window is Window.EMERGENCY:
        return f"[EMERGENCY: {iterations_left} iterations remaining. Synthesize NOW.]"
    if window is Window.AGGRESSIVE:
        return f"[{iterations_left} iterations left. Complete your answer.]"
    return ""


_MARKER = re.compile(
    r"\[PROGRESS: Iteration \d+/\d+ \| \d+ tools used \| \d+ pages read\]"
    r"|\[EMERGENCY: \d+ iterations remaining\. Synthesize NOW\.\]"
    r"|\[\d+ iterations left\. Complete your answer\.\]"
    r"|(?P<stuck>.*Take action immediately\b.* one tool call not tried yet, or (your )?answer\.)"
)


def stuck_lines(text: str) -> list[str] | None:
    """Return the lines that tell a stuck agent to act; None for a text of more than markers and urgency."""
    found = [_MARKER.fullmatch(line.strip()) for line in text.splitlines()]
    markers = [one for one in found if one]
    return [m[0] for m in markers if m["stuck"]] if found and markers == found else None
