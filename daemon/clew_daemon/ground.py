"""What stands where a goal's workspace should be; looked at before anything acts there.

A workspace can be removed, renamed, or replaced by something else at any moment, by anyone. Paths are real ones
(links resolved when the goal was accepted), so a link on the way is a replacement. Nothing here knows goals.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Lost:
    """Why nothing may act at a workspace: `reason` in a few words, `detail` with the path."""

    reason: str
    detail: str

    def question(self, goal: str) -> str:
        """Ask a person what is to become of it."""
        return f"{self.detail} Put it back, or let it be made anew: `clew resume {goal}`."


def lost(workspace: str) -> Lost | None:
    """Say what is wrong with the place of a workspace, None where it is a folder."""
    real = os.path.realpath(workspace)
    if real != workspace:
        return Lost("the workspace is a link now", f"{workspace} leads to {real} now.")
    try:
        found = os.stat(workspace)  # noqa: PTH116 - the path is text everywhere
    except FileNotFoundError:
        detail = f"{workspace} was removed or renamed while the goal worked in it."
        return Lost("the workspace is gone", detail)
    except OSError as error:
        detail = f"{workspace} cannot be looked at: {error.strerror}."
        return Lost("the workspace cannot be reached", detail)
    if not stat.S_ISDIR(found.st_mode):
        detail = f"{workspace} is something else now than a folder."
        return Lost("the workspace is no folder any more", detail)
    return None


class Ground:
    """The folder that an executor stands on, held open so that another one of its name is told apart."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._fd = -1

    def take(self) -> None:
        """Hold the folder that is there now; none where there is none."""
        self.let_go()
        try:
            self._fd = os.open(self._workspace, _FOLDER)
        except OSError:
            self._fd = -1

    def stands(self) -> bool:
        """Tell, in two calls, that the folder held is the one that is there; False says nothing yet."""
        return self._is_same() is True

    def replaced(self) -> bool:
        """Tell whether another folder stands there than the one held."""
        return self._is_same() is False

    def _is_same(self) -> bool | None:
        """Compare the folder that is there with the one held; None where one of them is not."""
        try:
            held = os.fstat(self._fd)
            now = os.stat(self._workspace, follow_symlinks=False)  # noqa: PTH116 - as above
        except OSError:
            return None
        return os.path.samestat(now, held) if stat.S_ISDIR(now.st_mode) else None

    def let_go(self) -> None:
        """Hold nothing any more; legal at any time."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
