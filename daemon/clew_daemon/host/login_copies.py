"""The login files of coding agents: read for their private HOME, with their secrets hidden from then on."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from clew_daemon.host.keys import KeyFileError, login_file_fault
from clew_shared.text.redact import hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

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
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from _leaves(one)
        case list():
            for one in value:
                yield from _leaves(one)
        case _:
            pass


def _text(path: Path) -> str:
    if fault := login_file_fault(path):
        raise KeyFileError(fault)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            data = file.read(LOGIN_BYTES_MAX + 1)
    except OSError as error:
        raise KeyFileError(f"the login file {path} cannot be read: {error.strerror}") from None
    if len(data) > LOGIN_BYTES_MAX:
        raise KeyFileError(f"the login file {path} has over {LOGIN_BYTES_MAX} bytes")
    try:
        return data.decode()
    except ValueError:
        raise KeyFileError(f"the login file {path} is not UTF-8") from None
