"""Private copies of the login files of coding agents, and what happens to logins that a CLI has refreshed."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any

from clew_daemon.host.folders import write_whole
from clew_daemon.host.keys import KeyFileError, read_secret
from clew_shared.text.redact import hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


# Refreshed tokens are written back if nothing but tokens has changed: what the CLI left in its HOME is not trusted.
_TOKEN_FIELD = re.compile(r"token|access|refresh|expires|expiry", re.IGNORECASE)
TOKEN_CHARS_MAX = 16_384


def only_tokens_differ(old: str, new: str) -> bool:
    """Return whether two texts are the same JSON object but for the values of token fields, and do differ."""
    try:
        before, after = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return False
    is_object = isinstance(before, dict) and isinstance(after, dict)
    return is_object and before != after and _alike(before, after)


def _alike(old: Any, new: Any, *, token: bool = False) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(
            _alike(value, new[key], token=bool(_TOKEN_FIELD.search(key)))
            for key, value in old.items()
        )
    if old == new:
        return True
    same_kind = type(old) is type(new) and isinstance(old, str | int | float)
    return token and same_kind and len(str(new)) <= TOKEN_CHARS_MAX


def write_back(path: Path, old: str, new: str) -> str:
    """Replace the text of a login file that is still `old` by `new`, atomically; return why not, "" if it was done."""
    if not only_tokens_differ(old, new):
        return "more than its tokens differs"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return "it is not a regular file"
            if file.read(len(old.encode()) + 1) != old.encode():
                return "it was changed meanwhile"
        write_whole(path, new, stat.S_IMODE(info.st_mode) & 0o700)
    except OSError as error:
        return error.strerror or str(error)
    return ""


LOGIN_BYTES_MAX = 64 * 1024
LOGINS_BYTES_MAX = 256 * 1024
_TOKEN = re.compile(r"[!-~]{16,}")
"""What may be a token: one word of at least as many signs."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+-]+Z?")
_ADDRESS = re.compile(r"https?://|[^@\s]+@[^@\s]+\.\w+$")


def login_copies(paths: Iterable[Path], env: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of login files by their places in a private HOME; raises KeyFileError.

    A file in the user's home has the same place in the private one, any other one is at its top.
    """
    found = {}
    for path in paths:
        text = _text(path)
        hide(list(secrets_of(text)))
        found[place_of(path, env)] = text
    if sum(map(len, found.values())) > LOGINS_BYTES_MAX:
        raise KeyFileError(f"the login files have over {LOGINS_BYTES_MAX} bytes together")
    return found


def place_of(path: Path, env: Mapping[str, str]) -> str:
    """Return where the copy of a login file is in a private HOME."""
    home = env.get("HOME")
    inside = bool(home) and path.is_relative_to(home or "")
    return str(path.relative_to(home or "")) if inside else path.name


def secrets_of(text: str) -> Iterator[str]:
    """Yield what may be a secret in a login file: of JSON the long words among its values, else all long words."""
    try:
        values = list(_leaves(json.loads(text)))
    except (ValueError, RecursionError):
        values = text.split()
    for value in values:
        if _TOKEN.fullmatch(value) and not (_TIME.fullmatch(value) or _ADDRESS.match(value)):
            yield value


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)


def _text(path: Path) -> str:
    try:
        return read_secret(path, "login file", LOGIN_BYTES_MAX).decode()
    except ValueError:
        raise KeyFileError(f"the login file {path} is not UTF-8") from None
