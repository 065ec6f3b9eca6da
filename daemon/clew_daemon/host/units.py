"""The systemd user services: units, whose texts are in `unit_files/`, installed, removed, started, looked at."""

import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clew_shared.files import write_whole

DEFAULT_HOME = "the default one"  # What messages call the home where no `--home` is given
DEFAULT_EXEC = "%h/.local/bin/clew"
STOP_GRACE_S, STOP_MARGIN_S = 10.0, 20.0  # the margin: to kill what is left and close the ledger
SYSTEMCTL_S = 30.0
JOB_S = 900.0  # a start ends when the daemon is ready, a stop when its agents are
LINGER = Path("/var/lib/systemd/linger")
_SHOWN = ("UnitFileState", "ActiveState", "MainPID", "ActiveEnterTimestamp", "StatusText")


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """One of clew's units: its file, the command that it runs, and what follows `clew service install` to name it."""

    name: str
    command: str
    named: str
    to_start: str
    to_restart: str


def _view_unit(name: str) -> ServiceUnit:
    unit = f"clew-{name}"
    start, restart = (f"systemctl --user {verb} {unit}" for verb in ("start", "restart"))
    return ServiceUnit(f"{unit}.service", name, f" {name}", start, restart)


DAEMON_UNIT = ServiceUnit("clew.service", "run", "", "clew start", "clew restart")
HERALD_UNIT, WEB_UNIT = _view_unit("herald"), _view_unit("web")
UNITS = {"daemon": DAEMON_UNIT, "herald": HERALD_UNIT, "web": WEB_UNIT}


def unit_text(
    unit: ServiceUnit = DAEMON_UNIT,
    exec_path: str = DEFAULT_EXEC,
    home: Path | None = None,
    stop_grace_s: float = STOP_GRACE_S,
) -> str:
    """Return the unit that runs `exec_path` on `home`; no key has a place in it, since the user's processes read it."""
    clew = exec_path if exec_path == DEFAULT_EXEC else _quoted(exec_path)
    if home is not None:  # `$` is doubled in arguments alone
        clew += f" --home {_quoted(str(home)).replace('$', '$$')}"
    text = (Path(__file__).parent / "unit_files" / unit.name).read_text()
    return text.format(
        clew=clew,
        timeout_stop_s=round(stop_grace_s + STOP_MARGIN_S),
        folder="%E/clew" if home is None else str(home).replace("%", "%%"),
    )


def unit_path(env: Mapping[str, str], unit: ServiceUnit = DAEMON_UNIT) -> Path:
    config = env.get("XDG_CONFIG_HOME", "")
    home = Path(env.get("HOME", "~")).expanduser()
    base = Path(config) if config.startswith("/") else home / ".config"
    return base / "systemd" / "user" / unit.name


def is_of(unit: str, home: Path | None) -> bool:
    """Return whether a unit runs clew on this home."""
    return home_of(unit) == (DEFAULT_HOME if home is None else str(home))


def home_of(unit: str) -> str:
    """Return the home that a unit runs clew on, "" where it does not run clew."""
    started = next((line for line in unit.splitlines() if line.startswith("ExecStart=")), "")
    with suppress(ValueError):
        match shlex.split(started):
            case [*_, "--home", home, "run" | "herald" | "web"]:
                return home.replace("%%", "%").replace("$$", "$")
            case [*before, "run" | "herald" | "web"] if "--home" not in before:
                return DEFAULT_HOME
    return ""


def _quoted(word: str) -> str:
    """Quote one word of a unit file, to be taken literally; ValueError for a control character, which none holds."""
    if not word.isprintable():
        raise ValueError(f"{word!r} cannot be in a unit file: it contains a control character")
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return plain if re.fullmatch(r"[\w@%+=:,./$-]+", plain, re.ASCII) else f'"{plain}"'


@dataclass(frozen=True, slots=True)
class Installed:
    """What was done, in words for a person; `faults` say what could not be done, and what is left to do."""

    messages: list[str]
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Service:
    """How the service is; what only the user's manager knows is None where it cannot be reached, and `error` is why."""

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


