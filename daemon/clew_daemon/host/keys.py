"""LLM keys, logins of coding agents, and the daemon's own environment, which no running process has in its own.

`/proc/PID/environ` shows what a process was started with. So a daemon whose environment holds what looks like a secret
starts itself again with a scrubbed one, and takes the rest from a memory file that nothing else inherits.
"""

import contextlib
import json
import os
import pwd
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew_daemon.config.places import PlacesError, expanded
from clew_shared.config.agent_tables import Agent, CliAgentSettings, ModelAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.files import closing, write_whole
from clew_shared.text.redact import hide, redact
from clew_shared.text.words import log_in

MEMFD = "CLEW_ENV_FD"
KEY_BYTES_MAX = 65536
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_HARMLESS = frozenset({"SSH_AUTH_SOCK", "XAUTHORITY", "GPG_AGENT_INFO"})
_MEMORY_FILE = "/memfd:clew-env"
_TO_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # does not wait at a FIFO


class KeyFileError(Exception):
    """A key that cannot or must not be used; the message says why and how to fix it, and never the key."""


class Keys:
    """The environment at the start, and the keys of agents, hidden once handed out; relative ones are in `folder`."""

    def __init__(self, env: Mapping[str, str], folder: Path = Path()) -> None:
        self.env = dict(env)
        self._folder = folder

    def of(self, agent: Agent) -> str | None:
        """Return an agent's key, None if it has none; read again each time. Raises KeyFileError."""
        if not isinstance(agent, ModelAgentSettings):
            return None
        key: str | None = None
        if name := agent.api_key_env:
            if value := self.env.get(name, "").strip():
                key = _checked(value, f"the environment variable {name}")
        elif path := self.path(agent):
            key = read_key(path)
        if key:
            hide([key])
        return key

    def path(self, agent: Agent) -> Path | None:
        """Return where an agent's key file is, None if it has none; raises KeyFileError."""
        if not isinstance(agent, ModelAgentSettings) or not agent.api_key_file:
            return None
        return self._folder / self._expanded(agent.api_key_file)

    def login_files(self, agent: Agent) -> list[Path]:
        """Return the login files of a coding agent, which it gets copies of; raises KeyFileError."""
        named = agent.credentials if isinstance(agent, CliAgentSettings) else ()
        return [self._expanded(one) for one in named]

    def _expanded(self, path: str) -> Path:
        try:
            return expanded(path, self.env)
        except PlacesError as error:
            raise KeyFileError(str(error)) from None

    def fault(self, agent: Agent) -> str:
        """Return why an agent's key, or one of its login files, is not available; "" where all are."""
        try:
            key = self.of(agent)
            for path in self.login_files(agent):
                if isinstance(agent, CliAgentSettings) and not path.exists():
                    return f"the login file {path} cannot be read: No such file or directory; {log_in(agent.cli)}"
                read_secret(path, "login file", 0)
        except KeyFileError as error:
            return str(error)
        if isinstance(agent, ModelAgentSettings) and agent.api_key_env and not key:
            return f"the environment variable {agent.api_key_env} (api_key_env) is not set for the daemon"
        return ""

    def paths(self, settings: Settings) -> list[Path]:
        """List the key and login files of all agents, which no worker may see."""
        found: list[Path | None] = []
        for agent in settings.agents.named.values():
            with contextlib.suppress(KeyFileError):
                found += [self.path(agent), *self.login_files(agent)]
        return [path for path in found if path]

    def hide(self, settings: Settings) -> None:
        """Read the keys of all agents, so that none of them is ever written, also before it is used."""
        for agent in settings.agents.named.values():
            with contextlib.suppress(KeyFileError):
                self.of(agent)


def read_key(path: Path) -> str:
    raw = read_secret(path, "key file", KEY_BYTES_MAX)
    return _checked(raw.decode("ascii", "replace").strip(), f"the key file {path}")


def read_secret(path: Path, what: str, limit: int) -> bytes:
    """Read a file, judged as it was opened, and refused where others can use it; KeyFileError. `limit` 0: no more."""
    try:
        with closing(os.open(path, _TO_LOOK)) as fd:
            fault = _file_fault(os.fstat(fd))
            raw = b"" if fault or not limit else os.read(fd, limit + 1)
    except OSError as error:
        raise KeyFileError(f"the {what} {path} cannot be read: {error.strerror}") from None
    if fault:
        raise KeyFileError(f"the {what} {path} {fault.format(path=path)}")
    if len(raw) > limit:
        raise KeyFileError(f"the {what} {path} has over {limit} bytes, which is too large for it")
    return raw


