"""What to measure, as given on the command line."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure; `only` empty means all peers, `rounds` None the usual number."""

    only: frozenset[str] = frozenset()
    rounds: int | None = None
    quick: bool = False

    @property
    def print(self) -> bool:
        """Whether only to print: such a run is not worth a page."""
        return self.quick or bool(self.only)

    def chosen(self, peers: Iterable[str]) -> list[str]:
        return [name for name in peers if not self.only or name in self.only]

    def count(self, usual: int, quick: int) -> int:
        return self.rounds or (quick if self.quick else usual)
