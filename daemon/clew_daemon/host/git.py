"""What clew asks of git: who commits, for executors that do not see the git config, and where git's folder is.

Of the config only `user.*`, `author.*` and `committer.*` are read, by `git config` itself: that starts no credential
helper, no pager and no hook. The daemon's own environment takes precedence.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

from clew_shared.config.settings import SettingChange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
SYSTEM_GIT = ("/usr/bin/git", "/usr/local/bin/git", "/bin/git", "/run/current-system/sw/bin/git")
DEADLINE_S = 3.0
VALUE_CHARS = 1_000
_LINK_BYTES_MAX = 4096
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KEYS = r"^(user|author|committer)\.(name|email)$"
_ENV = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


def read_identity(env: Mapping[str, str]) -> dict[str, str]:
    """Return those of the four variables that are known; {} without git or where it is too slow. Blocks."""
    named = {name: env[name] for name in NAMES if _usable(env.get(name, ""))}
    if len(named) == len(NAMES):
        return named
    return _variables(_configured(env)) | named


def identity_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[SettingChange]:
    """Return which of the variables a reload changed; workers that are started from now on have the new ones."""
    return [
        SettingChange(name, old.get(name), new.get(name), "now")
        for name in NAMES
        if old.get(name) != new.get(name)
    ]


def _variables(config: Mapping[str, str]) -> dict[str, str]:
    """Turn git's keys into its variables: `author.name` goes before `user.name`, as in git."""
    found = {}
    for variable in NAMES:
        _, who, what = variable.lower().split("_")
        if value := config.get(f"{who}.{what}") or config.get(f"user.{what}"):
            found[variable] = value
    return found


def _configured(env: Mapping[str, str]) -> dict[str, str]:
    git = program(env)
    if git is None:
        return {}
    try:
        done = subprocess.run(
            [git, "config", "--null", "--get-regexp", _KEYS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: env[name] for name in _ENV if name in env}
            | {"GIT_DIR": "/dev/null", "PATH": os.defpath, "LC_ALL": "C"},
            timeout=DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = {}
    for entry in done.stdout.decode("utf-8", "replace").split("\0"):
        key, _, value = entry.partition("\n")
        if _usable(value):
            found[key] = value.strip()  # the last one counts, as in git
    return found


def program(env: Mapping[str, str]) -> str | None:
    """Return the absolute path of git, the system's first; None where there is none."""
    for path in SYSTEM_GIT:
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("git", path=env.get("PATH", os.defpath))
    return found if found and found.startswith("/") else None


def _usable(value: str) -> bool:
    return bool(value.strip()) and value.isprintable() and len(value) <= VALUE_CHARS


def top_folder(folder: Path) -> Path | None:
    """Return the top of the working tree that a folder is in; None where it is in none."""
    for one in (folder, *folder.parents):
        if os.path.lexists(one / ".git" / "HEAD") or _link_text(one / ".git").startswith("gitdir:"):
            return one
    return None


def _link_text(path: Path) -> str:
    """Read a small regular file; "" for anything else."""
    try:
        fd = os.open(path, _READ)
    except (OSError, ValueError):  # a path with a zero in it
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, _LINK_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
