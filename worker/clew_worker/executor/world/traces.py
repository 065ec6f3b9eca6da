"""What has changed in a tree since the last report: how each entry was then, compared with what is there now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_worker.executor.world.contents import object_of
from clew_worker.executor.world.folder import IS_FOLDER

if TYPE_CHECKING:
    from clew_worker.executor.world.folder import Folder, Look

TRACES_MAX = 500_000
"""More entries than this are not compared: the report says that it is not whole."""


class Traces:
    """The entries that were touched since the last report. `whole`: none of them is missing here."""

    def __init__(self) -> None:
        self._before: dict[str, Look | None] = {}
        self.whole = False

    def begin(self) -> None:
        """Begin a report with the tree as it is known now."""
        self._before = {}
        self.whole = True

    def lose(self) -> None:
        """Forget everything: something was not seen, so the next report cannot be whole."""
        self._before = {}
        self.whole = False

    def note(self, folder: Folder, name: str) -> None:
        """Note how an entry was, before it is taken to be anything else."""
        if self.whole:
            self._before.setdefault(folder.path + name, folder.look(name))
            if len(self._before) > TRACES_MAX:
                self.lose()

    def note_all(self, folder: Folder) -> None:
        """Note the entries of a folder that is about to be forgotten."""
        if self.whole:
            for name in folder.lines:
                self.note(folder, name)

    def note_differences(
        self, folder: Folder, lines: dict[str, bytes], modes: dict[str, int]
    ) -> None:
        """Note the entries of a folder that are not as these."""
        if not self.whole or (lines == folder.lines and modes == folder.modes):
            return
        for name in folder.lines.keys() | lines.keys():
            now = lines.get(name), modes.get(name)
            if (folder.lines.get(name), folder.modes.get(name)) != now:
                self.note(folder, name)

    def changed(self, root: Folder) -> dict[str, str]:
        """Return the entries that are not what they were, by path, as in Touched; `root` is the tree's."""
        folders: dict[str, Folder | None] = {"": root}
        found: dict[str, str] = {}
        for path, before in self._before.items():
            above, _, name = path.rpartition("/")
            folder = _folder(folders, above)
            now = folder.look(name) if folder else None
            if now != before:
                found[path] = _object(now)
        return found


def _folder(known: dict[str, Folder | None], path: str) -> Folder | None:
    """Return the folder at a path, None where there is none; `known` has those that were found before."""
    missing: list[str] = []
    while path not in known:
        path, _, name = path.rpartition("/")
        missing.append(name)
    folder = known[path]
    while missing:
        name = missing.pop()
        folder = folder.below.get(name) if folder else None
        path = f"{path}/{name}" if path else name
        known[path] = folder
    return folder


def _object(look: Look | None) -> str:
    """Return the git object of an entry, "" for nothing, "/" for a folder, "?" where it was not read."""
    if look is None:
        return ""
    return "/" if look[0] == IS_FOLDER else object_of(look[0].partition(b"\0")[2])
