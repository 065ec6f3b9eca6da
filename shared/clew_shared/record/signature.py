"""When two actions are the same: by names and arguments only, not by results or the disk (docs/loops.md, Terms)."""

import hashlib
import json
import posixpath
from typing import Any

LONG_STRING_CHARS, LONG_ARGS_CHARS = 200, 8_000  # longer ones are replaced by their digest
PATH_KEYS = frozenset({"path", "file", "filename", "dir", "directory", "cwd", "folder"})
_WRITER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
PATH_ENDINGS = ("_path", "_file", "_dir")


def signature(name: str, args: dict[str, Any], workspace: str = "") -> str:
    """Return `name::` and canonical JSON of the args, which is the same for equal actions.

    Keys are sorted, paths normalised against the workspace, ends of lines stripped, long strings and args digests.
    """
    plain = _canonical(args, "", workspace)
    text = _WRITER.encode(plain)
    return f"{name}::" + (text if len(text) <= LONG_ARGS_CHARS else f"sha256:{digest(text)}")


def digest(text: str) -> str:
    """Return 16 hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _canonical(value: Any, key: str, workspace: str) -> Any:
    match value:
        case str():
            return _text(value, key, workspace)
        case dict():
            return {str(k): _canonical(v, str(k), workspace) for k, v in value.items()}
        case list() | tuple():
            return [_canonical(v, key, workspace) for v in value]
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)  # 5 and 5.0 are one argument to every tool
        case _:
            return value


def _text(value: str, key: str, workspace: str) -> str:
    text = value.rstrip()
    if "\n" in value:
        text = "\n".join([line.rstrip() for line in value.split("\n")])
    if (key in PATH_KEYS or key.endswith(PATH_ENDINGS)) and text and "\n" not in text:
        text = _path(text, workspace)
    if len(text) > LONG_STRING_CHARS:
        return "sha256:" + digest(text)
    return text


def _path(path: str, workspace: str) -> str:
    clean = posixpath.normpath("/" + path.lstrip("/") if path.startswith("/") else path)
    root = posixpath.normpath(workspace) if workspace else ""
    if root and clean == root:
        return "."
    if root and clean.startswith(root.rstrip("/") + "/"):
        return clean[len(root.rstrip("/")) + 1 :]
    return clean
