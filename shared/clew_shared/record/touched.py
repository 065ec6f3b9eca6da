"""What was changed in a workspace between two looks, and by whom."""

from itertools import accumulate

from pydantic import BaseModel

NAMES_MAX, NAMES_BYTES_MAX = 1_000, 100_000  # that are listed, together
PATHS_MAX, PATHS_CHARS_MAX = 100, 10_000  # that are kept with an action


class Touched(BaseModel, frozen=True, extra="ignore"):
    """What was changed since the last report, by quoted name; the totals count all, -1 where that is not known."""

    # during the action or check, each with its git object ("" removed, "/" a folder, "?" not read)
    own: tuple[tuple[str, str], ...] = ()
    own_total: int = 0
    foreign: tuple[str, ...] = ()  # before it, while nothing ran
    foreign_total: int = 0
    left: bool = False  # meanwhile something was alive that the goal has left running
    judges: tuple[str, ...] = ()  # those of `paths`, as plain text, that judge the work

    @property
    def own_cut(self) -> bool:
        return self.own_total != len(self.own)

    @property
    def paths(self) -> tuple[str, ...]:
        """The first names that the goal changed, quoted."""
        names = [name for name, _ in self.own[:PATHS_MAX]]
        lengths = accumulate(len(name) for name in names)
        return tuple(
            n for n, so_far in zip(names, lengths, strict=True) if so_far <= PATHS_CHARS_MAX
        )


UNMEASURED = Touched(own_total=-1, foreign_total=-1)  # anything may have been changed, by anyone
