"""The texts of the systemd user units, where they are, and which home a unit is for.

What the unit contains has a reason, which is given beside it in the text itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


DEFAULT = "daemon"
"""The unit that `clew service` is about if none is named."""


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


DAEMON_UNIT = ServiceUnit("clew.service", "run", DEFAULT, "clew start", "clew restart")
HERALD_UNIT = ServiceUnit(
    "clew-herald.service",
    "herald",
    "herald",
    "systemctl --user start clew-herald",
    "systemctl --user restart clew-herald",
)
WEB_UNIT = ServiceUnit(
    "clew-web.service",
    "web",
    "web",
    "systemctl --user start clew-web",
    "systemctl --user restart clew-web",
)
UNITS = {unit.called: unit for unit in (DAEMON_UNIT, HERALD_UNIT, WEB_UNIT)}
DEFAULT_HOME = "the default one"
"""What messages call the home where no `--home` is given."""
DEFAULT_EXEC = "%h/.local/bin/clew"
STOP_GRACE_S = 10.0
STOP_MARGIN_S = 20.0
"""Agents get `stop_grace_s`, then their trees are killed and the ledger is closed."""
_HOME_OPTION = re.compile(r""" --home ("(?:[^"\\]|\\.)*"|\S+) (?:run|herald|web)$""")

_TEXT = """\
# clew as a systemd user service. Written by `clew service install`.
[Unit]
Description=clew, a supervisor for LLM agents
# The daemon backs off by itself; the manager never gives it up.
StartLimitIntervalSec=0

[Service]
{kind}NotifyAccess=main
ExecStart={exec_start}
# A signal alone cannot fail; this does if the config is rejected.
ExecReload={exec_reload}
Restart=always
RestartSec=1
# 78 is a config that cannot be used: starting again would not change that.
RestartPreventExitStatus=78
WatchdogSec=30
# SIGTERM goes to the daemon alone, which stops its agents one by one; what is left is killed.
KillMode=mixed
# stop_grace_s of the config, and time to end what is left and close the ledger.
TimeoutStopSec={timeout_stop_s}
# The daemon keeps each worker's tree in a control group of its own, and one that runs out of
# memory is a crash of that worker, not the end of the service.
Delegate=yes
OOMPolicy=continue

# What holds in a user unit without a user namespace, and leaves the workers' own sandboxes alone:
# those make user, PID, mount, IPC and network namespaces, and system calls of @mount and @sandbox.
# The rest (Protect*=, Private*=, MemoryDenyWriteExecute=, ...) is not here: docs/operations.md says why.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=user pid mnt ipc net
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @keyring @module @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
KeyringMode=private
# A core of the daemon would hold the keys.
LimitCORE=0

[Install]
WantedBy=default.target
"""

_VIEW_TEXT = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
KeyringMode=private"""
"""What holds for the herald and the pages alike; they start no sandbox."""

_HERALD_TEXT = """\
# clew herald as a systemd user service. Written by `clew service install herald`.
[Unit]
Description=clew herald, metrics, traces and messages of clew
# It is no part of the daemon: it goes on, and says so, while the daemon is down.
After=clew.service
StartLimitIntervalSec=0

[Service]
Type=exec
# Where traces go: OTEL_EXPORTER_OTLP_ENDPOINT=...; a file of mode 0600, if it holds a secret.
EnvironmentFile=-{env_file}
ExecStart={exec_start}
Restart=always
RestartSec=5
# 78 is a config that cannot be used, or a missing package: starting again would not change that.
RestartPreventExitStatus=78

{view}
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
# A core would hold the addresses of messages.
LimitCORE=0

[Install]
WantedBy=default.target
"""

_WEB_TEXT = """\
# clew web as a systemd user service. Written by `clew service install web`.
# It prints no link, so that none gets into the journal; to get one: clew web --link
[Unit]
Description=clew web, the pages of clew
# It is no part of the daemon: it shows what is on record while the daemon is down.
After=clew.service
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={exec_start}
Restart=always
RestartSec=5
# 78 is a config that cannot be used, or a missing package: starting again would not change that.
RestartPreventExitStatus=78

{view}
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
# A core would hold what opens a session.
LimitCORE=0

[Install]
WantedBy=default.target
"""

_NOTIFY_RELOAD = """\
# Managers before 253 do not know notify-reload, warn, and keep the line before it.
Type=notify
Type=notify-reload
"""
_NOTIFY = "Type=notify\n"
NOTIFY_RELOAD_SINCE = 253


def unit_text(
    exec_path: str = DEFAULT_EXEC,
    home: Path | None = None,
    *,
    stop_grace_s: float = STOP_GRACE_S,
    version: int | None = None,
) -> str:
    """Return the unit that runs `exec_path` on the clew home `home` (default: the XDG places).

    `version` is the manager's; None gives a text that loads with any. Keys have no place in it, since every process of
    the user can read a unit: they belong in `api_key_file`.
    Source: systemd.service(5), systemd.exec(5).
    """
    old = version is not None and version < NOTIFY_RELOAD_SINCE
    clew = _clew(exec_path, home)
    return _TEXT.format(
        kind=_NOTIFY if old else _NOTIFY_RELOAD,
        exec_start=f"{clew} run",
        exec_reload=f"{clew} reload",
        timeout_stop_s=round(stop_grace_s + STOP_MARGIN_S),
    )


def herald_text(exec_path: str = DEFAULT_EXEC, home: Path | None = None) -> str:
    """Return the unit that runs the herald of a home, as `unit_text` does for its daemon."""
    folder = "%E/clew" if home is None else str(home).replace("%", "%%")
    exec_start = f"{_clew(exec_path, home)} herald"
    return _HERALD_TEXT.format(
        exec_start=exec_start, env_file=f"{folder}/herald.env", view=_VIEW_TEXT
    )


def web_text(exec_path: str = DEFAULT_EXEC, home: Path | None = None) -> str:
    """Return the unit that serves the pages of a home, as `unit_text` does for its daemon."""
    return _WEB_TEXT.format(exec_start=f"{_clew(exec_path, home)} web", view=_VIEW_TEXT)


def _clew(exec_path: str, home: Path | None) -> str:
    """Return how a unit calls clew on a home, up to the command."""
    exec_word = exec_path if exec_path == DEFAULT_EXEC else _quoted(exec_path)
    return f"{exec_word}{_home_option(home)}"


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
