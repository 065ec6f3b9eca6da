"""What `workspace_guard` asks of the machine, played: folders of the simulated world, by path and by descriptor."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from clew_shared.record.identity import Identity

if TYPE_CHECKING:
    from sim_cells import Files
    from sim_world import World

DEVICE = 1


class SimOs:
    """The calls of `os` that look at a workspace."""

    O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_CLOEXEC = (
        *(os.O_RDONLY, os.O_DIRECTORY),
        *(os.O_NOFOLLOW, os.O_CLOEXEC),
    )
    R_OK, X_OK = os.R_OK, os.X_OK
    major, minor = staticmethod(os.major), staticmethod(os.minor)
    path = SimpleNamespace(realpath=lambda path: path)

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[int, Files] = {}

    def at(self, path: str) -> Files:
        folder = self._world.there(path)
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return folder

    def opened(self, fd: int) -> Files:
        return self._open[fd]

    def stat(self, path: str, *, follow_symlinks: bool) -> Any:
        del follow_symlinks
        number = self.at(path).number
        return SimpleNamespace(st_dev=DEVICE, st_ino=number, st_mode=stat.S_IFDIR | 0o755)

    def access(self, path: str, _mode: int) -> bool:
        return self._world.there(path) is not None

    def open(self, path: str, _flags: int) -> int:
        fd = max(self._open, default=2) + 1
        self._open[fd] = self.at(path)
        return fd

    def getpid(self) -> int:
        return 1

    def close(self, fd: int) -> None:
        del self._open[fd]


def in_place_of(world: World) -> dict[str, Any]:
    """Give what takes the place of the names in the module `clew_daemon.processes.workspace_guard`."""
    played = SimOs(world)

    def identity(folder: Files) -> Identity:
        return Identity(dev=DEVICE, ino=folder.number, birth_ns=folder.number)

    return {
        "os": played,
        "identity": SimpleNamespace(
            of_path=lambda path: identity(played.at(path)),
            of_descriptor=lambda fd: identity(played.opened(fd)),
        ),
        "Path": lambda path: SimpleNamespace(mkdir=lambda **_: world.make(path)),
        "_lock": lambda *_: (fcntl.F_UNLCK, 0),
    }
