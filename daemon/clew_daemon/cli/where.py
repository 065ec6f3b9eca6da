"""Which clew is meant: its folders, its ledger, its config, from `--home` and the environment.

Reading commands must answer at once, so they take the few keys they need straight from the file;
`settings` is the whole, validated config for those that need it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from clew_daemon.cli.errors import CliError
from clew_shared import configfile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.cli.client import Address
    from clew_shared.ledger.lock import Holder
    from clew_shared.places import Places
    from clew_shared.settings import Loaded, Settings

SQLITE = "sqlite:///"
_PATH_KEYS = ("inbox", "outbox", "workspaces", "state", "run")


@dataclass(frozen=True)
class Where:
    """One clew: `home` is `--home` made absolute, or None; `env` the environment."""

    home: Path | None
    env: Mapping[str, str]

    @classmethod
    def of(cls, home: Path | None, env: Mapping[str, str]) -> Where:
        """Make relative homes absolute, as only the caller's working directory can."""
        if home is None and env.get("CLEW_HOME"):
            home = Path(env["CLEW_HOME"])
        try:
            absolute = None if home is None else Path(os.path.abspath(home.expanduser()))  # noqa: PTH100 - links stay
        except RuntimeError as error:
            raise CliError(f"--home or CLEW_HOME is {home}: {error}") from None
        return cls(absolute, env)

    @cached_property
    def config(self) -> Path:
        """The config file, which may be absent."""
        return self._places(None).config

    @cached_property
    def config_text(self) -> str | None:
        """The config file's text; None where there is no file."""
        try:
            return configfile.read(self.config)
        except configfile.ConfigFileError as error:
            raise CliError(f"the config cannot be used: {error}") from None

    @cached_property
    def places(self) -> Places:
        """The folders, with `[paths]` applied."""
        paths = SimpleNamespace(**{key: self._key("paths", key) for key in _PATH_KEYS})
        return self._places(cast("Settings", SimpleNamespace(paths=paths)))

    @cached_property
    def ledger(self) -> Path:
        """The ledger's file, which may be absent."""
        url = self._key("ledger", "url") or f"{SQLITE}<state>/ledger.db"
        return Path(url.removeprefix(SQLITE).replace("<state>", str(self.places.state)))

    @cached_property
    def log_file(self) -> Path:
        """The log's file, which may be absent."""
        named = self._key("log", "file")
        try:
            return Path(named).expanduser() if named else self.places.log_file
        except RuntimeError as error:
            raise CliError(f"`log.file` is {named!r}: {error}") from None

    @property
    def socket(self) -> Address:
        """Where a daemon of this ledger answers: where its lock says, else in the run folder of this environment.

        What a holder in another container says is a path there: our own run folder is looked at first.
        """
        from clew_daemon.cli.client import Address

        own, found = self.places.socket, self.holder
        if found is None or found.socket is None or (not found.is_here and own.exists()):
            return Address(own, found)
        return Address(found.socket, found)

    @property
    def holder(self) -> Holder | None:
        """Who holds the lock of the ledger now; None also where that cannot be seen."""
        from clew_shared.ledger.lock import beside, holder

        with suppress(OSError):
            return holder(beside(self.ledger))
        return None

    @cached_property
    def loaded(self) -> Loaded:
        """The whole config, validated; SettingsError with all faults."""
        from clew_shared.settings import load

        return load(self.config_text, self.env, str(self.config))

    @property
    def settings(self) -> Settings:
        """The whole config's values; CliError with all faults."""
        from clew_shared.settings import SettingsError

        try:
            return self.loaded.settings
        except SettingsError as error:
            raise CliError(f"the config cannot be used:\n{error}") from None

    def _places(self, settings: Settings | None) -> Places:
        from clew_shared.places import PlacesError, places

        try:
            return places(self.env, self.home, settings)
        except PlacesError as error:
            raise CliError(str(error)) from None

    @cached_property
    def _raw(self) -> dict[str, Any]:
        if not self.config_text:
            return {}
        import tomllib

        try:
            return tomllib.loads(self.config_text)
        except ValueError as error:
            raise CliError(
                f"the config {self.config} cannot be read: {error}\n"
                "`clew config` names every fault of it."
            ) from None

    def _key(self, table: str, key: str) -> str | None:
        named = self.env.get(f"CLEW_{table}__{key}".upper())
        if named:
            return named
        value = self._raw.get(table, {})
        value = value.get(key) if isinstance(value, dict) else value
        if value is None or (isinstance(value, str) and value):
            return value
        raise CliError(
            f"the config {self.config} cannot be used: `{table}.{key}` is {value!r}\n"
            "`clew config` names every error in it."
        )
