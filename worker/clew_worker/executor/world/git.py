"""Digests git's part of the world: HEAD and the index, without stat data.

It reads git's own files and starts no git: a digest must not depend on what is installed, and a
plain refresh of the index must not look like a change.
Source: gitformat-index(5), gitrepository-layout(5).
"""

import contextlib
import errno
import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from clew_shared.record.snapshot_events import GitPlace
from clew_shared.text.plain import recordable

_REF_DEPTH_MAX = 5
_INDEX_BYTES_MAX = 256 * 1024 * 1024
_TEXT_BYTES_MAX = 16 * 1024 * 1024  # packed-refs of a large repository; the others are a line
_ENTRY = struct.Struct(">10I20sH")
_EXTENDED = 0x4000
_STAGE = 0x3000


class GitState:
    """The repository whose work tree is `root`, if there is one; its index is parsed again when it has changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._index: tuple[tuple[int, int, int, int], bytes] | None = None

    def digest(self) -> bytes:
        """Return a digest of HEAD (resolved) and of what is staged; empty outside a repository."""
        if (folder := self._folder()) is None:
            return b""
        head = "\0".join([*_resolve(folder), ""]).encode(errors="surrogateescape")
        return hashlib.blake2b(head + self._staged(folder), digest_size=16).digest()

    def place(self) -> GitPlace | None:
        """Return where the repository stands, None outside of one."""
        if (folder := self._folder()) is None:
            return None
        *names, commit = map(recordable, _resolve(folder))
        return GitPlace(
            branch=names[-1].removeprefix("refs/heads/") if len(names) > 1 else "",
            commit=commit,
            index=self._staged(folder).hex(),
        )

    def tracked(self) -> list[bytes]:
        """Return the paths in the index; none where it cannot be read."""
        with contextlib.suppress(OSError, struct.error, ValueError, IndexError):
            if folder := self._folder():
                return [path for *_, path in _entries(_read(folder / "index", _INDEX_BYTES_MAX))]
        return []

    def excludes(self) -> bytes:
        """Return the repository's own list of ignored files, `info/exclude`."""
        with contextlib.suppress(OSError):
            if folder := self._folder():
                return _read(_common(folder) / "info" / "exclude", _TEXT_BYTES_MAX)
        return b""

    def _folder(self) -> Path | None:
        dot_git = self._root / ".git"
        try:
            if dot_git.is_dir():
                return dot_git
            text = _text(dot_git)
        except OSError:
            return None
        folder = self._root / text.removeprefix("gitdir:").strip()
        is_one = text.startswith("gitdir:") and os.path.isdir(folder)  # noqa: PTH112 - any text may stand there
        return folder if is_one else None

    def _staged(self, folder: Path) -> bytes:
        with contextlib.suppress(OSError):
            info = (folder / "index").stat()
            stamp = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            if info.st_size > _INDEX_BYTES_MAX:
                return repr(stamp).encode()
            if self._index is None or self._index[0] != stamp:
                data = _read(folder / "index", _INDEX_BYTES_MAX)
                self._index = (stamp, _index_digest(data))
            return self._index[1]
        return b""


def _common(folder: Path) -> Path:
    """Find where a linked work tree keeps its branches."""
    with contextlib.suppress(OSError):
        return folder / _text(folder / "commondir").strip().replace("\0", "")
    return folder


def _resolve(folder: Path) -> list[str]:
    """Follow HEAD through symbolic refs: the names passed through, with what each says, and the commit at the end."""
    trail: list[str] = []
    name = "HEAD"
    for _ in range(_REF_DEPTH_MAX):
        value = _ref(folder, name)
        trail += [name, value]
        if not value.startswith("ref:"):
            break
        name = value.removeprefix("ref:").strip()
    return trail


def _ref(folder: Path, name: str) -> str:
    common = _common(folder)
    for place in (folder, common):
        with contextlib.suppress(OSError, ValueError):
            return _text(place / name).strip()
    with contextlib.suppress(OSError):
        lines = (line.partition(" ") for line in _text(common / "packed-refs").splitlines())
        return next((commit for commit, _, ref in lines if ref == name), "")
    return ""


def _text(path: Path) -> str:
    return _read(path, _TEXT_BYTES_MAX).decode(errors="surrogateescape")


def _read(path: Path, most: int) -> bytes:
    """Read a regular file of git's, as much as it may have; OSError for a FIFO or a device in its place."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(fd, "rb") as file:  # noqa: PTH123 - by descriptor
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most)


def _index_digest(data: bytes) -> bytes:
    """Digest (mode, object, stage, path) of each entry; the whole file if it is no index of version 2 to 4."""
    with contextlib.suppress(struct.error, ValueError, IndexError):
        digest = hashlib.blake2b(digest_size=16)
        for entry in _entries(data):
            digest.update(b"%o %s %d %s\0" % entry)
        return digest.digest()
    return hashlib.blake2b(data, digest_size=16).digest()


def _entries(data: bytes) -> Iterator[tuple[int, bytes, int, bytes]]:
    """Yield (mode, object, stage, path) of each entry of an index; raises struct.error, ValueError, IndexError."""
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    at, path = 12, b""
    for _ in range(count):
        start = at
        fields = _ENTRY.unpack_from(data, at)
        mode, name, flags = fields[6], fields[10], fields[11]
        at += _ENTRY.size + (2 if flags & _EXTENDED else 0)
        if version == 4:
            strip, at = _varint(data, at)
            path = path[: len(path) - strip]
        else:
            path = b""
        end = data.index(b"\0", at)
        path += data[at:end]
        at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
        yield mode, name, flags & _STAGE, path
    if data[at : at + 4] == b"link":
        raise ValueError("a split index: most entries are in another file")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1
