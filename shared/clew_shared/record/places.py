"""The place that a command works in: its answer there is no answer about another place. Pure."""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final

from clew_shared.record.progress import CHANGES_FOLDER, COMMAND_KEYS, commands
from clew_shared.record.signature import PATH_ENDINGS, PATH_KEYS

PLACE_CHARS: Final = 400

_FOLDER_OPTION: Final = re.compile(r"\s(?:-C|--directory|--prefix|--cwd)[ =]([^\s;&|()]+)")
_WORDS_WITH_SLASH: Final = re.compile(r"(?<![^\s=\"'(])[^\s;&|()\"'=<>*?$]*/[^\s;&|()\"'<>*?$]*")
_NOTHING: Final = re.compile(r"^\W*(no|none|not|nothing|never|zero|empty|false|0)\b", re.IGNORECASE)


def place_of(args: dict[str, Any], head: str, workspace: str) -> str:
    """Return the folders that a command names, "" if it names none or its answer is that there is nothing.

    Looking for something in ever new places without finding it brings nothing new, a check that passes in another
    package does.
    """
    lines = commands(args)
    if not lines or not head.strip() or _NOTHING.match(head):
        return ""
    named = [found for line in lines for pattern in _PATTERNS for found in pattern.findall(line)]
    named += [
        v for k, v in args.items() if isinstance(v, str) and k not in COMMAND_KEYS and _is_path(k)
    ]
    clean = {_clean(path, workspace) for path in named}
    return " ".join(sorted(clean - {"."}))[:PLACE_CHARS]


_PATTERNS: Final = (CHANGES_FOLDER, _FOLDER_OPTION, _WORDS_WITH_SLASH)


def _is_path(key: str) -> bool:
    return key in PATH_KEYS or key.endswith(PATH_ENDINGS)


def _clean(path: str, workspace: str) -> str:
    clean = posixpath.normpath(path.strip("\"'"))
    root = posixpath.normpath(workspace) if workspace else ""
    return posixpath.relpath(clean, root) if root and clean.startswith(root) else clean
