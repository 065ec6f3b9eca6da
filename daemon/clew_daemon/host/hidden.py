"""Whether the sandbox may be why an action failed, by the end of what it printed."""

import errno
import os
import re
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path

from clew_daemon.config.places import Places
from clew_shared.config.tables import SandboxSettings
from clew_shared.text.shorten import beginning

TAIL_CHARS, PATHS_MAX, PATH_CHARS = 4_000, 20, 200
NOT_SHOWN = "It cannot use {}: actions see their workspace, system folders, and what `[sandbox] read` and `write` name"
_SYSTEM = re.compile(r"/(usr|lib\w*|s?bin|etc|opt|nix|gnu|snap|proc|sys|dev|run)(/|$)")
_PATH = re.compile(r"""/[^\s\0\ud800-\udfff'"`\u2018\u2019\u201c\u201d:,;()<>]+""")
_GONE = (os.strerror(errno.ENOENT), "Directory nonexistent")  # as dash says it
_DENIED = tuple(map(os.strerror, (errno.EACCES, errno.EPERM, errno.EROFS)))


def hidden(output: str, workspace: str, places: Places, sandbox: SandboxSettings) -> str:
    """Return which path an action could not use since it is hidden or protected, in a line, "" for none.

    A line of the output must say that a path is missing, or denied, which out here is neither. Blocks, never raises.
    """
    if sandbox.mode == "off":
        return ""
    own = (workspace, sys.prefix, sys.base_prefix, *places.folders.values())
    seen = (*own, *sandbox.read, *sandbox.write)
    shown = [os.path.realpath(os.path.expanduser(str(one))) for one in seen]  # noqa: PTH111 - texts, too
    lines = reversed(output[-TAIL_CHARS:].splitlines())
    named = ((line, path) for line in lines for path in _PATH.findall(line))
    for line, path in islice(named, PATHS_MAX):
        with suppress(OSError, ValueError, RecursionError):  # of a long chain of links
            real = Path(os.path.realpath(path))
            is_own = _SYSTEM.match(str(real)) or any(map(real.is_relative_to, shown))
            if len(real.parts) > len(("/", "tmp")) and not is_own and _is_open(real, line):
                return NOT_SHOWN.format(beginning(path, PATH_CHARS))
    return ""


def _is_open(path: Path, line: str) -> bool:
    """Return whether a person may use what the line says is missing or denied."""
    there = path if os.path.exists(path) else path.parent  # noqa: PTH110 - False for any error
    if any(text in line for text in _GONE):
        is_deep = len(path.parts) > len(("/", "tmp", "name"))
        return there == path or (is_deep and os.path.isdir(there))  # noqa: PTH112 - as above
    return any(text in line for text in _DENIED) and os.access(there, os.R_OK | os.W_OK)
