"""What to measure, as given on the command line."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure; `only` empty means all peers, `rounds` None the usual number."""

    only: frozenset[str] = frozenset()
    rounds: int | None = None
    quick: bool = False
    json: bool = False

    def chosen(self, peers: Iterable[str]) -> list[str]:
        return [name for name in peers if not self.only or name in self.only]

    def count(self, usual: int, quick: int) -> int:
        return self.rounds or (quick if self.quick else usual)

    def command(self, part: str) -> str | None:
        """Return the command to note on the page; None for a run that is not worth one."""
        if self.quick or self.only:
            return None
        return f"python -m bench.peers {part}" + (f" --rounds {self.rounds}" if self.rounds else "")
