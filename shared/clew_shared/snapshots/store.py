"""The store of one goal's snapshots: a bare git repository that no command of an agent can reach.

git runs by its absolute path, with the store's own config and nothing of the user's: no hooks, no filters, no
attributes of the workspace, no automatic gc (docs/snapshots.md).
"""

import contextlib
import math
import os
import re
import subprocess
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Self

GIT_OLDEST = (2, 34)
FILES = "files"
"""In the tree of a snapshot: the files of the workspace."""
MODES = "modes"
"""In the tree of a snapshot: what git does not keep, one `MODE QUOTED-NAME` a line (`entries`)."""

_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "PATH": os.defpath,
}
_DEADLINE_S = 60.0
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tautocrlf = false
\tprotectNTFS = false
\tprotectHFS = false
\tlogAllRefUpdates = false
\tfsmonitor = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
[gc]
\tauto = 0
[maintenance]
\tauto = false
[diff]
\trenameLimit = 2000
"""
_ATTRIBUTES = "* -text -eol -crlf -ident -filter -working-tree-encoding\n"
_OPTIONS = (
    *("--no-pager", "--no-replace-objects", "--literal-pathspecs", "-c", "core.quotePath=false"),
    *("-c", "core.fsync=none"),  # the writer syncs all at once
)


class StoreError(Exception):
    """The store cannot be used; the text says why."""


class StoreSlowError(StoreError):
    """git took longer than it may."""


class GitFailedError(StoreError):
    """git has ended with an error, or by a signal; `said` is all that it complained of."""

    def __init__(self, text: str, said: str) -> None:
        super().__init__(text)
        self.said = said


@dataclass(frozen=True)
class SnapshotStore:
    """A store at `folder`, used with the git program `git` (an absolute path), until `until` on the monotonic clock.

    `index` is the index file to use, `work_tree` the folder in which git stands: the store itself without one.
    """

    folder: Path
    git: str
    until: float = field(default=math.inf, kw_only=True)
    index: str = field(default="", kw_only=True)
    work_tree: str = field(default="", kw_only=True)

    def within(self, seconds: float) -> Self:
        """Return the same store for work that may take so long altogether; then it raises StoreSlowError."""
        return replace(self, until=time.monotonic() + seconds)

    @property
    def exists(self) -> bool:
        """Whether a snapshot was ever taken here."""
        return (self.folder / "HEAD").exists()

    def make(self) -> None:
        """Create the store where there is none; safe to repeat after a crash. Raises OSError."""
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "config").write_text(_CONFIG)
        (self.folder / "info" / "attributes").write_text(_ATTRIBUTES)
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")

    def _environment(self) -> dict[str, str]:
        """Return the whole environment of git: nothing of the user's."""
        own = {"GIT_DIR": str(self.folder), "HOME": str(self.folder)}
        own |= {"GIT_INDEX_FILE": self.index} if self.index else {}
        return _ENV | own | ({"GIT_WORK_TREE": "."} if self.work_tree else {})

    def started(self, *args: str) -> subprocess.Popen[bytes]:
        """Start git with pipes to it and from it; raises StoreError where it cannot be started."""
        try:
            return subprocess.Popen(
                [self.git, *_OPTIONS, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, cwd=self.folder, env=self._environment(),
            )  # fmt: skip
        except OSError as error:
            raise StoreError(f"git {_verb(args)}: {error.strerror}") from error

    def run(self, *args: str, data: bytes = b"") -> bytes:
        """Run git and return what it prints; raises StoreError where it fails or takes too long. Blocks."""
        return self.run_and_hear(*args, data=data)[0]

    def run_and_hear(self, *args: str, data: bytes = b"") -> tuple[bytes, str]:
        """Run git and return what it prints, and what it complains of; raises as `run`."""
        left_s = min(_DEADLINE_S, self.until - time.monotonic())
        if left_s <= 0:
            raise StoreSlowError(f"there was no time left for git {_verb(args)}")
        try:
            done = subprocess.run(
                [self.git, *_OPTIONS, *args], input=data, capture_output=True, check=False,
                cwd=self.work_tree or self.folder, env=self._environment(), timeout=left_s, umask=0o077,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise StoreSlowError(f"git {_verb(args)} took more than {left_s:.0f} s") from None
        except OSError as error:
            raise StoreError(f"git {_verb(args)}: {error.strerror}") from error
        complaint = os.fsdecode(done.stderr)
        if code := done.returncode:
            ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
            # Names of temporary files would make each failure look like another one.
            own = rf"{re.escape(str(self.folder))}[^\s']*"
            shown = re.sub(own, "the store", _complaint(done.stderr) or ended)[:300]
            raise GitFailedError(f"git {_verb(args)}: {shown}", f"{ended}\n{complaint}")
        return done.stdout, complaint

    def names(self, *args: str) -> list[str]:
        """Run git and return the names that it prints with -z; raises as `run`."""
        said = os.fsdecode(self.run(args[0], "-z", *args[1:]))
        return [name for name in said.split("\0") if name]

    def blob(self, name: str) -> bytes:
        """Return the content of an object, like `TREE:modes`; raises StoreError."""
        return self.run("cat-file", "blob", name)


def at(folder: Path, git: str | None) -> SnapshotStore:
    """Return the store at a folder; raises StoreError without git, or with one that fails or is too old."""
    if git is None:
        raise StoreError("git is not installed")
    if (version := git_version(git)) < GIT_OLDEST:
        least = version_text(GIT_OLDEST)
        raise StoreError(f"git is too old: {version_text(version)}, at least {least}")
    return SnapshotStore(folder, git)


@cache  # of an answer; a failure is asked again
def git_version(git: str) -> tuple[int, ...]:
    """Return the version of a git program; raises StoreError where it does not tell."""
    command = [git, "version"]
    try:
        done = subprocess.run(command, capture_output=True, env=_ENV, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"{git} cannot be used: {error}") from None
    if found := re.search(rb"(\d+)\.(\d+)", done.stdout):
        return tuple(map(int, found.groups()))
    said = _complaint(done.stderr) or f"exit code {done.returncode}, and no version"
    raise StoreError(f"{git} cannot be used: {said}")


def version_text(version: tuple[int, ...]) -> str:
    """Return a version as people read it."""
    return ".".join(map(str, version))


def bytes_used(folder: str | Path) -> int:
    """Return the bytes that the files below a folder use on disk; what vanishes meanwhile counts nothing."""
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{above}/{name}").st_blocks * 512
    return total


def _verb(args: tuple[str, ...]) -> str:
    return next((word for word in args if not word.startswith("-") and "=" not in word), "")


def _complaint(text: bytes) -> str:
    """Return the first fatal error of git, else what it printed last."""
    lines = text[-65536:].decode(errors="replace").strip().splitlines()
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return [*fatal, *lines[-1:], ""][0]