@dataclass(frozen=True, slots=True)
class OwnUnit:
    """One of clew's units as the user of `env` has it, for a home (None: the default one)."""

    unit: ServiceUnit = DAEMON_UNIT
    home: Path | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def path(self) -> Path:
        return unit_path(self.env, self.unit)

    def install(
        self, exec_path: str, stop_grace_s: float = STOP_GRACE_S, *, now: bool = False
    ) -> Installed:
        """Write the unit, enable it where a manager can be reached, start it if `now`; ServiceError, OSError."""
        unit, before = self.unit, self._text()
        text = unit_text(unit, exec_path, self.home, stop_grace_s)
        active = self.look(text).active == "active"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, text)
        messages, faults = [f"wrote {self.path}"], list[str]()
        if fault := self._systemctl("daemon-reload") or self._systemctl("enable", unit.name):
            faults.append(f"not enabled: {fault}")
            faults.append(f"from a login session, run: systemctl --user enable --now {unit.name}")
        elif active and (before == text or not now):
            applies = "" if before == text else f"; the new unit applies after `{unit.to_restart}`"
            messages.append(f"enabled; it is running{applies}")
        elif not now:
            messages.append(f"enabled; start it with: {unit.to_start}")
        else:
            verb = "restart" if active else "start"
            if fault := self._systemctl(verb, unit.name, within_s=JOB_S):
                faults.append(f"enabled, but not {verb}ed: {fault}; {self._why}")
            else:
                messages.append(f"enabled and {verb}ed")
        if not _is_lingering():
            messages.append("to keep it running after logout: loginctl enable-linger")
        return Installed(messages, faults)

    def uninstall(self) -> Installed:
        """Stop and disable the unit where a manager can be reached, and remove it; raises ServiceError."""
        if self._text() is None:
            return Installed([f"{self.path} does not exist: nothing to uninstall"])
        fault = self._systemctl("disable", "--now", self.unit.name, within_s=JOB_S)
        self.path.unlink()
        wanted = self.path.parent / "default.target.wants" / self.unit.name
        wanted.unlink(missing_ok=True)  # where there was no manager to disable it
        if not fault:
            self._systemctl("daemon-reload")
        return Installed([f"removed {self.path}"], [f"not stopped: {fault}"] if fault else [])

    def control(self, verb: str) -> None:
        """Start, stop or restart it, and wait until that is done; raises ServiceError."""
        if self._text() is None:
            home = f" --home {self.home}" if self.home else ""
            what = f"the service is not installed ({self.path} does not exist)"
            raise ServiceError(f"{what}; to install it: clew{home} service install")
        if fault := self._systemctl(verb, self.unit.name, within_s=JOB_S):
            if error := self.look().error:
                hint = "run this in a login session of this user; without systemd, use `clew run`"
                raise ServiceError(f"systemd cannot be asked ({error}): {hint}")
            raise ServiceError(f"{fault}; {self._why}")

    def look(self, expected: str = "") -> Service:
        """Look at the service; `expected` is the unit that `install` would write."""
        text = _read(self.path)
        found, error = _properties(self.env, self.unit.name, *_SHOWN)
        pid = found.get("MainPID", "0")
        is_own = text is None or is_of(text, self.home)
        return Service(
            unit=str(self.path),
            installed=text is not None,
            other_home=None if is_own else home_of(text or "") or "unknown",
            up_to_date=None if text is None else text == expected,
            enabled=found.get("UnitFileState") == "enabled" if found else None,
            active=found.get("ActiveState"),
            pid=int(pid) if pid.isdigit() and pid != "0" else None,
            since=found.get("ActiveEnterTimestamp") or None,
            status=found.get("StatusText") or None,
            linger=_is_lingering(),
            error=error or None,
        )

    @property
    def _why(self) -> str:
        name = self.unit.name.removesuffix(".service")
        return f"`systemctl --user status {name}`, `clew logs` and `clew doctor` say more"

    def _text(self) -> str | None:
        """Return the text of this home's unit, None where there is none; ServiceError where it is for another home."""
        text = _read(self.path)
        if text is None or is_of(text, self.home):
            return text
        other, there = home_of(text), f"clew service uninstall{self.unit.named}"
        whose = f"for another home: {other}" if other else "not one that clew wrote"
        hint = f"run `{there}` for that home, or remove the file" if other else "remove it first"
        raise ServiceError(f"{self.path} is {whose} (see its ExecStart=): {hint}")

    def _systemctl(self, *command: str, within_s: float = SYSTEMCTL_S) -> str:
        """Run a `systemctl --user` command; return what failed, "" if it did not."""
        _, fault = _run(self.env, *command, within_s=within_s)
        return f"systemctl --user {command[0]}: {fault}" if fault else ""


def uninstall_all(home: Path | None, env: Mapping[str, str]) -> Installed:
    """Stop, disable and remove every unit of this home, the daemon's last."""
    every = Installed([])
    for own in [OwnUnit(one, home, env) for one in reversed(UNITS.values())]:
        try:
            done = own.uninstall() if own.path.exists() else Installed([])
        except ServiceError as error:
            done = Installed([], [str(error)])
        every.messages.extend(done.messages)
        every.faults.extend(done.faults)
    return Installed(every.messages or ["no unit of this home is installed"], every.faults)


def is_delegated(group: Path) -> bool:
    """Return whether this control group is of a unit with `Delegate=yes`, as the user's manager says."""
    if group.suffix not in (".service", ".scope"):
        return False
    found, _ = _properties(os.environ, group.name, "Delegate", "ControlGroup")
    here = found.get("ControlGroup", "")
    return found.get("Delegate") == "yes" and here != "" and str(group).endswith(here)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _is_lingering() -> bool:
    """Return whether the user's services run without a session; see loginctl(1), enable-linger."""
    with suppress(KeyError):
        return (LINGER / pwd.getpwuid(os.getuid()).pw_name).exists()
    return False


def _properties(env: Mapping[str, str], unit: str, *names: str) -> tuple[dict[str, str], str]:
    """Return properties of a unit, and why there are none, "" if there are."""
    printed, fault = _run(env, "show", "-p", ",".join(names), "--", unit)
    parts = (line.partition("=") for line in printed.splitlines())
    found = {name: value for name, _, value in parts}
    return found, "" if found else fault or "exit code 0"


def _run(env: Mapping[str, str], *args: str, within_s: float = SYSTEMCTL_S) -> tuple[str, str]:
    """Run `systemctl --user`; return what it printed, and what failed, "" if nothing did."""
    program = shutil.which("systemctl", path=env.get("PATH"))
    if program is None:
        return "", "systemctl is not installed"
    command = [program, "--user", "--no-pager", *args]
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=within_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    fault = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
    return done.stdout, fault if done.returncode else ""
