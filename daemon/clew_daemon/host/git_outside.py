"""Where git's folder of a workspace lies, if that is outside of it: in a linked worktree, and in a submodule.

There git needs a folder that the sandbox does not show; a person is told which one. Nothing is decided by it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_BYTES_MAX = 4096
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def outside(workspace: str, writable: Iterable[str | Path]) -> str | None:
    """Return git's folder where it lies outside of `workspace` and of all `writable` folders, else None."""
    named = _text(Path(workspace, ".git"))
    if not named.startswith("gitdir:"):
        return None
    folder = Path(workspace, named.removeprefix("gitdir:").strip())
    common = Path(os.path.realpath(folder / (_text(folder / "commondir").strip() or ".")))
    within = (workspace, *(os.path.expanduser(one) for one in writable))  # noqa: PTH111 - as text
    if any(common.is_relative_to(os.path.realpath(one)) for one in within):
        return None
    return str(common)


def hint(folder: str) -> str:
    """Say what would let git work."""
    return f'git fails in this workspace unless the config allows its folder: [sandbox] write = ["{folder}"]'


def _text(path: Path) -> str:
    """Read a small regular file; "" for anything else."""
    try:
        fd = os.open(path, _READ)
    except (OSError, ValueError):  # a path with a zero in it
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, _BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
