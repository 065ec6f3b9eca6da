"""The folders that a `[sandbox] read` line would have to name for a program to work; it only reads links."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

READABLE = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc",
    "/opt",
    "/proc",
    "/sys",
    "/nix",
    "/dev",
)
"""Always readable in a sandbox."""

TOO_WIDE = frozenset(("/", "/home", "/root", "/tmp", "/var", "/srv", "/mnt", "/media", "/run"))  # noqa: S108 - names only
LINKS_MAX = 10
_PROGRAMS = frozenset(("bin", "sbin", "libexec", "shims", "scripts"))
_DEEP = {".local": 3, ".config": 2, ".cache": 2}
_BESIDE = {".cargo": (".rustup",)}
_VARIABLES = {
    ".rustup": "RUSTUP_HOME",
    ".pyenv": "PYENV_ROOT",
    ".asdf": "ASDF_DATA_DIR",
    ".volta": "VOLTA_HOME",
    ".rbenv": "RBENV_ROOT",
    ".local/share/mise": "MISE_DATA_DIR",
}
_PATHS = re.compile(r"(?<![\w.:])/[^\s'\":;,()\[\]<>]+")


def roots(paths: Iterable[str], home: str) -> list[str]:
    """Return the folders to allow so that these paths and their link targets can be read, each once."""
    found: list[str] = []
    for path in paths:
        for one in chain(path):
            root = _root(one, home)
            if root:
                found.append(root)
                name = os.path.relpath(root, home)
                found += [str(Path(home, more)) for more in _BESIDE.get(name, ())]
    return [root for root in dict.fromkeys(found) if Path(root).is_dir()]


def variables(folders: Iterable[str], home: str) -> dict[str, str]:
    """Return variables with the places of these folders, for tools that otherwise look in HOME."""
    names = {os.path.relpath(folder, home): folder for folder in folders}
    return {_VARIABLES[name]: folder for name, folder in names.items() if name in _VARIABLES}


def chain(path: str) -> list[str]:
    """Return a path, its link targets step by step, and the interpreter that its first line names."""
    found: list[str] = []
    todo = [os.path.abspath(path)]  # noqa: PTH100 - links stay
    while todo and len(found) < LINKS_MAX:
        one = todo.pop()
        found.append(one)
        try:
            if Path(one).is_symlink():
                todo.append(os.path.normpath(Path(one).parent / Path(one).readlink()))
            else:
                found.append(os.path.realpath(one))
                todo += _interpreter(found[-1])
        except OSError:
            continue
    return list(dict.fromkeys(found))


def mentioned(output: str) -> list[str]:
    """Return the absolute paths that an error names and that exist."""
    return [path for path in dict.fromkeys(_PATHS.findall(output)) if os.path.lexists(path)]


def line(settings_read: Iterable[str], folders: Iterable[str], home: str) -> str:
    """Return the line for `[sandbox]`, including the folders that are allowed already."""
    named = dict.fromkeys([*settings_read, *(shown(folder, home) for folder in folders)])
    return f"read = {toml_list(named)}"


def toml_list(texts: Iterable[str]) -> str:
    """Return texts as a list of TOML."""
    return json.dumps(list(texts), ensure_ascii=False)


def shown(folder: str, home: str) -> str:
    """Return a folder as the config may name it, with `~` for the user's home."""
    return "~" + folder[len(home) :] if folder.startswith(home + "/") else folder


def _interpreter(path: str) -> list[str]:
    if not Path(path).is_file():
        return []
    with Path(path).open("rb") as file:
        head = file.readline(4096)
    words = head[2:].decode("utf-8", "replace").split() if head.startswith(b"#!") else []
    return [words[0]] if words and words[0].startswith("/") else []


def _root(path: str, home: str) -> str:
    """Return the folder that a path belongs to, "" if it is readable anyway or would allow too much."""
    if path.startswith(home + "/") and home != "/":
        parts = path[len(home) + 1 :].split("/")
        if parts[0].startswith("."):
            depth = _DEEP.get(parts[0], 1)
            if parts[:2] == [".local", "bin"]:
                depth = 2
            return str(Path(home, *parts[: min(depth, len(parts))]))
    if any(path == one or path.startswith(one + "/") for one in READABLE):
        return ""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    if folder.name in _PROGRAMS:
        folder = folder.parent
    return "" if str(folder) in TOO_WIDE or str(folder) == home else str(folder)
