"""LLM keys, and the environment as the daemon got it: kept out of every environment that lives.

`/proc/PID/environ` shows what a process was started with, whatever it removes later. So a daemon whose
environment holds what looks like a secret starts itself anew with a scrubbed one, and takes the rest from a
memory file that nothing else inherits.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clew_shared.settings import CommandAgent, LlmAgent, RunbookAgent, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

MEMFD = "CLEW_ENV_FD"
KEY_BYTES_MAX = 65536
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_HARMLESS = frozenset({"SSH_AUTH_SOCK", "XAUTHORITY", "CREDENTIALS_DIRECTORY", "GPG_AGENT_INFO"})


class KeyFileError(Exception):
    """A key file that cannot or must not be used; the message says why and how to mend it."""


class Keys:
    """The environment at the start, by name, and the keys that agents need."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = dict(env)

    def of(self, agent: LlmAgent | RunbookAgent | CommandAgent) -> str | None:
        """Give an LLM agent's key, None where it has none; raises KeyFileError."""
        if not isinstance(agent, LlmAgent):
            return None
        if agent.api_key_env:
            return self.env.get(agent.api_key_env)
        return read_key(Path(agent.api_key_file).expanduser()) if agent.api_key_file else None

    def fault(self, agent: LlmAgent | RunbookAgent | CommandAgent) -> str:
        """Say why an agent's key cannot be had, "" where nothing is wrong."""
        try:
            key = self.of(agent)
        except KeyFileError as error:
            return str(error)
        if isinstance(agent, LlmAgent) and agent.api_key_env and not key:
            return f"the environment variable {agent.api_key_env} (api_key_env) is not set for the daemon"
        return ""

    def secrets(self, settings: Settings) -> list[str]:
        """List the keys of all agents, so that none of them is ever logged."""
        found = []
        for agent in settings.agents.named.values():
            try:
                found.append(self.of(agent))
            except KeyFileError:
                continue
        return [key for key in found if key]


def read_key(path: Path) -> str:
    """Read a key file; refused where others can read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise KeyFileError(f"{path} can be read by others: chmod 600 {path}")
            return file.read(KEY_BYTES_MAX).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"the key file {path} cannot be read: {error}") from None


def scrubbed(env: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Give the environment without keys and what looks like secrets."""
    named = {
        agent.api_key_env
        for agent in settings.agents.named.values()
        if isinstance(agent, LlmAgent) and agent.api_key_env
    }
    return {
        name: value
        for name, value in env.items()
        if name in _HARMLESS or not (name in named or _SECRET.search(name))
    }


def take_environment(env: Mapping[str, str], settings: Settings) -> Keys:
    """Give the whole environment, after starting this program anew without its secrets where needed."""
    if MEMFD in env:
        return Keys(_with_user(_restored(int(env[MEMFD]))))
    clean = scrubbed(env, settings)
    if len(clean) != len(env) and sys.orig_argv:
        _start_anew(env, clean)
    return Keys(_with_user(env))


def _with_user(env: Mapping[str, str]) -> dict[str, str]:
    """Name the user where the environment does not, as in a container."""
    with contextlib.suppress(KeyError):
        return {"USER": pwd.getpwuid(os.getuid()).pw_name} | dict(env)
    return dict(env)


def _start_anew(env: Mapping[str, str], clean: dict[str, str]) -> None:
    fd = os.memfd_create("clew-env", 0)  # inherited by the one exec that follows, closed after
    os.write(fd, json.dumps(dict(env)).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    command = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, command, clean | {MEMFD: str(fd)})  # noqa: S606 - the same program


def _restored(fd: int) -> dict[str, str]:
    with os.fdopen(fd, "rb") as file:
        restored: dict[str, str] = json.loads(file.read())
    os.environ.pop(MEMFD, None)
    return restored
