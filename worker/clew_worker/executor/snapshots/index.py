"""Brings git's index of a workspace up to date: git finds, hashes and writes what has changed since it was last.

What is ignored follows the rules of the goal's first snapshot: collected once from all .gitignore files and each
repository's info/exclude, saved in the store with the files that git tracks although they are ignored, and flattened
into one file for git.
"""

import contextlib
import itertools
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from clew_shared.files import closing, write_whole
from clew_shared.snapshots.entries import LEFT_OUT
from clew_shared.snapshots.names import batches, quoted
from clew_shared.snapshots.store import GitFailedError, SnapshotStore, StoreError, git_version
from clew_worker.executor.workspace import FOLDER, open_beneath
from clew_worker.executor.world.git import GitState

_BATCH_BYTES = 32 * 1024 * 1024
_PACKED_FROM = 50  # names in a batch: fewer are loose objects
_EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_CLOSED = re.compile(r"^warning: could not open directory '(.*)/': ", re.MULTILINE)
_PLAIN = frozenset((stat.S_IFREG | 0o644, stat.S_IFREG | 0o755))  # of these git keeps all
_CUT = re.compile(r"signal 7|failed to read|short read")


class NoRoomError(StoreError):
    """The store is as large as it may be."""


class Index:
    """The index of one workspace, open as `root`, as `git` has it.

    `covered` says what is passed over; `max_file_bytes` is the size of the largest file that is taken in, `room` how
    many bytes may be. `left_out` has why what is left out cannot be kept, by path, with the size of what is too large,
    else 0.
    """

    def __init__(
        self,
        git: SnapshotStore,
        root: int,
        covered: Callable[[str], bool],
        max_file_bytes: int,
        room: int,
    ) -> None:
        self._git = git
        self._root = root
        self._covered = covered
        self._max_file_bytes = max_file_bytes
        self._room = room
        self.left_out: dict[str, tuple[str, int]] = {}

    def changed(self, rules: str) -> tuple[list[str], set[str]]:
        """Return what git finds changed, new or gone by rules, an option of ls-files, and the repositories inside.

        git lists a repository inside as one name, until a file of it is in the index.
        """
        inner: set[str] = set()
        options = ("-z", "-o", "-m", "-d", "--deduplicate", rules)
        while True:
            said, complaint = self._git.run_and_hear("ls-files", *options)
            names = [os.fsdecode(name) for name in said.split(b"\0") if name]
            found = {name for name in names if name.endswith("/")} - inner
            if not found:  # what it says of rules that it does not obey is no matter
                closed = (one for one in _CLOSED.findall(complaint) if not self._covered(one))
                self.left_out |= dict.fromkeys(closed, ("unreadable", 0))
                return [one for one in names if one not in inner and not self._covered(one)], inner
            inner |= found
            lines = (f"100644 {_EMPTY_BLOB}\t{name}.clew" for name in found)
            self._tell(lines, "update-index", "-z", "--index-info")

    def update(self, names: Iterable[str]) -> None:
        """Take in these names as they are now; raises StoreError, NoRoomError."""
        sizes = {name: self._fit(name) for name in sorted(names)}
        if sum(filter(None, sizes.values())) > self._room:
            raise NoRoomError("the snapshots have reached [snapshots] max_mb")
        if gone := [name for name, size in sizes.items() if size is None]:
            self._tell(gone, "update-index", "-z", "--force-remove", "--stdin")
        kept = {name: size for name, size in sizes.items() if size is not None}
        for batch in batches(kept, kept.__getitem__, len(kept), _BATCH_BYTES):
            self._add(batch)

    def _add(self, batch: list[str]) -> None:
        """Add files; those that are cut while git reads them are left out.

        A newer git writes large files of one run into one pack, as it reads them: as mapped memory, one that is cut
        meanwhile would end it.
        """
        packed: tuple[str, ...] = ()
        if git_version(self._git.git) >= (2, 37):
            from_bytes = 1 if len(batch) >= _PACKED_FROM else 32 * 1024
            packed = ("-c", "pack.compression=1", "-c", f"core.bigFileThreshold={from_bytes}")
        options = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        try:
            self._tell(batch, *packed, *options)
        except GitFailedError as error:
            if not _CUT.search(error.said):
                raise
            Path(f"{self._git.index}.lock").unlink(missing_ok=True)  # the killed git's
            if len(batch) > 1:
                half = len(batch) // 2
                self._add(batch[:half])
                self._add(batch[half:])
            else:
                self._tell(batch, "update-index", "-z", "--force-remove", "--stdin")
                self.left_out[batch[0]] = "changing", 0

    def modes(self, rules: str) -> tuple[int, dict[str, int]]:
        """Return how many files the index has, and what git does not keep, as in `entries.modes_text`."""
        kept = self._git.names("ls-files")
        found = dict.fromkeys(self.left_out, LEFT_OUT.mode)
        for name in kept:
            info = self._look(name)
            if info and info.st_mode not in _PLAIN and stat.S_ISREG(info.st_mode):
                found[name] = stat.S_IMODE(info.st_mode)
        found |= self._empty_folders(rules)
        return len(kept), {quoted(os.fsencode(name)): mode for name, mode in found.items()}

    def ignored(self, rules: str) -> list[str]:
        """Return what rules ignore: folders, with a slash, for all in them, the highest names first.

        git lists a folder in which everything is ignored, too, but then what is in it as well.
        """
        names = sorted(self._git.names("ls-files", "-o", "-i", "--directory", rules))
        pairs = itertools.zip_longest(names, names[1:], fillvalue="")
        found = [one for one, after in pairs if one[-1] != "/" or not after.startswith(one)]
        found = [one for one in found if not self._covered(one)]
        return sorted(found, key=lambda one: (one.count("/"), one))

    def _empty_folders(self, rules: str) -> dict[str, int]:
        """Return the modes of empty folders: git names the highest folder that has nothing of the index."""
        options = ("ls-files", "-o", "--directory", rules)
        left = [name for name in self._git.names(*options) if name.endswith("/")]
        ignored = set(self._git.names(*options, "-i")) if left else set()
        found: dict[str, int] = {}
        while left:
            folder = left.pop()
            if self._covered(folder) or folder in ignored:
                continue
            with (
                contextlib.suppress(OSError),
                closing(os.open(folder, FOLDER | os.O_NOFOLLOW, dir_fd=self._root)) as at,
                os.scandir(at) as listing,
            ):
                is_folder = {one.name: one.is_dir(follow_symlinks=False) for one in listing}
                if not is_folder:
                    found[folder.rstrip("/")] = os.fstat(at).st_mode
                elif ".git" not in is_folder:
                    left += [f"{folder}{name}/" for name, below in is_folder.items() if below]
        return found

    def _tell(self, names: Iterable[str], *args: str) -> None:
        self._git.run(*args, data=b"".join(os.fsencode(name) + b"\0" for name in names))

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name.rstrip("/"), dir_fd=self._root, follow_symlinks=False)
        except OSError:
            return None

    def _fit(self, name: str) -> int | None:
        """Return the size of what is at a name, None where nothing is there that can be kept; note why."""
        info = self._look(name)
        self.left_out.pop(name, None)
        if info is None or stat.S_ISDIR(info.st_mode):
            return None
        if stat.S_ISLNK(info.st_mode):
            if name.rpartition("/")[2].lower() != ".gitmodules":  # newer versions of git take none
                return info.st_size
            self.left_out[name] = "symlink", 0
        elif not stat.S_ISREG(info.st_mode):
            self.left_out[name] = "special", 0
        elif info.st_size > self._max_file_bytes:
            self.left_out[name] = "large", info.st_size
        elif not os.access(name, os.R_OK, dir_fd=self._root):
            self.left_out[name] = "unreadable", 0
        else:
            return info.st_size
        return None


