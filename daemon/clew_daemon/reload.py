"""Reloading the config by SIGHUP or `clew reload`, and watching whether the file on disk would be accepted.

The whole config is checked first; if anything is wrong, nothing changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clew_daemon.config import configfile
from clew_daemon.config.configfile import ConfigFileError
from clew_shared.config.faults import SettingsError
from clew_shared.config.settings import LATER_TABLES, LIVE_TABLES, SettingChange, changes, load
from clew_shared.config.tables import Settings

ERROR_CHARS = 4_000

_Stamp = tuple[int, int, int, int, int, int]
_KEY_ENV = re.compile(r"agents\..+\.api_key_env")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The settings that apply from now on, every key that changed, and what is not used any more."""

    settings: Settings
    changes: list[SettingChange]
    outdated: tuple[str, ...] = ()


def reload(
    path: Path, env: Mapping[str, str], now: Settings, visible: Mapping[str, str] = os.environ
) -> Reloaded:
    """Read the config again; raises SettingsError, or ConfigFileError where the file cannot be read.

    `env` is the environment that the daemon was started with, `visible` what is left of it. Tables that need a
    restart stay as they are, and their changes are named. A table without a change stays the same object.
    """
    loaded = load(configfile.read(path), env, str(path))
    fresh = loaded.settings
    taken = {
        table: getattr(fresh, table)
        for table in (*LIVE_TABLES, *LATER_TABLES)
        if getattr(fresh, table) != getattr(now, table)
    }
    workers = {"max_workers": fresh.daemon.max_workers}
    taken["daemon"] = now.daemon.model_copy(update=workers)
    found = [_with_key_restart(change, env, visible) for change in changes(now, fresh)]
    return Reloaded(now.model_copy(update=taken), found, loaded.outdated)


def _with_key_restart(
    change: SettingChange, env: Mapping[str, str], visible: Mapping[str, str]
) -> SettingChange:
    """Mark a key's variable as needing a restart where it is missing, or was not hidden when the daemon started."""
    name = change.new
    is_key = name is not None and _KEY_ENV.fullmatch(change.key)
    if is_key and (name not in env or name in visible):
        return replace(change, applies="after a restart")
    return change


class ConfigWatch:
    """Validates the config file again only when it has changed; `error` blocks: call it in one thread at a time."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        self._env = env
        self._seen: _Stamp | None = None
        self._error: str | None = None

    def error(self) -> str | None:
        """Return why the file would be rejected, all errors of it; None if it would not be."""
        stamp = self._stamp()
        if stamp is None or stamp != self._seen:
            self._error = self._check()
            self._seen = stamp
        return self._error

    def _stamp(self) -> _Stamp | None:
        try:
            s = self._path.stat()
        except OSError:  # no stamp: check each time, there is nothing to parse
            return None
        return (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_mode)

    def _check(self) -> str | None:
        try:
            text = configfile.read(self._path)
            if text is not None:
                load(text, self._env, str(self._path))
        except (ConfigFileError, SettingsError) as error:
            return str(error)[:ERROR_CHARS]
        return None
