"""A timeline in columns of characters, as a terminal shows it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_shared.views.timeline import badness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew_shared.views.timeline import Lane, Mark


@dataclass(frozen=True, slots=True)
class LaneColumns:
    """A lane in columns, counted from 0: its worker lived from `first` to `last`, and `marks` are by column.

    Of marks that share a column the worst one is there.
    """

    lane: Lane
    first: int
    last: int
    marks: dict[int, Mark]

    def beside(self, column: int, step: int) -> int | None:
        """Return the next column to the right (`step` 1) or left (-1) with another mark, None if there is none."""
        here = self.marks.get(column)
        there = [at for at, m in self.marks.items() if (at - column) * step > 0 and m is not here]
        return min(there, key=lambda at: abs(at - column), default=None)

    def nearest(self, column: int) -> int | None:
        """Return the column with a mark that is nearest to one, None if there is none."""
        return min(self.marks, key=lambda at: abs(at - column), default=None)


def column_of(place: float, width: int) -> int:
    """Return the column of a place between 0 and 1."""
    return min(width - 1, max(0, int(place * width)))


def lane_columns(lane: Lane, width: int) -> LaneColumns:
    """Return a lane in `width` columns, at least 1."""
    first, last = column_of(lane.start, width), column_of(lane.start + lane.width, width)
    return LaneColumns(lane, first, last, _marks(lane.marks, width))


def _marks(marks: Iterable[Mark], width: int) -> dict[int, Mark]:
    found: dict[int, Mark] = {}
    for mark in marks:
        last = column_of(mark.start + mark.width, width)
        for at in range(column_of(mark.start, width), last + 1):
            there = found.get(at)
            if there is None or badness(mark.result) >= badness(there.result):
                found[at] = mark
    return dict(sorted(found.items()))
