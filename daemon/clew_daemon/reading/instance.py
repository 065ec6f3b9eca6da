"""One instance of clew, by `--home` and the environment; commands that only read take its few keys from the file."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from clew_daemon.config import configfile
from clew_daemon.reading.client import Address, ask
from clew_daemon.reading.errors import CliError, print_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.config.places import Places
    from clew_daemon.ledger.lock import Holder
    from clew_shared.config.settings import Loaded
    from clew_shared.config.tables import Settings


SQLITE = "sqlite:///"
_PATH_KEYS = ("inbox", "outbox", "workspaces", "state", "run")


@dataclass(frozen=True)
class Instance:
    """One instance: `home` is the absolute path of `--home`, or None; `env` is the environment.

    The running daemon is found even if the config file is broken: that is printed once as a warning, and the places of
    the last daemon with this config are used.
    """

    home: Path | None
    env: Mapping[str, str]
    _faults: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, home: Path | None, env: Mapping[str, str]) -> Instance:
        """Make the instance; a relative home is below the working directory."""
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
        return self._usual.config

    @cached_property
    def config_text(self) -> str | None:
        """The config file's text; None where there is no file."""
        try:
            return configfile.read(self.config)
        except configfile.ConfigFileError as error:
            raise CliError(f"the config cannot be used: {error}") from None

    @cached_property
    def places(self) -> Places:
        """The folders, with `[paths]` applied; with a broken config those of the last daemon."""
        found = {key: self._key("paths", key) for key in _PATH_KEYS}
        try:
            return self._moved(found)
        except CliError as error:
            if not any(found.values()):
                raise
            self._warn(error.message)
            return self._moved({key: self._last["paths"].get(key) for key in _PATH_KEYS})

    @cached_property
    def ledger(self) -> Path:
        """The ledger's file, which may be absent."""
        default = f"{SQLITE}<state>/ledger.db"
        url = self._key("ledger", "url") or default
        if not url.startswith((f"{SQLITE}/", f"{SQLITE}<state>")):
            self._warn(f"{self.config}: `ledger.url` is {url!r}")
            url = self._last["ledger"].get("url", default)
        return Path(url.removeprefix(SQLITE).replace("<state>", str(self.places.state)))

    @cached_property
    def log_file(self) -> Path:
        """The log's file, which may be absent."""
        named = self._key("log", "file")
        try:
            return Path(named).expanduser() if named else self.places.log_file
        except RuntimeError as error:
            self._warn(f"{self.config}: `log.file` is {named!r}: {error}")
            return Path(self._last["log"].get("file") or self.places.log_file)

    # The few keys that every command needs are read from the file itself: validating it takes too long.

    def _key(self, table: str, key: str) -> str | None:
        """Return a key's text, None if it is not set; with a broken file what the last daemon used."""
        if named := self.env.get(f"CLEW_{table}__{key}".upper()):
            return named
        found = self._tables.get(table, {})
        value = found.get(key) if isinstance(found, dict) else found
        if value is None or (isinstance(value, str) and value and "\0" not in value):
            return value
        self._warn(f"{self.config}: `{table}.{key}` is {value!r}")
        return self._last[table].get(key)

    def _warn(self, why: str) -> None:
        """Print a warning about the file, once; the running daemon has its own settings."""
        if not self._faults:
            print_error(f"warning: the config file is broken and was ignored: {why}")
        self._faults.append(why)

    @cached_property
    def _tables(self) -> Mapping[str, object]:
        """The tables of the file; of a broken one what the last daemon used."""
        try:
            text = configfile.read(self.config)
            if not text:
                return {}
            import tomllib

            return tomllib.loads(text)
        except (configfile.ConfigFileError, RecursionError) as error:
            self._warn(str(error) or f"{self.config} is nested too deeply")
        except ValueError as error:
            self._warn(f"{self.config}: not valid TOML: {error}")
        return self._last

    @cached_property
    def _last(self) -> Mapping[str, dict[str, str]]:
        """Where the last daemon with this config had its folders, its ledger and its log, as the keys of a config."""
        from clew_daemon.host.folders import recorded

        found = {key: str(path) for key, path in recorded(self._usual).items()}
        ledger, log = found.pop("ledger", ""), found.pop("log", "")
        keys = {"url": f"{SQLITE}{ledger}"} if ledger else {}
        return {"paths": found, "ledger": keys, "log": {"file": log} if log else {}}

    @cached_property
    def _usual(self) -> Places:
        return self._places(None)

    def _places(self, settings: Settings | None) -> Places:
        from clew_daemon.config.places import PlacesError, places

        try:
            return places(self.env, self.home, settings)
        except PlacesError as error:
            raise CliError(str(error)) from None

    def _moved(self, paths: Mapping[str, str | None]) -> Places:
        return self._places(cast("Settings", SimpleNamespace(paths=SimpleNamespace(**paths))))

    @property
    def socket(self) -> Address:
        """The control socket: where the lock's holder says, unless that is in a container, with paths of its own."""
        own, found = self.places.socket, self.holder
        named = found.socket if found else None
        if found and named and not (own.exists() and not found.is_here):
            own = named
        return Address(own, found)

    @property
    def holder(self) -> Holder | None:
        """The present holder of the ledger's lock; None if there is none or it cannot be determined."""
        from clew_daemon.ledger.lock import beside, holder

        with suppress(OSError):
            return holder(beside(self.ledger))
        return None

    @cached_property
    def loaded(self) -> Loaded:
        """The whole config, validated; SettingsError with all faults."""
        from clew_shared.config.settings import load

        return load(self.config_text, self.env, str(self.config))

    @property
    def settings(self) -> Settings:
        """The values of the whole config file; CliError with all errors in it."""
        from clew_shared.config.settings import SettingsError

        try:
            return self.loaded.settings
        except SettingsError as error:
            raise CliError(f"the config cannot be used:\n{error}") from None

    @cached_property
    def settings_in_force(self) -> Settings:
        """The settings of the running daemon; without one those of the file, or CliError."""
        from clew_shared.config.tables import Settings

        with suppress(CliError, ValueError):  # an older daemon
            if (answer := ask(self.socket, "settings")) is not None:
                return Settings.model_validate_json(json.dumps(answer))
        return self.settings

    @cached_property
    def settings_for_display(self) -> Settings:
        """The settings in force, or the defaults if the file is broken: for commands that only show things."""
        from clew_shared.config.tables import Settings

        try:
            return self.settings_in_force
        except CliError as error:
            self._warn(error.message)
            return Settings()

    def report_of(self, goal: str) -> str:
        """Return the path of a goal's report, "" if there is none yet."""
        report = self.places.outbox / f"{goal}.md"
        return str(report) if report.exists() else ""

    def refuse_broken(self) -> None:
        """Raise CliError if a broken config leaves open which ledger is meant; for commands that replace files."""
        _ = self.ledger
        if self._faults:
            raise CliError("this needs a config file that can be read: fix it first")
