"""The systemd user unit: its text, and putting it where the user's manager finds it.

What the unit says has a reason, which stands beside it in the text itself. The daemon's side of
the conversation is in `service`; nothing here is needed to run clew without systemd.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNIT = "clew.service"
DEFAULT_EXEC = "%h/.local/bin/clew"
STOP_GRACE_S = 10.0
STOP_MARGIN_S = 20.0
"""Agents get `stop_grace_s`, then their trees are killed and the ledger is closed."""

SYSTEMCTL_DEADLINE_S = 30.0

_TEXT = """\
# clew as a systemd user service. Written by `clew service install`.
[Unit]
Description=clew, a supervisor for LLM agents
# The daemon backs off by itself; the manager never gives it up.
StartLimitIntervalSec=0

[Service]
{kind}NotifyAccess=main
ExecStart={exec_start}
{environment}Restart=always
RestartSec=1
# 78 is a config that cannot be used: to start again with it changes nothing.
RestartPreventExitStatus=78
WatchdogSec=30
# SIGTERM goes to the daemon alone, which stops its agents one by one; what is left is killed.
KillMode=mixed
# stop_grace_s of the config, and time to end what is left and close the ledger.
TimeoutStopSec={timeout_stop_s}
# The daemon keeps each worker's tree in a control group of its own, and one that the kernel ends
# for want of memory is a crash of that worker, not the end of the service.
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

_NOTIFY_RELOAD = """\
# Managers before 253 do not know notify-reload, warn, and keep the line before it; the others take
# the last one. A lone notify-reload they would run as "simple", and never wait for READY=1.
Type=notify
Type=notify-reload
# No ExecReload=: notify-reload sends SIGHUP itself, and with `kill -HUP` beside it two come.
# (`clew service install` writes one for a manager before 253, which has no other way to reload.)
"""
_NOTIFY = """\
# The manager that this was written for does not know notify-reload (253).
Type=notify
ExecReload=kill -HUP $MAINPID
"""
NOTIFY_RELOAD_SINCE = 253


@dataclass(frozen=True, slots=True)
class Installed:
    """What was done, in words for a person; `ok` is False when something is left to do."""

    messages: tuple[str, ...]
    ok: bool = True


def unit_text(
    exec_path: str = DEFAULT_EXEC,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    *,
    stop_grace_s: float = STOP_GRACE_S,
    version: int | None = None,
) -> str:
    """Write out the unit that runs `exec_path` on the clew home `home` (default: the XDG places).

    `env` is set for the daemon; keys belong into `api_key_file`, since every process of the user
    can read a unit. `version` is the manager's; None gives a text that loads with any. Source:
    systemd.service(5), systemd.exec(5).
    """
    # `$` is doubled in arguments alone: neither the program's path nor Environment= expand it.
    home_option = f" --home {_quoted(str(home)).replace('$', '$$')}" if home is not None else ""
    exec_word = exec_path if exec_path == DEFAULT_EXEC else _quoted(exec_path)
    given = (env or {}).items()
    settings = (f"Environment={_quoted(f'{name}={value}')}\n" for name, value in given)
    old = version is not None and version < NOTIFY_RELOAD_SINCE
    return _TEXT.format(
        kind=_NOTIFY if old else _NOTIFY_RELOAD,
        exec_start=f"{exec_word}{home_option} run",
        environment="".join(settings),
        timeout_stop_s=round(stop_grace_s + STOP_MARGIN_S),
    )


def unit_path(env: Mapping[str, str]) -> Path:
    """Where a user's own units lie."""
    config = env.get("XDG_CONFIG_HOME", "")
    home = Path(env.get("HOME", "~")).expanduser()
    base = Path(config) if config.startswith("/") else home / ".config"
    return base / "systemd" / "user" / UNIT


def install(
    exec_path: str,
    *,
    home: Path | None = None,
    unit_env: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    stop_grace_s: float = STOP_GRACE_S,
) -> Installed:
    """Write the unit, and enable it where a manager can be reached.

    `env` is the caller's environment, by default this process's. Raises OSError when the unit
    cannot be written.
    """
    env = os.environ if env is None else env
    path = unit_path(env)
    version = _version(env)
    text = unit_text(exec_path, home, unit_env, stop_grace_s=stop_grace_s, version=version)
    _write(path, text)
    messages = [f"wrote {path}"]
    fault = _systemctl(env, ("daemon-reload",), ("enable", UNIT))
    if fault:
        messages.append(f"not enabled: {fault}")
        messages.append(f"in a session of yours: systemctl --user enable --now {UNIT}")
    else:
        messages.append(f"enabled; start it now with: systemctl --user start {UNIT}")
    messages.append("to keep it running after logout: loginctl enable-linger")
    return Installed(tuple(messages), ok=not fault)


def uninstall(*, env: Mapping[str, str] | None = None) -> Installed:
    """Stop and disable the unit where a manager can be reached, and remove it."""
    env = os.environ if env is None else env
    path = unit_path(env)
    if not path.exists():
        return Installed((f"{path} is not there: nothing to uninstall",))
    fault = _systemctl(env, ("disable", "--now", UNIT))
    path.unlink()
    wanted = path.parent / "default.target.wants" / UNIT
    wanted.unlink(missing_ok=True)  # where no manager was there to disable it
    messages = [f"removed {path}"]
    if fault:
        messages.append(f"not stopped: {fault}")
    else:
        _systemctl(env, ("daemon-reload",))
    return Installed(tuple(messages), ok=not fault)


def is_delegated(group: Path) -> bool:
    """Ask the user's manager whether this control group is of a unit with `Delegate=yes`."""
    if group.suffix not in (".service", ".scope"):
        return False
    try:
        said = _run(os.environ, "--user", "show", "-p", "Delegate,ControlGroup", "--", group.name)
    except (OSError, subprocess.SubprocessError):
        return False
    parts = (line.partition("=") for line in said.stdout.splitlines())
    found = {name: value for name, _, value in parts}
    here = found.get("ControlGroup", "")
    return found.get("Delegate") == "yes" and here != "" and str(group).endswith(here)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _version(env: Mapping[str, str]) -> int | None:
    """Ask systemctl for systemd's version; None where it cannot say."""
    try:
        said = _run(env, "--version").stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"systemd (\d+)", said)
    return int(found[1]) if found else None


def _systemctl(env: Mapping[str, str], *commands: Sequence[str]) -> str:
    """Run `systemctl --user` commands until one fails; what failed, or nothing."""
    for command in commands:
        try:
            done = _run(env, "--user", "--no-pager", *command)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"systemctl --user {command[0]}: {error}"
        if done.returncode != 0:
            said = (done.stderr.strip() or f"exit {done.returncode}").splitlines()[0]
            return f"systemctl --user {command[0]}: {said}"
    return ""


def _run(env: Mapping[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemctl", path=env.get("PATH"))
    if program is None:
        raise FileNotFoundError("systemctl is not installed")
    return subprocess.run(
        [program, *args],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SYSTEMCTL_DEADLINE_S,
        check=False,
    )


def _quoted(word: str) -> str:
    """Quote one word of a unit file: its specifiers and quotes are taken literally.

    Raises ValueError for a control character, which no unit file can hold.
    """
    if not word.isprintable():
        raise ValueError(f"{word!r} cannot stand in a unit file: it holds a control character")
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return plain if re.fullmatch(r"[\w@%+=:,./$-]+", plain, re.ASCII) else f'"{plain}"'