_FILE_BYTES_MAX = 1024 * 1024
_FILES_MAX = 10_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class IgnoreRules:
    """The rules that are saved in a file. `frozen`: they were saved before; `tracked`: files that no rule is for."""

    def __init__(self, saved: Path) -> None:
        self._saved = saved
        self._exclude: dict[str, list[str]] = {}
        self._ignore: dict[str, list[str]] = {}
        self.tracked: set[str] = set()
        self.frozen = saved.exists()
        if self.frozen:
            try:
                found = json.loads(saved.read_text())
                self._exclude, self._ignore = dict(found["exclude"]), dict(found["ignore"])
                self.tracked = set(found["tracked"])
            except (OSError, ValueError, KeyError, TypeError):
                raise StoreError("the saved rules of ignored files cannot be read") from None

    def collect(self, root: int, path: Path, folders: Sequence[str], inner: Iterable[str]) -> None:
        """Take in what the folders with a .gitignore and the repositories `inner` of a workspace say."""
        if len(folders) > _FILES_MAX:
            raise StoreError(f"it has more than {_FILES_MAX} .gitignore files")
        texts = {one: _read(root, f"{one}/.gitignore".removeprefix("/")) for one in folders}
        self._ignore = {one: lines for one, text in texts.items() if (lines := _lines(text))}
        for folder in inner:
            git = GitState(path / folder)
            if lines := _lines(git.excludes()):
                self._exclude[folder] = lines
            prefix = f"{folder}/" if folder else ""
            self.tracked |= {prefix + os.fsdecode(one.rstrip(b"/")) for one in git.tracked()}

    def freeze(self, tracked: Iterable[str]) -> None:
        """Save what was collected, with the tracked files that are ignored; durable when it returns. Raises OSError."""
        self.tracked = set(tracked)
        found = {"exclude": self._exclude, "ignore": self._ignore, "tracked": sorted(self.tracked)}
        write_whole(self._saved, json.dumps(found))
        self.frozen = True

    def text(self, more: Iterable[str]) -> bytes:
        """Return all as one file of patterns, of which the last that matches decides; `more` come after all others."""
        lines = [
            flat(folder, line)
            for rules in (self._exclude, self._ignore)
            for folder in sorted(rules, key=lambda one: one.count("/") + bool(one))
            for line in rules[folder]
        ]
        return b"".join(line + b"\n" for line in [*lines, *map(os.fsencode, more)])


def _lines(text: bytes) -> list[str]:
    lines = os.fsdecode(text).removeprefix("\ufeff").split("\n")
    return [line.rstrip("\r") for line in lines if line.strip() and line[0] != "#"]


def flat(folder: str, line: str) -> bytes:
    """Return a line of the .gitignore file of a folder as one of the workspace's; b"" where it matches nothing."""
    pattern, bang = line.removeprefix("!"), line[:1] == "!"
    bare = pattern.rstrip().rstrip("/")
    if not bare:
        return b""
    if folder:
        above = re.sub(r"[*?\[\]\\ ]", r"\\\g<0>", folder).replace("\n", "?")
        pattern = f"/{above}/{pattern.removeprefix('/') if '/' in bare else f'**/{pattern}'}"
    return os.fsencode("!" * bang + pattern)


def _read(root: int, path: str) -> bytes:
    """Return the content of a .gitignore file; nothing where it is none, as git follows no link here."""
    try:
        with open(open_beneath(root, path, _READ, links=False), "rb") as file:  # noqa: PTH123 - a descriptor
            return file.read(_FILE_BYTES_MAX)
    except OSError:
        return b""
