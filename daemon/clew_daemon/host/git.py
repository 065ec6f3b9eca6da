"""What clew asks of git: who commits, by `git config` itself, which starts no helper or hook, and where it stands."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

NAMES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
SYSTEM_GIT = ("/usr/bin/git", "/usr/local/bin/git", "/bin/git", "/run/current-system/sw/bin/git")
DEADLINE_S = 3.0
VALUE_CHARS = 1_000
_KEYS = r"^(user|author|committer)\.(name|email)$"
_ENV = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


def read_identity(env: Mapping[str, str]) -> dict[str, str]:
    """Return those of the four variables that are known; {} without git or where it is too slow. Blocks."""
    named = {name: env[name] for name in NAMES if _usable(env.get(name, ""))}
    if len(named) == len(NAMES):
        return named
    return _configured(env) | named


def _configured(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by git's config, where `author.name` goes before `user.name`."""
    if (git := program(env)) is None:
        return {}
    command = [git, "-C", "/", "config", "--null", "--get-regexp", _KEYS]
    nothing = subprocess.DEVNULL
    own = {name: env[name] for name in _ENV if name in env}
    own |= {"GIT_DIR": "/dev/null", "PATH": os.defpath, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, env=own, stdin=nothing, capture_output=True, timeout=DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    entries = (one.partition("\n") for one in done.stdout.decode("utf-8", "replace").split("\0"))
    config = {key: value.strip() for key, _, value in entries if _usable(value)}
    found = {}
    for variable in NAMES:
        _, who, what = variable.lower().split("_")
        if value := config.get(f"{who}.{what}") or config.get(f"user.{what}"):
            found[variable] = value
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
        is_linked = os.path.isfile(one / ".git")  # noqa: PTH113 - False where it cannot be seen
        if is_linked or os.path.lexists(one / ".git" / "HEAD"):
            return one
    return None
