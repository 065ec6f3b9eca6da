"""The store of one goal's snapshots: a bare git repository that no command of an agent can reach.

git runs by its absolute path, with the store's own config and nothing of the user's: no hooks, no filters, no
attributes of the workspace, no automatic gc (docs/snapshots.md).
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

GIT_OLDEST = (2, 34)
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
FILES = "files"
"""In the tree of a snapshot: the files of the workspace."""
MODES = "modes"
"""In the tree of a snapshot: what git does not keep, one `MODE QUOTED-NAME` a line.

Permissions, empty folders, and with mode 0 what is left out.
"""

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
\tfsync = all
[gc]
\tauto = 0
[maintenance]
\tauto = false
[fastimport]
\tunpackLimit = 0
[diff]
\trenameLimit = 2000
"""


class StoreError(Exception):
    """The store cannot be used; the text says why."""


class StoreSlowError(StoreError):
    """git took longer than it may."""


@dataclass(frozen=True)
class SnapshotStore:
    """A store at `folder`, used with the git program `git` (an absolute path), until `until` on the monotonic clock."""

    folder: Path
    git: str
    until: float = field(default=math.inf, kw_only=True)

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
        (self.folder / "info" / "attributes").write_text(
            "* -text -eol -crlf -ident -filter -working-tree-encoding\n"
        )
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")

    def command(self, *args: str) -> list[str]:
        """Return the command line that runs git on this store."""
        return [self.git, "--no-pager", "--no-replace-objects", "--literal-pathspecs", *args]

    def environment(self) -> dict[str, str]:
        """Return the whole environment of git: nothing of the user's."""
        return _ENV | {"GIT_DIR": str(self.folder), "HOME": str(self.folder)}

    def run(
        self,
        *args: str,
        data: bytes = b"",
        deadline_s: float = _DEADLINE_S,
        quietly: bool = False,
    ) -> bytes:
        """Run git and return what it prints; raises StoreError where it fails or takes too long. Blocks.

        `quietly`: what it complains of is a failure, too.
        """
        left_s = min(deadline_s, self.until - time.monotonic())
        if left_s <= 0:
            raise StoreSlowError(f"there was no time left for git {args[0]}")
        try:
            done = subprocess.run(
                self.command(*args),
                input=data,
                capture_output=True,
                cwd=self.folder,
                env=self.environment(),
                timeout=left_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StoreSlowError(f"git {args[0]} took more than {left_s:.0f} s") from None
        except OSError as error:
            raise StoreError(f"git {args[0]}: {error.strerror}") from error
        if done.returncode or (quietly and done.stderr):
            raise StoreError(f"git {args[0]}: {_last_line(done.stderr) or done.returncode}")
        return done.stdout

    def blob(self, name: str) -> bytes:
        """Return the content of an object, like `TREE:modes`; raises StoreError."""
        return self.run("cat-file", "blob", name)

    def check(self, trees: Iterable[str], deadline_s: float = _DEADLINE_S) -> None:
        """Verify that each tree is there with all that it holds, undamaged; raises StoreError.

        Not by `git fsck`: it also finds fault with names and contents that are no damage, such as a .gitmodules file.
        """
        if names := list(trees):
            options = ("--objects", "--verify-objects", "--quiet")
            self.run("rev-list", *options, *names, deadline_s=deadline_s, quietly=True)


def at(folder: Path, git: str | None) -> SnapshotStore:
    """Return the store at a folder; raises StoreError without git, or with one that fails or is too old."""
    if git is None:
        raise StoreError("git is not installed")
    version = git_version(git)
    if version < GIT_OLDEST:
        raise StoreError(
            f"git is too old: {version_text(version)}, at least {version_text(GIT_OLDEST)}"
        )
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
    said = _last_line(done.stderr) or f"exit code {done.returncode}, and no version"
    raise StoreError(f"{git} cannot be used: {said}")


def version_text(version: tuple[int, ...]) -> str:
    """Return a version as people read it."""
    return ".".join(map(str, version))


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
