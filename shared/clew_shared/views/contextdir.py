"""`.agent_context/` in a goal's workspace: written for people and programs to read, never read back.

The workspace belongs to the worker, which may put links or other files in the way: every step goes through a
descriptor of the folder, follows no link, and replaces whole files; an unexpected file is rewritten.
"""

import contextlib
import errno
import json
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from clew_shared.files import remove_tree
from clew_shared.record.identity import Identity, of_descriptor

Json = Mapping[str, object]

FOLDER = ".agent_context"
STATE, HISTORY, LOOPS = "state.json", "history.jsonl", "loops.json"
GITIGNORE, NOTHING = ".gitignore", b"*\n"
BUFFER_BYTES = 1 << 18
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ContextDir:
    """The published files of one goal, in no folder but the `known` one; all methods block, and raise OSError."""

    def __init__(self, workspace: str, known: Identity | None = None) -> None:
        self._workspace = workspace
        self._known = known
        self._history_bytes = -1  # the size that history.jsonl must have; -1: not written yet

    def rebuild(self, state: Json, lines: Iterable[Json], loops: Sequence[Json]) -> None:
        """Rewrite all three files from the ledger; `loops` may be filled while `lines` are drawn."""
        with context_folder(self._workspace, self._known) as folder:
            exclude_from_git(folder)
            self._history_bytes = replace_file(folder, HISTORY, map(json_line, lines))
            replace_file(folder, LOOPS, [json_line(loops)])
            replace_file(folder, STATE, [json_line(state)])

    def update(
        self, state: Json | None, lines: Sequence[Json], loops: Sequence[Json] | None
    ) -> bool:
        """Append to the history and replace the other files; False means that `rebuild` is needed."""
        with context_folder(self._workspace, self._known) as folder:
            if lines and not self._append(folder, lines):
                return False
            if loops is not None:
                replace_file(folder, LOOPS, [json_line(loops)])
            if state is not None:
                replace_file(folder, STATE, [json_line(state)])
        return True

    def _append(self, folder: int, lines: Sequence[Json]) -> bool:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            fd = os.open(HISTORY, flags, dir_fd=folder)
        except OSError:
            return False
        with os.fdopen(fd, "wb") as file:
            found = os.fstat(fd)
            is_ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if not is_ours or found.st_size != self._history_bytes:
                return False
            added = file.write(b"".join(map(json_line, lines)))  # a reader sees whole lines
        self._history_bytes += added
        return True


@contextlib.contextmanager
def context_folder(workspace: str, known: Identity | None = None) -> Iterator[int]:
    """Open the folder, and yield its descriptor; made if absent, links in its place removed."""
    root = os.open(workspace, _FOLDER_FLAGS)  # a link put in its place leads elsewhere
    try:
        if known and not of_descriptor(root).is_same(known):
            raise OSError(errno.ESTALE, "the workspace was replaced by another folder")
        folder = _opened(root, workspace)
    finally:
        os.close(root)
    try:
        yield folder
    finally:
        os.close(folder)


def _opened(root: int, workspace: str) -> int:
    for _ in range(3):
        with contextlib.suppress(FileExistsError):
            os.mkdir(FOLDER, 0o755, dir_fd=root)
        try:
            return os.open(FOLDER, _FOLDER_FLAGS, dir_fd=root)
        except NotADirectoryError:  # a link or a file in its place (O_NOFOLLOW on a link too)
            os.unlink(FOLDER, dir_fd=root)
    raise NotADirectoryError(f"{workspace}/{FOLDER} keeps being replaced")


def exclude_from_git(folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(os.stat(GITIGNORE, dir_fd=folder, follow_symlinks=False).st_mode):
            return
    replace_file(folder, GITIGNORE, [NOTHING])


def replace_file(folder: int, name: str, parts: Iterable[bytes]) -> int:
    """Replace what has the name by a file, atomically; returns its size in bytes."""
    temporary = f".{name}.{os.getpid()}.{threading.get_native_id()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    size = 0
    with os.fdopen(os.open(temporary, flags, 0o644, dir_fd=folder), "wb", BUFFER_BYTES) as file:
        for part in parts:
            size += file.write(part)
    try:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except IsADirectoryError:
        remove_tree(name, folder)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    return size


def json_line(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"
