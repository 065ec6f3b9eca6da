"""The systemd user unit: its text, and putting it where the user's manager finds it.

What the unit says has a reason, which stands beside it in the text itself. The daemon's side of
the conversation is in `service`; nothing here is needed to run clew without systemd.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNIT = "clew.service"
DEFAULT_HOME = "the default one"
"""What messages call the home where no `--home` is given."""
DEFAULT_EXEC = "%h/.local/bin/clew"
STOP_GRACE_S = 10.0
STOP_MARGIN_S = 20.0
"""Agents get `stop_grace_s`, then their trees are killed and the ledger is closed."""

SYSTEMCTL_DEADLINE_S = 30.0
JOB_DEADLINE_S = 900.0
"""A start ends when the daemon is ready, a stop when its agents are: the manager has deadlines of its own."""

LINGER = Path("/var/lib/systemd/linger")
_SHOWN = ("UnitFileState", "ActiveState", "MainPID", "ActiveEnterTimestamp", "StatusText")
_WHY = "`systemctl --user status clew`, `clew logs` and `clew doctor` say more"
_ELSEWHERE = "run this in a login session of this user; without systemd, use `clew run`"
_HOME_OPTION = re.compile(r""" --home ("(?:[^"\\]|\\.)*"|\S+) run$""")

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
{environment}Restart=always
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


_NOTIFY_RELOAD = """\
# Managers before 253 do not know notify-reload, warn, and keep the line before it.
Type=notify
Type=notify-reload
"""
_NOTIFY = "Type=notify\n"
NOTIFY_RELOAD_SINCE = 253


@dataclass(frozen=True, slots=True)
class Installed:
    """What was done, in words for a person; `faults` say what could not be done, and what is left to do."""

    messages: tuple[str, ...]
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether everything was done."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class Service:
    """How the service is; what only the user's manager knows is None where it cannot be reached, and `error` is why.

    `up_to_date` is whether the unit file is what `install` would write now; `other_home` names the home that
    it is for where that is another one.
    """

    unit: str
    installed: bool
    other_home: str | None
    up_to_date: bool | None
    enabled: bool | None
    active: str | None
    pid: int | None
    since: str | None
    status: str | None
    linger: bool
    error: str | None


class ServiceError(Exception):
    """The service cannot be started, stopped or asked; the message says why, and what to do."""


def unit_text(
    exec_path: str = DEFAULT_EXEC,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    *,
    stop_grace_s: float = STOP_GRACE_S,
    version: int | None = None,
) -> str:
    """Return the unit that runs `exec_path` on the clew home `home` (default: the XDG places).

    `env` is set for the daemon; keys belong in `api_key_file`, since every process of the user
    can read a unit. `version` is the manager's; None gives a text that loads with any.
    Source: systemd.service(5), systemd.exec(5).
    """
    old = version is not None and version < NOTIFY_RELOAD_SINCE
    exec_word = exec_path if exec_path == DEFAULT_EXEC else _quoted(exec_path)
    given = (env or {}).items()
    settings = (f"Environment={_quoted(f'{name}={value}')}\n" for name, value in given)
    return _TEXT.format(
        kind=_NOTIFY if old else _NOTIFY_RELOAD,
        exec_start=f"{exec_word}{_home_option(home)} run",
        exec_reload=f"{exec_word}{_home_option(home)} reload",
        environment="".join(settings),
        timeout_stop_s=round(stop_grace_s + STOP_MARGIN_S),
    )


def _home_option(home: Path | None) -> str:
    # `$` is doubled in arguments alone: neither the program's path nor Environment= expand it.
    return f" --home {_quoted(str(home)).replace('$', '$$')}" if home is not None else ""


