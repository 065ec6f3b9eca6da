"""Files and folders: written durably, removed whatever a worker has put into them."""

import contextlib
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED_MAX = 1_000


@contextlib.contextmanager
def closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def sync(path: Path) -> None:
    """Make a file or a folder's names durable, or raise OSError; not one of SQLite's: closing it releases its locks."""
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace a file by this text (what UTF-8 lacks, escaped), durable on return; OSError leaves the old one."""
    part = path.with_name(f".{secrets.token_hex(8)}.tmp")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        sync(part)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def remove_tree(path: str | os.PathLike[str], dir_fd: int | None = None) -> None:
    """Remove a folder and all that is in it; raises OSError, also if there is none.

    Deeper than any stack, longer than any path, folders without permissions: a tree is taken apart from the top, each
    folder within a folder first moved up, so that two descriptors and no recursion are enough. No link is followed.
    """
    names = itertools.count()
    with closing(_opened(os.fspath(path), dir_fd)) as top:
        for name in _folders(top):
            with closing(_opened(name, top)) as inner:
                for folder in _folders(inner):  # they are emptied later
                    _moved_up(folder, inner, top, names)
            os.rmdir(name, dir_fd=top)
    os.rmdir(path, dir_fd=dir_fd)


def _folders(at: int) -> Iterator[str]:
    """Remove what is in a folder, and yield each folder in it, which must be gone by the next one."""
    while True:
        with os.scandir(at) as listing:
            names = [one.name for one in itertools.islice(listing, _LISTED_MAX)]
        if not names:
            break
        for name in names:
            if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                yield name
            else:
                os.unlink(name, dir_fd=at)


def _moved_up(name: str, inner: int, top: int, names: "itertools.count[int]") -> None:
    os.close(_opened(name, inner))  # a folder that its owner may not write in cannot be moved
    for number in names:
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.mkdir(f".{number}", dir_fd=top)
            os.rename(name, f".{number}", src_dir_fd=inner, dst_dir_fd=top)
            return


def _opened(name: str, folder: int | None) -> int:
    """Open a folder, and give its owner permission where its mode does not."""
    with closing(os.open(name, _PLACE, dir_fd=folder)) as place:
        found = os.fstat(place)
        if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700:
            with contextlib.suppress(OSError):
                os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - by descriptor
    return os.open(name, _FOLDER, dir_fd=folder)
