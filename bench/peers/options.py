"""What a person asked of the bench, as each part of it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Options:
    """`only` names peers (empty: all of them); `rounds` is None where the part's own number holds."""

    only: frozenset[str] = frozenset()
    rounds: int | None = None
    quick: bool = False
    json: bool = False

    def chosen(self, peers: Iterable[str]) -> list[str]:
        """Those of these peers that are wanted; empty where none of them was asked for."""
        return [name for name in peers if not self.only or name in self.only]

    def count(self, usual: int, quick: int) -> int:
        """Rounds to measure: as asked for, else few or many."""
        return self.rounds or (quick if self.quick else usual)
