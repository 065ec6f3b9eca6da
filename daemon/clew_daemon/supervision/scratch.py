"""Removes the scratch folders of goals: each goal's own TMPDIR and HOME."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clew_daemon.processes import cells
from clew_shared.config.places import Places
from clew_shared.files.removal import remove_tree

GONE = ".gone"
"""The suffix of folders that are being removed."""


async def clear(places: Places, goal: str) -> None:
    """Remove a goal's own folders when it has ended; one that is retried gets new ones.

    Those of a CLI hold copies of login files.
    """
    folders = (*cells.private(places, goal), cells.private_of_cli(places, goal)[0].parent)
    for folder in folders:  # at once: folders that are created under these names from now on stay
        with suppress(OSError):
            folder.rename(folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{GONE}"))
    await asyncio.to_thread(remove_folders, folders[0].parent, lambda one: one.name.endswith(GONE))


def remove_folders(parent: Path, is_expired: Callable[[Path], bool]) -> None:
    """Remove the expired folders in `parent`; one that cannot be removed stays."""
    for folder in parent.iterdir() if parent.is_dir() else ():
        with suppress(OSError):
            if is_expired(folder):
                remove_tree(folder)
