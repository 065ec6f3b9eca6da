"""The few keys of the config file that every command needs, read from the file itself: validating it takes too long.

The running daemon is found even if the file is broken: that is printed once as a warning, and the places of the last
daemon with this config are used.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.errors import print_error
from clew_daemon.config import configfile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clew_shared.config.places import Places

SQLITE = "sqlite:///"


class ConfigKeys:
    """Keys of the config `file`; the environment takes precedence. `usual` are the places that an empty file gives."""

    def __init__(self, usual: Places, env: Mapping[str, str]) -> None:
        self.file = usual.config
        self.is_broken = False
        self._usual = usual
        self._env = env

    def text(self, table: str, key: str) -> str | None:
        """Return a key's text, None if it is not set; with a broken file what the last daemon used."""
        named = self._env.get(f"CLEW_{table}__{key}".upper())
        if named:
            return named
        if self._tables is not None:
            found = self._tables.get(table, {})
            value = found.get(key) if isinstance(found, dict) else found
            if value is None or (isinstance(value, str) and value and "\0" not in value):
                return value
            self.warn(f"{self.file}: `{table}.{key}` is {value!r}")
        if table == "ledger":
            return SQLITE + last if (last := self.last("ledger")) else None
        return self.last("log" if table == "log" else key)

    def last(self, key: str) -> str | None:
        """Return where the last daemon with this config had a folder, its `ledger` or its `log`; None if unknown."""
        return str(self._last[key]) if key in self._last else None

    def warn(self, why: str) -> None:
        """Print a warning about the file, once; the running daemon has its own settings."""
        if not self.is_broken:
            print_error(f"warning: the config file is broken and was ignored: {why}")
        self.is_broken = True

    @cached_property
    def _tables(self) -> dict[str, Any] | None:
        """The tables of the file, {} without a file, None for a file that cannot be read."""
        try:
            text = configfile.read(self.file)
            if not text:
                return {}
            import tomllib

            return tomllib.loads(text)
        except (configfile.ConfigFileError, RecursionError) as error:
            self.warn(str(error) or f"{self.file} is nested too deeply")
        except ValueError as error:
            self.warn(f"{self.file}: not valid TOML: {error}")
        return None

    @cached_property
    def _last(self) -> Mapping[str, Path]:
        from clew_daemon.host import recorded_places

        return recorded_places.read(self._usual)
