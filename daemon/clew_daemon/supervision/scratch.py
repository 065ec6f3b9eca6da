"""Removes the scratch folders of goals: each goal's own TMPDIR and HOME."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from clew_daemon.processes import cells
from clew_shared.files.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clew_shared.config.places import Places

GONE = ".gone"
"""How the name of a folder ends that is being removed."""


async def clear(places: Places, goal: str) -> None:
    """Remove a goal's own TMPDIR and HOME, which are kept while it lives; one that lives again makes new ones."""
    folders = cells.private(places, goal)
    for folder in folders:  # all at once: what is made under their names from now on is not touched
        with suppress(OSError):
            folder.rename(folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{GONE}"))
    await asyncio.to_thread(remove_folders, folders[0].parent, lambda one: one.name.endswith(GONE))


def remove_folders(parent: Path, over: Callable[[Path], bool]) -> None:
    """Remove the folders in `parent` that are over; one that cannot be removed stays."""
    for folder in parent.iterdir() if parent.is_dir() else ():
        with suppress(OSError):
            if over(folder):
                remove_tree(folder)
