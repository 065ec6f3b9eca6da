"""The need-to-know text of a goal (contract, section 9): `get_compact_context`.

A pure function of the state: `compact_lines` says what there is to show, this how much of it fits.
Goal, active subtask, blocked actions and warnings are never dropped, at most shortened each; recent
actions go first, then notes, then what is over and what was tried, then what else helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.prompt.compact_lines import RECENT_ACTIONS, Keep, Line, cut, lines_of

if TYPE_CHECKING:
    from clew_shared.record.state import State

ALWAYS_SHARE = 0.5
"""So much of the room is left to what must stay, before what else helps is dropped for it."""

_SHARES = ((Keep.OVER, 0.25), (Keep.RECENT, 0.2), (Keep.NOTES, 0.2), (Keep.TRIED, 0.15))
"""What gives way first, in this order, and down to which share of the room; of the actions the newest stays.

Only what is over by the dozen comes before the actions: it must not push out what was said just now.
"""


def compact_context(
    state: State, max_chars: int = 2000, *, recent_actions: int = RECENT_ACTIONS
) -> str:
    """Say where the work stands, in at most `max_chars` characters."""
    lines = lines_of(state, recent_actions)
    limit = max_chars + 1  # each line is counted with its end, the last has none
    always = _size(lines, Keep.ALWAYS)
    for keep, share in _SHARES:
        room = int(share * limit)
        lines = _without_older(
            lines, keep, _size(lines) - limit, 0 if keep is Keep.RECENT else room
        )
        lines = _shorter(lines, keep, _size(lines) - limit, room)
    yielding = max(always - int(ALWAYS_SHARE * limit), 0)
    for keep in Keep:
        if keep is not Keep.ALWAYS:
            lines = _without_older(lines, keep, _size(lines) - yielding - limit, 0, spare=0)
    lines = _squeezed(lines, limit - (_size(lines) - always))
    return "\n".join(line.text for line in lines)[: max(max_chars, 0)]


def _without_older(
    lines: list[Line], keep: Keep, excess: int, share: int, spare: int = 1
) -> list[Line]:
    """Drop the older lines of a kind while there is an excess and they have more than their share."""
    size = _size(lines, keep)
    count = sum(line.keep is keep for line in lines)
    kept = []
    for line in lines:
        if line.keep is keep and count > spare and excess > 0 and size > share:
            excess, size, count = excess - _width(line), size - _width(line), count - 1
        else:
            kept.append(line)
    return kept


def _shorter(lines: list[Line], keep: Keep, excess: int, share: int) -> list[Line]:
    """Shorten what is left of a kind by the excess, but not below its share."""
    if excess <= 0 or not share:
        return lines
    return [
        line._replace(text=cut(line.text, max(len(line.text) - excess, min(share, len(line.text)))))
        if line.keep is keep
        else line
        for line in lines
    ]


def _squeezed(lines: list[Line], room: int) -> list[Line]:
    """Shorten the longest of the lines that must stay until they fit; each keeps its beginning."""
    widths = [_width(line) for line in lines if line.keep is Keep.ALWAYS]
    if sum(widths) <= room:
        return lines
    low, high = 1, max(widths)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(width, middle + 1) for width in widths) <= room:
            low = middle
        else:
            high = middle - 1
    return [
        line._replace(text=cut(line.text, low)) if line.keep is Keep.ALWAYS else line
        for line in lines
    ]


def _width(line: Line) -> int:
    return len(line.text) + 1


def _size(lines: list[Line], keep: Keep | None = None) -> int:
    return sum(_width(line) for line in lines if keep is None or line.keep is keep)
