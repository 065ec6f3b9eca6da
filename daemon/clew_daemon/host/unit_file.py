"""The systemd user units, whose texts are in `unit_files/`: where they are put, and which home a unit is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT = "daemon"
"""The unit that `clew service` is about if none is named."""
DEFAULT_HOME = "the default one"
"""What messages call the home where no `--home` is given."""
DEFAULT_EXEC = "%h/.local/bin/clew"
STOP_GRACE_S, STOP_MARGIN_S = 10.0, 20.0
"""Agents get `stop_grace_s`, then their trees are killed and the ledger is closed."""
NOTIFY_RELOAD_SINCE = 253
_TEXTS = Path(__file__).parent / "unit_files"
_HOME_OPTION = re.compile(r""" --home ("(?:[^"\\]|\\.)*"|\S+) (?:run|herald|web)$""")

_NOTIFY_RELOAD = """\
# Managers before 253 do not know notify-reload, warn, and keep the line before it.
Type=notify
Type=notify-reload
"""


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """One of clew's units: its file, the command that it runs, and what it is called in `clew service install`."""

    name: str
    command: str
    called: str
    to_start: str
    to_restart: str

    def service(self, verb: str) -> str:
        """Return the words of `clew` that install this unit, remove it or show its state."""
        return f"service {verb}" if self.called == DEFAULT else f"service {verb} {self.called}"


def _view_unit(name: str) -> ServiceUnit:
    unit = f"clew-{name}"
    start, restart = f"systemctl --user start {unit}", f"systemctl --user restart {unit}"
    return ServiceUnit(f"{unit}.service", name, name, start, restart)


DAEMON_UNIT = ServiceUnit("clew.service", "run", DEFAULT, "clew start", "clew restart")
HERALD_UNIT, WEB_UNIT = _view_unit("herald"), _view_unit("web")
UNITS = {unit.called: unit for unit in (DAEMON_UNIT, HERALD_UNIT, WEB_UNIT)}


def unit_text(
    unit: ServiceUnit = DAEMON_UNIT,
    exec_path: str = DEFAULT_EXEC,
    home: Path | None = None,
    *,
    stop_grace_s: float = STOP_GRACE_S,
    version: int | None = None,
) -> str:
    """Return the unit that runs `exec_path` on the clew home `home` (default: the XDG places).

    `version` is the manager's; None gives a text that loads with any. Keys have no place in it, since every process of
    the user can read a unit: they belong in `api_key_file`. Source: systemd.service(5), systemd.exec(5).
    """
    exec_word = exec_path if exec_path == DEFAULT_EXEC else _quoted(exec_path)
    is_old = version is not None and version < NOTIFY_RELOAD_SINCE
    return (
        (_TEXTS / unit.name)
        .read_text()
        .format(
            clew=f"{exec_word}{_home_option(home)}",
            type="Type=notify\n" if is_old else _NOTIFY_RELOAD,
            timeout_stop_s=round(stop_grace_s + STOP_MARGIN_S),
            folder="%E/clew" if home is None else str(home).replace("%", "%%"),
        )
    )


def _home_option(home: Path | None) -> str:
    # `$` is doubled in arguments alone: neither the program's path nor Environment= expand it.
    return f" --home {_quoted(str(home)).replace('$', '$$')}" if home is not None else ""


def unit_path(env: Mapping[str, str], unit: ServiceUnit = DAEMON_UNIT) -> Path:
    """Return where the user's own unit is."""
    config = env.get("XDG_CONFIG_HOME", "")
    home = Path(env.get("HOME", "~")).expanduser()
    base = Path(config) if config.startswith("/") else home / ".config"
    return base / "systemd" / "user" / unit.name


def is_of(unit: str, home: Path | None) -> bool:
    """Return whether a unit runs clew on this home."""
    started, option = _started(unit), _home_option(home)
    commands = tuple(f"{option} {one.command}" for one in UNITS.values())
    return started.endswith(commands) and bool(option or " --home " not in started)


def home_of(unit: str) -> str:
    """Return the home that a unit runs clew on."""
    found = _HOME_OPTION.search(_started(unit))
    if found is None:
        return DEFAULT_HOME
    word = found[1][1:-1] if found[1].startswith('"') else found[1]
    return re.sub(r"\\(.)|%(%)|\$(\$)", lambda one: one[one.lastindex or 0], word)


def _started(unit: str) -> str:
    return next((line for line in unit.splitlines() if line.startswith("ExecStart=")), "")


def _quoted(word: str) -> str:
    """Quote one word of a unit file, so that its specifiers and quotes are taken literally.

    Raises ValueError for a control character, which no unit file can hold.
    """
    if not word.isprintable():
        raise ValueError(f"{word!r} cannot be in a unit file: it contains a control character")
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return plain if re.fullmatch(r"[\w@%+=:,./$-]+", plain, re.ASCII) else f'"{plain}"'
