"""Reading the config file: a missing file is fine, but one that exists and cannot be read is an error."""

import os
import stat
from pathlib import Path

BYTES_MAX = 1024 * 1024


class ConfigFileError(Exception):
    """The config file cannot be read; the message says why."""


def read(path: Path) -> str | None:
    """Return the text of the config file, None where there is none; raises ConfigFileError."""
    try:
        # opening a FIFO would wait for its writer
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            mode = os.fstat(fd).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
                raise ConfigFileError(f"{path} is not a file: move it away")
            raw = file.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise ConfigFileError(f"{path} is over {BYTES_MAX:,} bytes: that is not a config file")
        return raw.decode("utf-8")
    except FileNotFoundError:
        links = (one for one in (path, *path.parents) if one.is_symlink() and not one.exists())
        if link := next(links, None):
            why = f"{link} is a link to {link.readlink()}, which does not exist"
            raise ConfigFileError(why) from None
        return None
    except OSError as error:
        raise ConfigFileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        why = f"{path} is not UTF-8 (at byte {error.start}): save it as UTF-8"
        raise ConfigFileError(why) from None
