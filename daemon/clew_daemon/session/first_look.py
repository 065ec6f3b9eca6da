"""What is in the workspace when a conversation begins: told nothing, small models make up names of files."""

import os
import re
import stat
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
    """Return at most `SHOWN` paths, folders with a slash: those that a text names, then the top folder's."""
    found: dict[str, None] = {}
    for word in _PATHS.findall(text[:TEXT_CHARS]):
        if len(found) < SHOWN:
            found |= dict.fromkeys(_named(workspace, word.rstrip(".").strip("/")))
    found |= dict.fromkeys(_within(workspace, ""))
    more = len(found) - SHOWN
    shown = [in_one_line(redact(path), NAME_CHARS) for path in islice(found, SHOWN)]
    return (*shown, f"and {more} more") if more > 0 else tuple(shown)


def _named(workspace: Path, path: str) -> list[str]:
    """Return the path that a word is, or what is in the folder that it is; a link may lead out, so none is followed."""
    place = Path(os.path.realpath(workspace), path)
    try:
        mode = place.lstat().st_mode
        outside = ".." in place.parts or os.path.realpath(place.parent) != str(place.parent)
    except (OSError, ValueError):
        return []
    if not path or outside:
        return []
    return _within(workspace, f"{path}/") if stat.S_ISDIR(mode) else [path]


def _within(workspace: Path, folder: str) -> list[str]:
    try:
        with os.scandir(workspace / folder) as entries:
            few = [e for e in islice(entries, NAMES_READ) if not e.name.startswith((".", "__"))]
            ends = ((e.name, "/" * e.is_dir(follow_symlinks=False)) for e in few)
            names = ((os.fsencode(name).decode(errors="replace"), end) for name, end in ends)
            return sorted(f"{folder}{name}{end}" for name, end in names)
    except OSError:
        return []
