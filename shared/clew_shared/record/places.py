"""The place that a command works in: its answer there is no answer about another place. Pure."""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final

from clew_shared.judge.reading import COMMANDS, command_of
from clew_shared.record.signature import PATH_ENDINGS, PATH_KEYS

PLACE_CHARS: Final = 400

_CHANGES_FOLDER: Final = re.compile(
    r"(?:^|[;&|(\n])\s*(?:cd|pushd)\s+(\"[^\"]+\"|'[^']+'|[^\s;&|()]+)"
)
_FOLDER_OPTION: Final = re.compile(r"\s(?:-C|--directory|--prefix|--cwd)[ =]([^\s;&|()]+)")
_PATH: Final = re.compile(
    r"(?<![^\s=\"'(])(?:[^\s;&|()\"'=<>*?$]*/[^\s;&|()\"'<>*?$]*|[\w-]+\.[a-z]\w{0,4}(?=$|[\s;&|()\"']))"
)
_NOTHING: Final = re.compile(r"^\W*(no|none|not|nothing|never|zero|empty|false|0)\b", re.IGNORECASE)


def place_of(args: dict[str, Any], head: str, workspace: str) -> str:
    """Return the folders that a successful command works in, "" if it names none.

    A check that passes in another package brings something new. So does a path among its words, unless the answer is
    that there is nothing: looking for something along ever new paths without finding it brings nothing new.
    """
    line = command_of(args)
    if not line:
        return ""
    patterns = [_CHANGES_FOLDER, _FOLDER_OPTION]
    if head.strip() and not _NOTHING.match(head):
        patterns.append(_PATH)
    named = [found for pattern in patterns for found in pattern.findall(line)]
    named += [
        v for k, v in args.items() if isinstance(v, str) and k not in COMMANDS and _is_path(k)
    ]
    clean = {_clean(path, workspace) for path in named}
    return " ".join(sorted(clean - {"."}))[:PLACE_CHARS]


def _is_path(key: str) -> bool:
    return key in PATH_KEYS or key.endswith(PATH_ENDINGS)


def _clean(path: str, workspace: str) -> str:
    clean = posixpath.normpath(path.strip("\"'"))
    root = posixpath.normpath(workspace) if workspace else ""
    return posixpath.relpath(clean, root) if root and clean.startswith(root) else clean
