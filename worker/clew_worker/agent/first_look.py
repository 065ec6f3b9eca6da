"""What is in the workspace when a conversation begins, as far as the goal names it or stands at its top.

Told nothing, small models open files whose names they have made up, or write over files that they have not read.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

SHOWN = 20
NAMES_READ = 1_000
_PATHS = re.compile(r"[\w][\w./-]*")


def paths_there(workspace: Path, text: str) -> list[str]:
    """Return paths relative to a workspace, folders with a slash: those that a text names, then the top folder's.

    Hidden names are left out, and so is what cannot be read; at most `SHOWN`, the last then says how many more.
    """
    named = (path for word in _PATHS.findall(text) for path in _named(workspace, word.rstrip(".")))
    found = list(dict.fromkeys([*islice(named, SHOWN), *_within(workspace, "")]))
    more = len(found) - SHOWN
    return [*found[:SHOWN], f"and {more} more"] if more > 0 else found


def _named(workspace: Path, word: str) -> Iterator[str]:
    """Return the path that a word is, or what is in the folder that it is."""
    path = word.strip("/")
    if not path or ".." in Path(path).parts:
        return
    try:
        if (workspace / path).is_dir():
            yield from _within(workspace, f"{path}/")
        elif (workspace / path).exists():
            yield path
    except OSError:
        return


def _within(workspace: Path, folder: str) -> list[str]:
    try:
        with os.scandir(workspace / folder) as entries:
            few = [e for e in islice(entries, NAMES_READ) if not e.name.startswith((".", "__"))]
            return sorted(f"{folder}{e.name}{'/' if e.is_dir() else ''}" for e in few)
    except OSError:
        return []
