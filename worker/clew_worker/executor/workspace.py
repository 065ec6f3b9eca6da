"""Opens files of the workspace, and only those, wherever links and `..` lead.

Every open is one system call that the kernel keeps beneath the workspace (openat2), or a walk
that follows no link where the kernel cannot; a path that is swapped meanwhile leads nowhere else.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from clew_shared.files import closing
from clew_worker.sandbox import kernel

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OUTSIDE = "{:.200} is outside the workspace; use a path inside it"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class PathError(Exception):
    """A path cannot be used; the text tells the agent why."""


class MissingError(PathError):
    """No file has this name, `path` as the agent gave it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} does not exist")
        self.path = path


class TooLargeError(PathError):
    """The file is too large for what was asked."""


def open_beneath(root: int, path: str, flags: int, mode: int = 0, *, links: bool = True) -> int:
    """Open a path beneath `root`; OSError (EXDEV, ELOOP) if it leads out, or has a link without `links` or openat2."""
    try:
        return kernel.open_beneath(path, flags, mode, root, links=links)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    first, _, rest = path.partition("/")
    below = os.O_PATH | os.O_DIRECTORY if rest else flags
    try:
        fd = os.open(first, below | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=root)
    except NotADirectoryError as error:
        raise OSError(errno.ELOOP, "a link, or not a folder") from error
    if not rest:
        return fd
    with closing(fd):
        return open_beneath(fd, rest, flags, mode, links=links)


def made_folder(
    path: str, opened: Callable[[str], int], mode: int | None = None, *, over: bool = False
) -> int:
    """Open a folder with `opened`, making it and those above it if absent, with exactly this mode, if there is one.

    `over`: what else is there in the place of one, like a link, is removed.
    """
    absent = (errno.ENOENT, *((errno.ELOOP, errno.ENOTDIR) if over else ()))
    try:
        return opened(path)
    except OSError as error:
        if error.errno not in absent or path == ".":
            raise
    above, name = os.path.split(path)
    with closing(made_folder(above or ".", opened, mode, over=over)) as upper:
        if over:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=upper)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=upper)
        found = opened(path)
        if mode is not None:
            os.fchmod(found, mode)
        return found


class Workspace:
    """A folder and all beneath it, by relative or absolute paths; opened at `at`, where a process stands in it."""

    def __init__(self, root: str, at: str = "") -> None:
        self.root = os.path.realpath(root)
        self._given = os.path.normpath(root)
        self._fd = os.open(at or self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        """Return the descriptor of the folder, which stays the workspace's to close."""
        return self._fd

    @property
    def gone(self) -> bool:
        """The folder was removed; one that was made again under its name is another one."""
        return os.fstat(self._fd).st_nlink == 0

    def relative(self, path: str) -> str:
        """Normalise a path against the workspace ("." for itself); PathError if it leads out."""
        if "\0" in path:
            raise PathError(f"{path!r:.80} is not a path")
        return self._below(os.path.normpath(os.path.join(self.root, path or ".")), path)  # noqa: PTH118

    def _below(self, full: str, path: str) -> str:
        for root in (self.root, self._given):
            if full == root:
                return "."
            if full.startswith(root.rstrip("/") + "/"):
                return full[len(root.rstrip("/")) + 1 :]
        raise PathError(_OUTSIDE.format(path))

    def _resolved(self, path: str) -> str:
        return self._below(os.path.realpath(Path(self.root, self.relative(path))), path)

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """Return a descriptor; PathError if it leads out, else OSError. Links inside are followed; no FIFO blocks."""
        flags |= os.O_NONBLOCK | os.O_NOCTTY
        for inside in (self.relative, self._resolved):
            try:
                return open_beneath(self._fd, inside(path), flags, mode)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.ELOOP):
                    raise
        raise PathError(_OUTSIDE.format(path))

    def open_regular(self, path: str) -> tuple[int, os.stat_result]:
        """Open a file for reading; PathError if there is none, or it is not a regular file."""
        try:
            fd = self.open(path, os.O_RDONLY)
        except OSError as error:
            raise _path_error(path, error) from error
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            os.close(fd)
            kind = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
            raise PathError(f"{path} is {kind}")
        return fd, info

    def open_folder(self, path: str) -> int:
        try:
            return self.open(path, FOLDER)
        except NotADirectoryError as error:
            raise PathError(f"{path} is not a folder") from error
        except OSError as error:
            raise _path_error(path, error) from error

    def replace(self, path: str, data: bytes) -> None:
        """Write a whole file at once, where a link leads, in the mode of what was there; PathError if that fails."""
        relative = self._resolved(path)  # the folder is opened beneath the workspace all the same
        folder, name = os.path.split(relative)
        try:
            with closing(made_folder(folder or ".", lambda one: self.open(one, FOLDER))) as at:
                _replace_at(at, name, data)
        except OSError as error:
            raise PathError(f"{path}: {error.strerror or error}") from error


def _path_error(path: str, error: OSError) -> PathError:
    is_missing = isinstance(error, FileNotFoundError)
    return MissingError(path) if is_missing else PathError(f"{path}: {error.strerror or error}")


def _replace_at(at: int, name: str, data: bytes) -> None:
    """Write `data` beside `name` in the folder `at`, then put it in its place."""
    draft = f".clew-{secrets.token_hex(8)}.tmp"
    fd = os.open(draft, NEW, 0o666, dir_fd=at)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            with contextlib.suppress(FileNotFoundError):
                old = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISREG(old.st_mode):
                    os.fchmod(fd, stat.S_IMODE(old.st_mode))
        os.replace(draft, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=at)
        raise
