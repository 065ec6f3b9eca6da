"""SIGHUP and `clew reload`: all of the config is checked first; if anything is wrong, nothing changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_shared import configfile
from clew_shared.settings import Change, Settings, changes, load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LIVE = ("loops", "context", "restart", "heartbeat", "playbook", "log")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The settings to go by from now on, and every key that the file changed."""

    settings: Settings
    changes: list[Change]


def reload(path: Path, env: Mapping[str, str], now: Settings) -> Reloaded:
    """Read the config again; raises SettingsError, or ConfigFileError where the file cannot be read.

    Only the live tables are taken over; other changes are named, and need a restart.
    """
    fresh = load(configfile.read(path), env, str(path)).settings
    taken = now.model_copy(update={table: getattr(fresh, table) for table in LIVE})
    return Reloaded(taken, changes(now, fresh))
