"""The need-to-know text of a goal, `get_compact_context` (docs/context.md).

A pure function of the state: `compact_lines` collects the lines, this module makes them fit. Goal, active subtask,
blocked actions and warnings are never dropped, only shortened; recent actions are dropped first, then notes, then
finished work and failed attempts, then all other lines.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from clew_shared.prompt.compact_lines import RECENT_ACTIONS, Keep, Line, lines_of
from clew_shared.text.shorten import beginning

if TYPE_CHECKING:
    from clew_shared.record.state import State

ALWAYS_SHARE = 0.5
"""The share of the room up to which the lines that must stay displace no other line."""

SPACING_SHARE = 0.1
"""Headings and empty lines are left out where they would take more of the room."""

_SHARES = ((Keep.OVER, 0.25), (Keep.RECENT, 0.2), (Keep.NOTES, 0.2), (Keep.TRIED, 0.15))
"""The kinds that are shortened first, in this order, and the share of the room that each keeps.

Finished work comes before the actions only where there is a lot of it: it must not displace the last results.
"""


def compact_context(
    state: State, max_chars: int = 2000, *, recent_actions: int = RECENT_ACTIONS
) -> str:
    """Return the state of the work in at most `max_chars` characters."""
    lines = lines_of(state, recent_actions)
    spacing = len(_text(lines, spaced=True)) - len(_text(lines, spaced=False))
    spaced = spacing <= SPACING_SHARE * max_chars
    limit = max_chars + 1  # each line is counted with its end, the last has none
    if spaced:
        limit -= spacing  # what is dropped below only makes it less
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
    return _text(lines, spaced=spaced)[: max(max_chars, 0)]


def _text(lines: list[Line], *, spaced: bool) -> str:
    """Return the lines as one text, with headings and empty lines between sections if it is `spaced`."""
    texts: list[str] = []
    for before, line in pairwise([None, *lines]):
        if line is None:
            continue
        if spaced and before and line.section != before.section:
            texts.append("")
        if spaced and line.heading and (before is None or line.heading != before.heading):
            texts.append(line.heading)
        texts.append(line.text)
    return "\n".join(texts)


def _without_older(
    lines: list[Line], keep: Keep, excess: int, share: int, spare: int = 1
) -> list[Line]:
    """Drop the older lines of a kind while there is an excess and they take more than their share."""
    size = _size(lines, keep)
    count = sum(line.keep is keep for line in lines)
    left = []
    for line in lines:
        if line.keep is keep and count > spare and excess > 0 and size > share:
            excess, size, count = excess - _width(line), size - _width(line), count - 1
        else:
            left.append(line)
    return left


def _shorter(lines: list[Line], keep: Keep, excess: int, share: int) -> list[Line]:
    """Shorten the lines of a kind by the excess, but not below its share."""
    if excess <= 0 or not share:
        return lines
    return [
        _cut(line, max(len(line.text) - excess, min(share, len(line.text))))
        if line.keep is keep
        else line
        for line in lines
    ]


def _squeezed(lines: list[Line], room: int) -> list[Line]:
    """Shorten the longest of the lines that must stay until all fit; each keeps its beginning."""
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
    return [_cut(line, low) if line.keep is Keep.ALWAYS else line for line in lines]


def _cut(line: Line, max_chars: int) -> Line:
    return line._replace(text=beginning(line.text, max_chars))


def _width(line: Line) -> int:
    return len(line.text) + 1


def _size(lines: list[Line], keep: Keep | None = None) -> int:
    return sum(_width(line) for line in lines if keep is None or line.keep is keep)
