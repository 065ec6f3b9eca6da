"""Snapshots of simulated folders: what an executor sees change, and what it takes and restores.

A file's content is its own git object. The rules of who changed what, and of what is restored, are the daemon's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from clew_daemon.undo import undo
from clew_shared.record.touched import Touched
from clew_shared.snapshots import plan
from clew_shared.snapshots.entries import Entry, Listing, Reverted
from clew_shared.wire.executor import RestoreDone

if TYPE_CHECKING:
    from sim_cells import Files
    from sim_world import World

FILE = 0o100644


class SimWatch:
    """What one executor has seen change in its folder since it last reported."""

    def __init__(self, folder: Files, notes: dict[int, set[str]]) -> None:
        self._folder = folder
        self._seen = dict(folder.contents)
        self.own: dict[str, str] = {}
        self._notes, self.noted = notes, next(iter(notes), 0)
        self._foreign: set[str] = set().union(*notes.values())
        self.anchored = False

    def look(self, *, own: bool) -> None:
        """See what has changed since the last look: by the goal, or by someone else."""
        now, before = self._folder.contents, self._seen
        names = {name for name in now.keys() | before.keys() if now.get(name) != before.get(name)}
        if own:
            self.own |= {name: now.get(name, "") for name in names}
        else:
            self._foreign |= names
        self._seen = dict(now)

    def pass_over(self) -> None:
        """See what an undo has restored, which is reported elsewhere."""
        self._seen = dict(self._folder.contents)

    def look_before(self, action: int) -> None:
        """See what someone else has changed, and note it for the next executor."""
        self.look(own=False)
        self._notes.clear()
        self._notes[action] = set(self._foreign)

    def report(self) -> Touched:
        """Return what was seen, once."""
        own = tuple(sorted(self.own.items()))
        foreign = tuple(sorted(self._foreign)) if self.anchored else ()
        total = len(foreign) if self.anchored else -1
        self.own, self._foreign = {}, set()
        return Touched(own=own, own_total=len(own), foreign=foreign, foreign_total=total)


def restore(world: World, goal: str, folder: Files, entries: tuple[Reverted, ...]) -> RestoreDone:
    """Restore those entries of which the folder still has what was expected."""
    restored: list[str] = []
    left: list[str] = []
    for one in entries:
        now, wanted, present = (
            folder.contents.get(one.name),
            one.wanted and one.wanted[1],
            one.present and one.present[1],
        )
        if now not in (wanted, present):
            left.append(one.name)
            continue
        if now != wanted:  # else someone has put it back already
            world.watch.restores(goal, folder, one.name)
        if wanted is None:
            folder.contents.pop(one.name, None)
        else:
            folder.contents[one.name] = wanted
        restored.append(one.name)
    return RestoreDone(id=0, restored=tuple(restored), left=tuple(left))


def in_place_of(world: World) -> Iterator[tuple[Any, str, Any]]:
    """Give what takes the place of git: module, name, and the world's own."""

    def listing(_store: Any, tree: str) -> Listing:
        return {name: Entry(FILE, content) for name, content in sorted(world.trees[tree].items())}

    store = SimpleNamespace(within=lambda _: None)
    yield plan, "listing", listing
    yield undo, "program", lambda _: "git"
    yield undo, "at", lambda *_: store
