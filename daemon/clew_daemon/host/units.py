"""The systemd user service: installed, removed, started, stopped, looked at; clew runs without it as well."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.host.systemctl import (
    error_of,
    is_lingering,
    manager_version,
    run_systemctl,
    systemctl,
)
from clew_daemon.host.unit_file import (
    DAEMON_UNIT,
    DEFAULT_HOME,
    HERALD_UNIT,
    STOP_GRACE_S,
    WEB_UNIT,
    ServiceUnit,
    herald_text,
    home_of,
    is_of,
    unit_path,
    unit_text,
    web_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

JOB_DEADLINE_S = 900.0
"""A start ends when the daemon is ready, a stop when its agents are: the manager has deadlines of its own."""

_SHOWN = ("UnitFileState", "ActiveState", "MainPID", "ActiveEnterTimestamp", "StatusText")
_WHY = "`systemctl --user status {unit}`, `clew logs` and `clew doctor` say more"
_ELSEWHERE = "run this in a login session of this user; without systemd, use `clew run`"


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


def install(
    exec_path: str,
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    stop_grace_s: float = STOP_GRACE_S,
    now: bool = False,
    unit: ServiceUnit = DAEMON_UNIT,
) -> Installed:
    """Write a unit, enable it where a manager can be reached, and start it if `now`.

    `env` is the caller's environment, by default this process's. Raises ServiceError where the unit
    is there for another home, OSError when it cannot be written.
    """
    env = os.environ if env is None else env
    path = unit_path(env, unit)
    before = _own(unit, home, env)
    text = text_of(unit, exec_path, home, stop_grace_s, env)
    active = look(text, env=env, unit=unit).active == "active"
    _write(path, text)
    messages, faults = [f"wrote {path}"], list[str]()
    if fault := systemctl(env, ("daemon-reload",), ("enable", unit.name)):
        faults.append(f"not enabled: {fault}")
        faults.append(f"from a login session, run: systemctl --user enable --now {unit.name}")
    elif active and (before == text or not now):
        applies = "" if before == text else f"; the new unit applies after `{unit.to_restart}`"
        messages.append(f"enabled; it is running{applies}")
    elif not now:
        messages.append(f"enabled; start it with: {unit.to_start}")
    else:
        verb = "restart" if active else "start"
        if fault := systemctl(env, (verb, unit.name), deadline_s=JOB_DEADLINE_S):
            faults.append(f"enabled, but not {verb}ed: {fault}; {_why(unit)}")
        else:
            messages.append(f"enabled and {verb}ed")
    if not is_lingering(env):
        messages.append("to keep it running after logout: loginctl enable-linger")
    return Installed(tuple(messages), tuple(faults))


def uninstall(
    home: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    unit: ServiceUnit = DAEMON_UNIT,
) -> Installed:
    """Stop and disable a unit of this home where a manager can be reached, and remove it; raises ServiceError."""
    env = os.environ if env is None else env
    path = unit_path(env, unit)
    if _own(unit, home, env) is None:
        return Installed((f"{path} does not exist: nothing to uninstall",))
    fault = systemctl(env, ("disable", "--now", unit.name), deadline_s=JOB_DEADLINE_S)
    path.unlink()
    wanted = path.parent / "default.target.wants" / unit.name
    wanted.unlink(missing_ok=True)  # where there was no manager to disable it
    if not fault:
        systemctl(env, ("daemon-reload",))
    return Installed((f"removed {path}",), (f"not stopped: {fault}",) if fault else ())


def uninstall_all(home: Path | None, env: Mapping[str, str]) -> Installed:
    """Stop, disable and remove every unit of this home, the daemon's last."""
    messages, faults = list[str](), list[str]()
    for unit in (WEB_UNIT, HERALD_UNIT, DAEMON_UNIT):
        if _read(unit_path(env, unit)) is None:
            continue
        try:
            done = uninstall(home, env=env, unit=unit)
        except ServiceError as error:
            faults.append(str(error))
        else:
            messages += done.messages
            faults += done.faults
    return Installed(tuple(messages or ["no unit of this home is installed"]), tuple(faults))