def unit_path(env: Mapping[str, str]) -> Path:
    """Return where the user's own unit is."""
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
    now: bool = False,
) -> Installed:
    """Write the unit, enable it where a manager can be reached, and start it if `now`.

    `env` is the caller's environment, by default this process's. Raises ServiceError where the unit
    is there for another home, OSError when it cannot be written.
    """
    env = os.environ if env is None else env
    path = unit_path(env)
    before = _own(path, home, env)
    version = manager_version(env)
    text = unit_text(exec_path, home, unit_env, stop_grace_s=stop_grace_s, version=version)
    active = look(text, env=env).active == "active"
    _write(path, text)
    messages, faults = [f"wrote {path}"], list[str]()
    if fault := _systemctl(env, ("daemon-reload",), ("enable", UNIT)):
        faults.append(f"not enabled: {fault}")
        faults.append(f"from a login session, run: systemctl --user enable --now {UNIT}")
    elif active and (before == text or not now):
        applies = "" if before == text else "; the new unit applies after `clew restart`"
        messages.append(f"enabled; it is running{applies}")
    elif not now:
        messages.append("enabled; start it with: clew start")
    else:
        verb = "restart" if active else "start"
        if fault := _systemctl(env, (verb, UNIT), deadline_s=JOB_DEADLINE_S):
            faults.append(f"enabled, but not {verb}ed: {fault}; {_WHY}")
        else:
            messages.append(f"enabled and {verb}ed")
    if not is_lingering(env):
        messages.append("to keep it running after logout: loginctl enable-linger")
    return Installed(tuple(messages), tuple(faults))


def uninstall(home: Path | None = None, *, env: Mapping[str, str] | None = None) -> Installed:
    """Stop and disable the unit of this home where a manager can be reached, and remove it; raises ServiceError."""
    env = os.environ if env is None else env
    path = unit_path(env)
    if _own(path, home, env) is None:
        return Installed((f"{path} does not exist: nothing to uninstall",))
    fault = _systemctl(env, ("disable", "--now", UNIT), deadline_s=JOB_DEADLINE_S)
    path.unlink()
    wanted = path.parent / "default.target.wants" / UNIT
    wanted.unlink(missing_ok=True)  # where there was no manager to disable it
    if not fault:
        _systemctl(env, ("daemon-reload",))
    return Installed((f"removed {path}",), (f"not stopped: {fault}",) if fault else ())


def control(verb: str, home: Path | None, *, env: Mapping[str, str] | None = None) -> None:
    """Start, stop or restart the service of this home, and wait until that is done; raises ServiceError."""
    env = os.environ if env is None else env
    path = unit_path(env)
    if _own(path, home, env) is None:
        raise ServiceError(
            f"the service is not installed ({path} does not exist): {_install(home)}"
        )
    if fault := _systemctl(env, (verb, UNIT), deadline_s=JOB_DEADLINE_S):
        if error := look("", home=home, env=env).error:
            raise ServiceError(f"systemd cannot be asked ({error}): {_ELSEWHERE}")
        raise ServiceError(f"{fault}; {_WHY}")


def look(
    expected: str, *, home: Path | None = None, env: Mapping[str, str] | None = None
) -> Service:
    """Look at the service; `expected` is the unit that `install` would write for `home`."""
    env = os.environ if env is None else env
    path = unit_path(env)
    text, found, error = _read(path), dict[str, str](), None
    try:
        done = _run(env, "--user", "show", "-p", ",".join(_SHOWN), "--", UNIT)
        parts = (line.partition("=") for line in done.stdout.splitlines())
        found = {name: value for name, _, value in parts}
        error = None if found else _error_of(done)
    except (OSError, subprocess.SubprocessError) as failed:
        error = str(failed)
    pid = found.get("MainPID", "0")
    return Service(
        unit=str(path),
        installed=text is not None,
        other_home=None if text is None or _is_of(text, home) else _home_of(text),
        up_to_date=None if text is None else text == expected,
        enabled=found.get("UnitFileState") == "enabled" if found else None,
        active=found.get("ActiveState"),
        pid=int(pid) if pid.isdigit() and pid != "0" else None,
        since=found.get("ActiveEnterTimestamp") or None,
        status=found.get("StatusText") or None,
        linger=is_lingering(env),
        error=error,
    )