def _file_fault(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "is not a file"
    if found.st_uid not in (os.getuid(), 0):
        return f"belongs to user {found.st_uid}, who can change it: chown {os.getuid()} {{path}}"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return "can be read or written by others: chmod 600 {path}"
    return ""


def _checked(key: str, source: str) -> str:
    """Refuse what no HTTP header can carry, before a library quotes it in an error."""
    if not key:
        raise KeyFileError(f"{source} is empty: put the key there, on one line")
    if not key.isascii() or not key.isprintable() or " " in key:
        what = "must be one line of letters, digits and signs, without spaces"
        raise KeyFileError(f"{source} {what}")
    return key


def scrubbed(env: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the environment without keys and what looks like secrets, by its name or by its value."""
    models = (a for a in settings.agents.named.values() if isinstance(a, ModelAgentSettings))
    named = {agent.api_key_env for agent in models}

    def is_secret(name: str, value: str) -> bool:
        return name in named or bool(_SECRET.search(name)) or redact(value) != value

    return {n: v for n, v in env.items() if n in _HARMLESS or not is_secret(n, v)}


def take_environment(env: Mapping[str, str], settings: Settings, folder: Path) -> Keys:
    """Return the whole environment, after starting this program again without its secrets where needed."""
    if (whole := _handed_over(env)) is not None:
        return Keys(_with_user(whole), folder)
    clean = scrubbed(env, settings)
    if len(clean) != len(env) and sys.orig_argv:
        fd = os.memfd_create("clew-env", 0)  # inherited by the one exec that follows, closed after
        os.write(fd, json.dumps(dict(env)).encode())
        os.lseek(fd, 0, os.SEEK_SET)
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, clean | {MEMFD: str(fd)})  # noqa: S606 - the same program
    return Keys(_with_user(env), folder)


def _handed_over(env: Mapping[str, str]) -> dict[str, str] | None:
    """Return what is in the memory file that this program left for itself, None without one."""
    named = env.get(MEMFD, "")
    with contextlib.suppress(OSError):
        if named.isdecimal() and os.readlink(f"/proc/self/fd/{named}").startswith(_MEMORY_FILE):  # noqa: PTH115 - no path
            os.environ.pop(MEMFD, None)
            with os.fdopen(int(named), "rb") as file:
                return dict(json.loads(file.read()))
    return None


def _with_user(env: Mapping[str, str]) -> dict[str, str]:
    """Name the user where the environment does not, as in a container."""
    with contextlib.suppress(KeyError):
        return {"USER": pwd.getpwuid(os.getuid()).pw_name} | dict(env)
    return dict(env)


# -- logins of coding agents


# Refreshed tokens are written back if nothing but tokens has changed: what the CLI left in its HOME is not trusted.
_TOKEN_FIELD = re.compile(r"token|access|refresh|expires|expiry", re.IGNORECASE)
TOKEN_CHARS_MAX = 16_384


def only_tokens_differ(old: str, new: str) -> bool:
    """Return whether two texts are the same JSON object but for the values of token fields, and do differ."""
    try:
        before, after = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return False
    is_object = isinstance(before, dict) and isinstance(after, dict)
    return is_object and before != after and _alike(before, after)


def _alike(old: Any, new: Any, *, token: bool = False) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        tokens = {key: bool(_TOKEN_FIELD.search(key)) for key in old}
        same = old.keys() == new.keys()
        return same and all(_alike(v, new[key], token=tokens[key]) for key, v in old.items())
    if old == new:
        return True
    same_kind = type(old) is type(new) and isinstance(old, str | int | float)
    return token and same_kind and 0 < len(str(new)) <= TOKEN_CHARS_MAX


def write_back(path: Path, old: str, new: str) -> str:
    """Replace the text of a login file that is still `old` by `new`, atomically; return why not, "" if it was done."""
    if not only_tokens_differ(old, new):
        return "more than its tokens differs"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return "it is not a regular file"
            if file.read(len(old.encode()) + 1) != old.encode():
                return "it was changed meanwhile"
        write_whole(path, new, stat.S_IMODE(info.st_mode) & 0o700)
    except OSError as error:
        return error.strerror or str(error)
    return ""


LOGIN_BYTES_MAX = 64 * 1024
LOGINS_BYTES_MAX = 256 * 1024
_TOKEN = re.compile(r"[!-~]{16,}")  # What may be a token: one word of at least as many signs
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+-]+Z?")
_ADDRESS = re.compile(r"https?://|[^@\s]+@[^@\s]+\.\w+$")


def login_copies(paths: Iterable[Path], env: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of login files by their places in a private HOME; raises KeyFileError."""
    found = {}
    for path in paths:
        try:
            text = read_secret(path, "login file", LOGIN_BYTES_MAX).decode()
        except ValueError:
            raise KeyFileError(f"the login file {path} is not UTF-8") from None
        hide(list(secrets_of(text)))
        found[place_of(path, env)] = text
    if sum(map(len, found.values())) > LOGINS_BYTES_MAX:
        raise KeyFileError(f"the login files have over {LOGINS_BYTES_MAX} bytes together")
    return found


def place_of(path: Path, env: Mapping[str, str]) -> str:
    """Return where the copy of a login file is in a private HOME: where the file is in the user's, else at the top."""
    home = env.get("HOME")
    return str(path.relative_to(home)) if home and path.is_relative_to(home) else path.name


def secrets_of(text: str) -> Iterator[str]:
    """Yield what may be a secret in a login file: of JSON the long words among its values, else all long words."""
    try:
        values = list(_leaves(json.loads(text)))
    except (ValueError, RecursionError):
        values = text.split()
    for value in values:
        if _TOKEN.fullmatch(value) and not (_TIME.fullmatch(value) or _ADDRESS.match(value)):
            yield value


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