def control(verb: str, home: Path | None, *, env: Mapping[str, str] | None = None) -> None:
    """Start, stop or restart the service of this home, and wait until that is done; raises ServiceError."""
    env = os.environ if env is None else env
    if _own(DAEMON_UNIT, home, env) is None:
        path = unit_path(env)
        raise ServiceError(
            f"the service is not installed ({path} does not exist); to install it: {_install(home)}"
        )
    if fault := systemctl(env, (verb, DAEMON_UNIT.name), deadline_s=JOB_DEADLINE_S):
        if error := look("", home=home, env=env).error:
            raise ServiceError(f"systemd cannot be asked ({error}): {_ELSEWHERE}")
        raise ServiceError(f"{fault}; {_why(DAEMON_UNIT)}")


def look(
    expected: str,
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    unit: ServiceUnit = DAEMON_UNIT,
) -> Service:
    """Look at the service; `expected` is the unit that `install` would write for `home`."""
    env = os.environ if env is None else env
    path = unit_path(env, unit)
    text, found, error = _read(path), dict[str, str](), None
    try:
        done = run_systemctl(env, "--user", "show", "-p", ",".join(_SHOWN), "--", unit.name)
        parts = (line.partition("=") for line in done.stdout.splitlines())
        found = {name: value for name, _, value in parts}
        error = None if found else error_of(done)
    except (OSError, subprocess.SubprocessError) as failed:
        error = str(failed)
    pid = found.get("MainPID", "0")
    return Service(
        unit=str(path),
        installed=text is not None,
        other_home=None if text is None or is_of(text, home) else home_of(text),
        up_to_date=None if text is None else text == expected,
        enabled=found.get("UnitFileState") == "enabled" if found else None,
        active=found.get("ActiveState"),
        pid=int(pid) if pid.isdigit() and pid != "0" else None,
        since=found.get("ActiveEnterTimestamp") or None,
        status=found.get("StatusText") or None,
        linger=is_lingering(env),
        error=error,
    )


def text_of(
    unit: ServiceUnit,
    exec_path: str,
    home: Path | None,
    stop_grace_s: float,
    env: Mapping[str, str],
) -> str:
    """Return what `install` would write."""
    if unit == HERALD_UNIT:
        return herald_text(exec_path, home)
    if unit == WEB_UNIT:
        return web_text(exec_path, home)
    version = manager_version(env)
    return unit_text(exec_path, home, stop_grace_s=stop_grace_s, version=version)


def _why(unit: ServiceUnit) -> str:
    return _WHY.format(unit=unit.name.removesuffix(".service"))


def _own(unit: ServiceUnit, home: Path | None, env: Mapping[str, str]) -> str | None:
    """Return the text of this home's unit, None where there is none; ServiceError where it is for another home."""
    path = unit_path(env, unit)
    text = _read(path)
    if text is None or is_of(text, home):
        return text
    if home is None and home_of(text) == DEFAULT_HOME:
        raise ServiceError(
            f"{path} is not one that `clew {unit.service('install')}` wrote (see its ExecStart=): remove it first"
        )
    raise ServiceError(
        f"the installed service is for another home: {home_of(text)} (see ExecStart= in {path}); "
        f"to remove it: {removal(unit, home_of(text), env)}"
    )


def removal(unit: ServiceUnit, other_home: str, env: Mapping[str, str]) -> str:
    """Return the command that uninstalls the service of another home."""
    uninstalls = unit.service("uninstall")
    if other_home != DEFAULT_HOME:
        return f"clew --home {shlex.quote(other_home)} {uninstalls}"
    unset = "env -u CLEW_HOME " if env.get("CLEW_HOME") else ""
    return f"{unset}clew {uninstalls}"


def _install(home: Path | None) -> str:
    return f"clew --home {home} service install" if home else "clew service install"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