def manager_version(env: Mapping[str, str]) -> int | None:
    """Return systemd's version, None if systemctl cannot say."""
    try:
        done = _run(env, "--version").stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"systemd (\d+)", done)
    return int(found[1]) if found else None


def is_lingering(env: Mapping[str, str]) -> bool:
    """Return whether the user's services run without a session; see loginctl(1), enable-linger."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = env.get("USER", "")
    return bool(user) and (LINGER / user).exists()


def _is_of(unit: str, home: Path | None) -> bool:
    """Return whether a unit runs clew on this home."""
    started, option = _started(unit), _home_option(home)
    return started.endswith(f"{option} run") and bool(option or " --home " not in started)


def _own(path: Path, home: Path | None, env: Mapping[str, str]) -> str | None:
    """Return the text of this home's unit, None where there is none; ServiceError where it is for another home."""
    text = _read(path)
    if text is None or _is_of(text, home):
        return text
    if home is None and _home_of(text) == DEFAULT_HOME:
        raise ServiceError(
            f"{path} is not one that `clew service install` wrote (see its ExecStart=): remove it first"
        )
    raise ServiceError(
        f"the installed service is for another home: {_home_of(text)} (see ExecStart= in {path}); "
        f"to remove it: {removal(_home_of(text), env)}"
    )


def removal(other_home: str, env: Mapping[str, str]) -> str:
    """Return the command that uninstalls the service of another home."""
    if other_home != DEFAULT_HOME:
        return f"clew --home {shlex.quote(other_home)} service uninstall"
    unset = "env -u CLEW_HOME " if env.get("CLEW_HOME") else ""
    return f"{unset}clew service uninstall"


def _home_of(unit: str) -> str:
    """Return the home that a unit runs clew on."""
    found = _HOME_OPTION.search(_started(unit))
    if found is None:
        return DEFAULT_HOME
    word = found[1][1:-1] if found[1].startswith('"') else found[1]
    return re.sub(r"\\(.)|%(%)|\$(\$)", lambda one: one[one.lastindex or 0], word)


def _started(unit: str) -> str:
    return next((line for line in unit.splitlines() if line.startswith("ExecStart=")), "")


def _install(home: Path | None) -> str:
    return f"clew --home {home} service install" if home else "clew service install"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def is_delegated(group: Path) -> bool:
    """Return whether this control group is of a unit with `Delegate=yes`, as the user's manager says."""
    if group.suffix not in (".service", ".scope"):
        return False
    try:
        done = _run(os.environ, "--user", "show", "-p", "Delegate,ControlGroup", "--", group.name)
    except (OSError, subprocess.SubprocessError):
        return False
    parts = (line.partition("=") for line in done.stdout.splitlines())
    found = {name: value for name, _, value in parts}
    here = found.get("ControlGroup", "")
    return found.get("Delegate") == "yes" and here != "" and str(group).endswith(here)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _systemctl(
    env: Mapping[str, str],
    *commands: Sequence[str],
    deadline_s: float = SYSTEMCTL_DEADLINE_S,
) -> str:
    """Run `systemctl --user` commands until one fails; returns what failed, or "" where none did."""
    for command in commands:
        try:
            done = _run(env, "--user", "--no-pager", *command, deadline_s=deadline_s)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"systemctl --user {command[0]}: {error}"
        if done.returncode != 0:
            return f"systemctl --user {command[0]}: {_error_of(done)}"
    return ""


def _error_of(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]


def _run(
    env: Mapping[str, str], *args: str, deadline_s: float = SYSTEMCTL_DEADLINE_S
) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemctl", path=env.get("PATH"))
    if program is None:
        raise FileNotFoundError("systemctl is not installed")
    return subprocess.run(
        [program, *args],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


def _quoted(word: str) -> str:
    """Quote one word of a unit file, so that its specifiers and quotes are taken literally.

    Raises ValueError for a control character, which no unit file can hold.
    """
    if not word.isprintable():
        raise ValueError(f"{word!r} cannot be in a unit file: it contains a control character")
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return plain if re.fullmatch(r"[\w@%+=:,./$-]+", plain, re.ASCII) else f'"{plain}"'
