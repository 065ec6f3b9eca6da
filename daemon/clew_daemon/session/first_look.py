"""What is in the workspace when a conversation begins, as far as the goal names it or stands at its top.

Told nothing, small models open files whose names they have made up, or write over files that they have not read.
"""

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from clew_shared.text.redact import redact
from clew_shared.text.shorten import in_one_line

SHOWN = 20
NAME_CHARS = 160
NAMES_READ = 1_000
TEXT_CHARS = 10_000
_PATHS = re.compile(r"[\w][\w./-]*")


def paths_there(workspace: Path, text: str) -> tuple[str, ...]:
    """Return paths relative to a workspace, folders with a slash: those that a text names, then the top folder's.

    Hidden names are left out, and so is what cannot be read; at most `SHOWN`, the last then says how many more.
    """
    named = (
        path
        for word in _PATHS.findall(text[:TEXT_CHARS])
        for path in _named(workspace, word.rstrip("."))
    )
    found = list(dict.fromkeys([*islice(named, SHOWN), *_within(workspace, "")]))
    more = len(found) - SHOWN
    shown = [in_one_line(redact(path), NAME_CHARS) for path in found[:SHOWN]]
    return (*shown, f"and {more} more") if more > 0 else tuple(shown)


def _named(workspace: Path, word: str) -> Iterator[str]:
    """Return the path that a word is, or what is in the folder that it is."""
    path = word.strip("/")
    try:
        place = Path(os.path.realpath(workspace), path)
        mode = place.lstat().st_mode
        if not path or ".." in place.parts or os.path.realpath(place.parent) != str(place.parent):
            return  # a link may lead to what the agent itself cannot read
    except (OSError, ValueError):
        return
    if stat.S_ISDIR(mode):
        yield from _within(workspace, f"{path}/")
    else:
        yield path


def _within(workspace: Path, folder: str) -> list[str]:
    try:
        with os.scandir(workspace / folder) as entries:
            few = [e for e in islice(entries, NAMES_READ) if not e.name.startswith((".", "__"))]
            return sorted(folder + _shown(e) for e in few)
    except OSError:
        return []


def _shown(entry: os.DirEntry[str]) -> str:
    name = os.fsencode(entry.name).decode(errors="replace")
    return f"{name}/" if entry.is_dir(follow_symlinks=False) else name
