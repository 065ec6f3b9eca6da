"""Reading the config file: a missing file is fine, but one that exists and cannot be read is an error."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BYTES_MAX = 1024 * 1024


class ConfigFileError(Exception):
    """The config file cannot be read; the message says why."""


def read(path: Path) -> str | None:
    """Return the text of the config file, None where there is none; raises ConfigFileError."""
    try:
        return _read(path).decode("utf-8")
    except FileNotFoundError:
        if link := _dangling(path):
            raise ConfigFileError(
                f"{link} is a link to {link.readlink()}, which does not exist: restore it, or remove the link "
                "to run with the defaults"
            ) from None
        return None
    except OSError as error:
        raise ConfigFileError(_unreadable(path, error)) from None
    except UnicodeDecodeError as error:
        raise ConfigFileError(
            f"{path} is not UTF-8 (at byte {error.start}): save it as UTF-8"
        ) from None


def _unreadable(path: Path, error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        return f"{path} is a directory: move it away"
    if isinstance(error, PermissionError):
        return f"permission denied: {path}: make it readable for you (chmod u+r {path})"
    return f"{path} cannot be read: {error.strerror}"


def _read(path: Path) -> bytes:
    # opening a FIFO would wait for its writer
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
            raise ConfigFileError(f"{path} is not a file: move it away")
        text = file.read(BYTES_MAX + 1)
    if len(text) > BYTES_MAX:
        raise ConfigFileError(f"{path} is over {BYTES_MAX:,} bytes: that is not a config file")
    return text


def _dangling(path: Path) -> Path | None:
    """Return the link on the way to `path` whose target does not exist, or None."""
    return next((p for p in (path, *path.parents) if p.is_symlink() and not p.exists()), None)
