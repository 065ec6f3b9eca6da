"""Whether the config file on disk would be accepted by a reload or a restart; the daemon goes on with its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.config import configfile
from clew_shared.config.configfile import ConfigFileError
from clew_shared.config.settings import SettingsError, load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ERROR_CHARS = 4_000

_Stamp = tuple[int, int, int, int, int, int]


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
            self._error = self._checked()
            self._seen = stamp
        return self._error

    def _stamp(self) -> _Stamp | None:
        try:
            s = self._path.stat()
        except OSError:  # looked at each time: there is nothing to parse
            return None
        return (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_mode)

    def _checked(self) -> str | None:
        try:
            text = configfile.read(self._path)
            if text is not None:
                load(text, self._env, str(self._path))
        except (ConfigFileError, SettingsError) as error:
            return str(error)[:ERROR_CHARS]
        return None
