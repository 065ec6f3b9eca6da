"""Reloads the config, on SIGHUP and `clew reload`, and says whether the file on disk would be accepted.

The whole config is checked first; if anything is wrong, nothing changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from clew_daemon.app.housekeeping import Status
from clew_daemon.bootstrap import configure_log, preload, record_places, warn_of
from clew_daemon.config import configfile
from clew_daemon.config.configfile import ConfigFileError
from clew_daemon.control.server import ControlError
from clew_daemon.parts import DaemonParts
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.config.settings import (
    LATER_TABLES,
    LIVE_TABLES,
    SettingChange,
    SettingsError,
    changes,
    load,
)
from clew_shared.config.tables import Settings

log = structlog.get_logger()

ERROR_CHARS = 4_000
_KEY_ENV = re.compile(r"agents\..+\.api_key_env")


def reload(
    path: Path, env: Mapping[str, str], now: Settings, visible: Mapping[str, str] = os.environ
) -> tuple[Settings, list[SettingChange], tuple[str, ...]]:
    """Return the settings from now on, every key that changed, and what is said of keys that are not used any more.

    Raises SettingsError, or ConfigFileError where the file cannot be read. `env` is the environment that the daemon was
    started with, `visible` what is left of it. Tables that need a restart stay as they are, and their changes are
    named. A table without a change stays the same object.
    """
    loaded = load(configfile.read(path), env, str(path))
    fresh, tables = loaded.settings, (*LIVE_TABLES, *LATER_TABLES)
    taken = {t: getattr(fresh, t) for t in tables if getattr(fresh, t) != getattr(now, t)}
    workers = {"max_workers": fresh.daemon.max_workers}
    taken["daemon"] = now.daemon.model_copy(update=workers)

    def needs_restart(change: SettingChange) -> bool:
        """Return whether it names a key's variable that is missing, or was not hidden when the daemon started."""
        name, is_key = change.new, _KEY_ENV.fullmatch(change.key)
        return bool(name is not None and is_key and not (name in env and name not in visible))

    found = [
        replace(one, applies="after a restart") if needs_restart(one) else one
        for one in changes(now, fresh)
    ]
    return now.model_copy(update=taken), found, loaded.outdated


class ConfigWatch:
    """Validates the config file again only when it has changed; `error` blocks: call it in one thread at a time."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        self._env = env
        self._text: str | None = None
        self._error: str | None = None

    def error(self) -> str | None:
        """Return why the file would be rejected, all errors of it; None if it would not be."""
        try:
            text = configfile.read(self._path)
            if text != self._text:
                self._text, self._error = text, None
                load(text, self._env, str(self._path))
        except ConfigFileError as error:
            return str(error)[:ERROR_CHARS]
        except SettingsError as error:
            self._error = str(error)[:ERROR_CHARS]
        return self._error


class Reloader:
    """Replaces the settings of a running daemon as a whole, or not at all."""

    def __init__(self, daemon: DaemonParts, supervisor: Supervisor, status: Status) -> None:
        self._daemon = daemon
        self._supervisor = supervisor
        self._status = status

    async def on_signals(self, hangup: asyncio.Event) -> None:
        """Reload whenever `hangup` is set; signals that come together are one."""
        while True:
            await hangup.wait()
            hangup.clear()
            with contextlib.suppress(ControlError):
                await self.reload()

    async def reload(self) -> list[SettingChange]:
        """Apply what the config says now; raises ControlError and changes nothing where it is not valid."""
        self._status.reloading()
        daemon = self._daemon
        try:
            settings, changed, outdated = reload(
                daemon.places.config, daemon.keys.env, daemon.settings
            )
            configure_log(daemon.places, settings, daemon.keys)
        except (SettingsError, ConfigFileError, OSError) as error:
            log.error("config.rejected", reason=str(error))  # noqa: TRY400 - a reason, no bug
            raise ControlError(f"nothing was changed:\n{error}") from None
        else:
            daemon.settings = settings
            daemon.goals.adopt(settings, daemon.settings_of)
            daemon.nursery.preload = preload(settings)
            self._supervisor.reloaded()
            await asyncio.to_thread(record_places, daemon.places, settings, daemon.keys)
            warn_of(outdated)
            log.info(
                "config.reloaded",
                changed={c.key: {"old": c.old, "new": c.new} for c in changed},
                restart_needed=[c.key for c in changed if c.applies == "after a restart"],
            )
            return changed
        finally:
            self._status.reloaded()
