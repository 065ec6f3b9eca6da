"""The file with the URLs that messages go to. They hold secrets: no message and no log shows more than a scheme."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SIZE_MAX = 1 << 16
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,19})://", re.IGNORECASE)


class AddressError(Exception):
    """The file, or an entry in it, cannot be used; the message shows no secret."""


@dataclass(frozen=True, slots=True)
class NotifyAddress:
    """One URL, and the line that it is on."""

    url: str
    line: int

    @property
    def channel(self) -> str:
        """What names it in the book: a digest, so that other entries may be added before it."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """What people may see of it."""
        found = _SCHEME.match(self.url)
        return f"line {self.line} ({found[1].lower() + '://' if found else 'no scheme'})"

    def __repr__(self) -> str:
        return f"NotifyAddress({self.label})"


def read_addresses(path: Path) -> list[NotifyAddress]:
    """Return the URLs of a file, one a line; blank lines and lines that begin with `#` are ignored.

    Raises AddressError, also if others than its owner may read the file.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise AddressError(f"[notify] urls_file: {path} is not a file")
            if found.st_mode & 0o077:
                mode = stat.S_IMODE(found.st_mode)
                what = f"{path} is open to others (mode {mode:03o})"
                raise AddressError(f"[notify] urls_file: {what}: chmod 600 {path}")
            text = file.read(SIZE_MAX).decode()
    except OSError as error:
        raise AddressError(f"[notify] urls_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AddressError(f"[notify] urls_file: {path} is not UTF-8") from None
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [NotifyAddress(url, number) for number, url in lines if url and not url.startswith("#")]
