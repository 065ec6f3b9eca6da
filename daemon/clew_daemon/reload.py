"""SIGHUP and `clew reload`: the whole config is checked first; if anything is wrong, nothing changes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clew_shared.config import configfile
from clew_shared.config.settings import (
    LATER_TABLES,
    LIVE_TABLES,
    SettingChange,
    Settings,
    changes,
    load,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_KEY_ENV = re.compile(r"agents\..+\.api_key_env")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The settings that apply from now on, and every key that the file changed."""

    settings: Settings
    changes: list[SettingChange]


def reload(
    path: Path, env: Mapping[str, str], now: Settings, visible: Mapping[str, str] = os.environ
) -> Reloaded:
    """Read the config again; raises SettingsError, or ConfigFileError where the file cannot be read.

    `env` is the environment that the daemon was started with, `visible` what is left of it. Tables that need a
    restart stay as they are, and their changes are named. A table without a change stays the same object.
    """
    fresh = load(configfile.read(path), env, str(path)).settings
    taken = {
        table: getattr(fresh, table)
        for table in (*LIVE_TABLES, *LATER_TABLES)
        if getattr(fresh, table) != getattr(now, table)
    }
    workers = {"max_workers": fresh.daemon.max_workers}
    taken["daemon"] = now.daemon.model_copy(update=workers)
    found = [_judged(change, env, visible) for change in changes(now, fresh)]
    return Reloaded(now.model_copy(update=taken), found)


def _judged(
    change: SettingChange, env: Mapping[str, str], visible: Mapping[str, str]
) -> SettingChange:
    """Say that a key needs a restart: its variable is missing, or was not hidden when the daemon started."""
    name = change.new
    is_key = name is not None and _KEY_ENV.fullmatch(change.key)
    if is_key and (name not in env or name in visible):
        return replace(change, applies="after a restart")
    return change
