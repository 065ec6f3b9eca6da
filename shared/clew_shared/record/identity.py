"""The identity of a folder or file, which its path is not: device, inode and time of birth."""

import ctypes
import os
import struct
from functools import cache
from pathlib import Path

from pydantic import BaseModel

_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH: the descriptor itself
_BTIME = 0x800  # STATX_BTIME
_BUFFER_BYTES = 256  # struct statx
_LIBC = ctypes.CDLL(None, use_errno=True)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Identity(BaseModel, frozen=True, extra="ignore"):
    """What tells one folder from another; `birth_ns` since 1970, None if not recorded, `boot` "" if unknown."""

    dev: int
    ino: int
    birth_ns: int | None = None
    boot: str = ""

    def is_same(self, other: "Identity") -> bool:
        """Return whether inode and birth agree and, within one boot, the device, if its number is a disk's.

        After another boot disks may have other numbers, and another kernel may tell a birth that the last one did not.
        """
        born = {self.birth_ns, other.birth_ns} - {None}
        if self.boot != other.boot:
            return self.ino == other.ino and len(born) <= 1
        alike = (self.ino, self.birth_ns) == (other.ino, other.birth_ns)
        return alike and (self.dev == other.dev or (bool(born) and self._is_unnumbered(other)))

    def _is_unnumbered(self, other: "Identity") -> bool:
        """Return whether both file systems make up a device number at each mount (overlay, NFS, btrfs)."""
        return os.major(self.dev) == 0 == os.major(other.dev)


def of_path(path: str | os.PathLike[str]) -> Identity:
    """Return the identity of what is at a path, without following a link; raises OSError."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return of_descriptor(fd)
    finally:
        os.close(fd)


def of_descriptor(fd: int) -> Identity:
    """Return the identity of the file of a descriptor (`O_PATH` suffices); raises OSError."""
    found = os.fstat(fd)
    return Identity(dev=found.st_dev, ino=found.st_ino, birth_ns=_birth_ns(fd), boot=_boot())


def _birth_ns(fd: int) -> int | None:
    """Return the time of birth by statx(2), which Python does not offer; None if it is unknown."""
    statx = getattr(_LIBC, "statx", None)
    found = bytearray(_BUFFER_BYTES)
    into = (ctypes.c_char * _BUFFER_BYTES).from_buffer(found)
    if statx is None or statx(fd, b"", _EMPTY_PATH, _BTIME, into) != 0:
        return None
    mask, seconds, nanoseconds = struct.unpack_from("=I76xqI", found)
    return seconds * 1_000_000_000 + nanoseconds if mask & _BTIME else None


@cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
