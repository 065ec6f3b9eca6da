"""How much of a conversation is shown, by iteration: the progressive windows and a marker. Pure."""

from enum import IntEnum

JSON_CHARS_PER_TOKEN = 3.5
"""Characters of JSON per token until a server's own count is known: on the safe side for English and code."""


class Window(IntEnum):
    """How strictly a conversation is cut; a larger value keeps less."""

    FULL = 0
    MODERATE = 1
    AGGRESSIVE = 2
    EMERGENCY = 3


def window_at(iteration: int, *starts: int) -> Window:
    """Return the window of an iteration from 0, given where the ones after the first start: by default 10, 15, 20."""
    return Window(sum(iteration >= start for start in starts or (10, 15, 20)))


def progress_marker(
    iteration: int, max_iterations: int, tools_used: int, pages_read: int | None = None
) -> str:
    """Return the progress: `[PROGRESS: Iteration 7/30 | 3 tools used | 2 pages read]`."""
    pages = "" if pages_read is None else f" | {pages_read} pages read"
    return f"[PROGRESS: Iteration {iteration}/{max_iterations} | {tools_used} tools used{pages}]"
