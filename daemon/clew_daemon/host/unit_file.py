"""The texts of the systemd user units, where they are, and which home a unit is for."""

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
_HOME_OPTION = re.compile(r""" --home ("(?:[^"\\]|\\.)*"|\S+) (?:run|herald|web)$""")

_TEXT = """\
# clew{word} as a systemd user service. Written by `clew service install{word}`.
[Unit]
Description={description}
StartLimitIntervalSec=0
{unit}
[Service]
{service}
Restart=always
# 78 is a config that cannot be used: starting again would not change that.
RestartPreventExitStatus=78

NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
KeyringMode=private
# A core would hold keys, or the addresses of messages.
LimitCORE=0
{limits}

[Install]
WantedBy=default.target
"""
_DAEMON = """\
{kind}NotifyAccess=main
ExecStart={exec_start}
# A signal alone cannot fail; this does if the config is rejected.
ExecReload={exec_reload}
RestartSec=1
WatchdogSec=30
# SIGTERM goes to the daemon alone, which stops its agents one by one; what is left is killed.
KillMode=mixed
# stop_grace_s of the config, and time to end what is left and close the ledger.
TimeoutStopSec={timeout_stop_s}
# The daemon keeps each worker's tree in a control group of its own, and one that runs out of
# memory is a crash of that worker, not the end of the service.
Delegate=yes
OOMPolicy=continue"""
_DAEMON_LIMITS = """\
# The workers' own sandboxes make user, PID, mount, IPC and network namespaces; the rest (Protect*=,
# Private*=, MemoryDenyWriteExecute=, ...) is not here: docs/operations.md says why.
RestrictNamespaces=user pid mnt ipc net
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallFilter=~@clock @cpu-emulation @keyring @module @obsolete @raw-io @reboot @swap"""
_BESIDE = """\
# It is no part of the daemon: it continues while the daemon is down.
After=clew.service
"""
_HERALD = """\
Type=exec
# Where traces go: OTEL_EXPORTER_OTLP_ENDPOINT=...; a file of mode 0600, if it holds a secret.
EnvironmentFile=-{folder}/herald.env
ExecStart={exec_start}
RestartSec=5"""
_WEB = """\
Type=notify
NotifyAccess=main
# It prints no link, so that none gets into the journal; to get one: clew web --link
ExecStart={exec_start}
RestartSec=5"""
_NO_NAMESPACES = "RestrictNamespaces=yes\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6"
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
    clew = f"{exec_word}{_home_option(home)}"
    exec_start = f"{clew} {unit.command}"
    if unit == DAEMON_UNIT:
        is_old = version is not None and version < NOTIFY_RELOAD_SINCE
        service = _DAEMON.format(
            kind="Type=notify\n" if is_old else _NOTIFY_RELOAD,
            exec_start=exec_start,
            exec_reload=f"{clew} reload",
            timeout_stop_s=round(stop_grace_s + STOP_MARGIN_S),
        )
        what = "clew, a supervisor for LLM agents"
        return _TEXT.format(
            word="", description=what, unit="", service=service, limits=_DAEMON_LIMITS
        )
    folder = "%E/clew" if home is None else str(home).replace("%", "%%")
    if unit == HERALD_UNIT:
        what = "clew herald, metrics, traces and messages of clew"
        limits = f"{_NO_NAMESPACES} AF_NETLINK"
    else:
        what = "clew web, the pages of clew"
        limits = f"{_NO_NAMESPACES}\nMemoryDenyWriteExecute=yes"
    service = (_HERALD if unit == HERALD_UNIT else _WEB).format(
        exec_start=exec_start, folder=folder
    )
    word = f" {unit.command}"
    return _TEXT.format(word=word, description=what, unit=_BESIDE, service=service, limits=limits)


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
