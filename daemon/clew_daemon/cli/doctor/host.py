"""`clew doctor`: checks what clew needs, and says how to fix what does not work.

Each check is a function that yields findings; CliError is its only exception. Nothing is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.doctor.agents import agents
from clew_daemon.cli.doctor.findings import IDENTITY_FIX, Finding, numbered
from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clew_daemon.cli.where import Where

PROGRAM_S = 10.0
SANDBOX_S = 30.0
FREE_MB_MIN = 200
PYTHON_MIN = (3, 11)
NOTIFY_RELOAD_SINCE = 253
QUEUES_MIN = 128
WATCHES_MIN = 16_384
_PROBE = "from clew_worker.sandbox import probe; print(probe().model_dump_json())"
CGROUP_FIX = (
    "without them workers are stopped one process at a time, and memory is measured but not limited by the kernel: "
    "run clew as a service (clew service install), or systemd-run --user --scope -p Delegate=yes clew run"
)
INBOX_SHOWN_MAX = 10
BROKEN_CONFIG = (
    "fix the file, then run clew reload; a running daemon keeps its settings until then, and "
    "a restart before that would fail"
)
REJECTED_FIX = "fix it and submit it again, then delete it and its .error.txt from inbox/rejected"


def examine(where: Where) -> list[Finding]:
    """Check everything, in the order in which one problem causes the next."""
    checks: tuple[Callable[[Where], Iterator[Finding]], ...] = (
        _python,
        _config,
        _folders,
        _ledger,
        _daemon,
        _inbox,
        _sandbox,
        _cgroup,
        _inotify,
        _git,
        _systemd,
        agents,
    )
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += check(where)
        except CliError as error:
            findings.append(Finding(check.__name__.strip("_"), "fail", error.message))
    return findings


def _python(_: Where) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_MIN:
        yield Finding("python", "fail", version, "install Python 3.11 or newer")
    else:
        yield Finding("python", "ok", f"{version} ({sys.executable})")
    yield _packages()


def _packages() -> Finding:
    """Compare what is installed with what clew's own metadata asks for."""
    from importlib.metadata import PackageNotFoundError, requires, version

    missing = []
    try:
        wanted = requires("clew") or []
    except PackageNotFoundError:
        return Finding(
            "packages", "warn", "clew is not installed as a package", "pipx install clew"
        )
    for requirement in wanted:
        name = requirement.split(";", 1)[0].split(">", 1)[0].split("=", 1)[0].strip()
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        told = ", ".join(missing)
        return Finding("packages", "fail", f"missing: {told}", f"pip install {' '.join(missing)}")
    return Finding("packages", "ok", f"all {len(wanted)} installed")


def _config(where: Where) -> Iterator[Finding]:
    from clew_shared.config.settings import SettingsError

    try:
        loaded = where.loaded
    except SettingsError as error:
        errors = "\n".join(map(str, error.faults))
        found = f"{numbered(len(error.faults), 'error')} in {where.config}"
        yield Finding("config", "fail", found, f"{errors}\n{BROKEN_CONFIG}")
        return
    except CliError as error:
        yield Finding("config", "fail", error.message, BROKEN_CONFIG)
        return
    there = str(where.config) if where.config_text is not None else "no file; all defaults"
    yield Finding("config", "ok", there)
    if fault := loaded.settings.agents.fault():
        yield Finding("default agent", "warn", fault, "goals with a runbook work without one")


def _folders(where: Where) -> Iterator[Finding]:
    places = where.places
    for name in ("inbox", "outbox", "workspaces", "state", "run"):
        yield _folder(name, getattr(places, name), private=name in ("state", "run"))
    free_mb = shutil.disk_usage(_existing(places.state)).free >> 20
    if free_mb < FREE_MB_MIN:
        mend = f"free up space: on a full disk clew accepts and runs nothing ({places.state})"
        yield Finding(
            "free space", "fail" if free_mb < FREE_MB_MIN // 10 else "warn", f"{free_mb} MB", mend
        )
    else:
        yield Finding("free space", "ok", f"{free_mb} MB")


def _folder(name: str, path: Path, *, private: bool) -> Finding:
    if not path.exists():
        above = _existing(path)
        if os.access(above, os.W_OK | os.X_OK):
            return Finding(name, "ok", f"{path} (created on first start)")
        return Finding(name, "fail", f"{path} cannot be created", f"make {above} writable for you")
    if not path.is_dir():
        return Finding(name, "fail", f"{path} is not a directory", "move it away")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Finding(name, "fail", f"{path} is not writable", f"chmod u+rwx {path}")
    mode = stat.S_IMODE(path.stat().st_mode)
    if private and mode & 0o077:
        return Finding(name, "warn", f"{path} is open to others ({mode:o})", f"chmod 700 {path}")
    return Finding(name, "ok", str(path))


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next((place for place in (path, *path.parents) if place.exists()), Path("/"))


def _ledger(where: Where) -> Iterator[Finding]:
    from clew_daemon.cli.record import goal_ids, refuse_lost
    from clew_daemon.record.lost_record import lacking
    from clew_shared.ledger import LedgerError

    refuse_lost(where)
    if not where.ledger.exists():
        yield Finding("ledger", "ok", f"{where.ledger} (created on first start)")
        return
    try:
        goals = goal_ids(where)
        missing = lacking(where.ledger, where.places.state)
    except (CliError, LedgerError, OSError) as error:
        yield Finding("ledger", "fail", str(error))
        return
    if missing and not missing.is_copied:
        behind = missing.error(where.ledger)
        yield Finding("ledger", "fail", f"{behind.path} {behind.what}", behind.hint)
        return
    yield Finding(
        "ledger",
        "ok",
        f"{where.ledger}, {numbered(len(goals), 'goal')}; check it with `clew verify`",
    )


def _daemon(where: Where) -> Iterator[Finding]:
    from clew_daemon.cli.client import NoDaemon, call

    address = where.socket
    try:
        answer = call(address, "ping")
    except NoDaemon as error:
        if address.holder:
            yield Finding("daemon", "fail", error.message)
        else:
            start = "`clew start` or `clew run`"
            first = f"fix the config, then start it: {start}"
            yield Finding("daemon", "warn", "not running", start if _is_sound(where) else first)
    except CliError as error:
        restart = "see clew logs; then stop that process and start it again"
        first = "see clew logs; fix the config before you restart it"
        yield Finding("daemon", "fail", error.message, restart if _is_sound(where) else first)
    else:
        found = f"pid {answer['pid']}, version {answer['version']}"
        if answer.get("config_error"):
            found += "; it keeps the settings that it started with"
        yield Finding("daemon", "ok", found)


def _is_sound(where: Where) -> bool:
    """Tell whether a daemon could start with the config as it is on disk."""
    from clew_shared.config.settings import SettingsError

    try:
        return bool(where.loaded)
    except (CliError, SettingsError):
        return False


def _inbox(where: Where) -> Iterator[Finding]:
    """Name what will not become a goal, the newest first."""
    from clew_daemon.inbox.leftovers import left

    found = left(where.places.inbox)
    for one in found.shown[:INBOX_SHOWN_MAX]:
        what = "was rejected" if one["rejected"] else "will not be taken"
        fix = REJECTED_FIX if one["rejected"] else "move it away, or fix it"
        yield Finding("inbox", "warn", f"{one['name']} {what}: {one['reason']}", fix)
    if found.total > INBOX_SHOWN_MAX:
        yield Finding("inbox", "warn", f"and {found.total - INBOX_SHOWN_MAX} more", "clew status")


def _git(where: Where) -> Iterator[Finding]:
    """See whether the executors can commit."""
    from clew_daemon.host import git

    if git.program(where.env) is None:
        yield Finding("git", "warn", "not installed", "install git if goals work in repositories")
        return
    found = git.read_identity(where.env)
    if len(found) < len(git.NAMES):
        lacking = " and ".join(
            what for what in ("name", "email") if f"GIT_AUTHOR_{what.upper()}" not in found
        )
        yield Finding("git identity", "warn", f"no {lacking or 'committer'} set", IDENTITY_FIX)
    else:
        who = f"{found['GIT_AUTHOR_NAME']} <{found['GIT_AUTHOR_EMAIL']}>"
        yield Finding(
            "git identity", "ok", f"{who} (a repository's own user.* does not override it)"
        )


def _sandbox(where: Where) -> Iterator[Finding]:
    report = _probed()
    if isinstance(report, str):
        yield Finding("sandbox", "fail", report)
        return
    abi = report["landlock_abi"]
    mode = _sandbox_mode(where)
    found = f"Landlock ABI {abi}, {report['isolation']}, mode {mode}"
    messages = "\n".join(report["messages"])
    if abi == 0 and mode == "enforce":
        yield Finding("sandbox", "fail", f"{found}: no worker can start", messages)
    else:
        yield Finding("sandbox", "warn" if messages or mode != "enforce" else "ok", found, messages)


def _sandbox_mode(where: Where) -> str:
    from clew_shared.config.settings import SettingsError

    try:
        return where.loaded.settings.sandbox.mode
    except SettingsError:
        return "enforce"


def _probed() -> dict[str, Any] | str:
    """Probe the sandbox in a process of the worker's side; return its report, or why there is none."""
    done = _ran([sys.executable, "-P", "-c", _PROBE], SANDBOX_S)  # -P: not from the current folder
    if isinstance(done, str):
        return done
    if done.returncode:
        return f"the probe failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
    return dict(json.loads(done.stdout))


def _cgroup(where: Where) -> Iterator[Finding]:
    """Ask the daemon what it has; without one, see what a daemon started from here would have."""
    from clew_daemon.cli.client import NoDaemon, call
    from clew_daemon.host import units
    from clew_daemon.processes import cgroup_tree
    from clew_daemon.processes.cgroups import CONTROLLERS

    try:
        said = call(where.socket, "ping").get("cgroup", {})
    except NoDaemon:
        own, why_not = cgroup_tree.own_group()
        if own:
            why_not = cgroup_tree.why_not_delegated(own, units.is_delegated)
        said = {"path": None if why_not else str(own), "why_not": why_not}
    if not said.get("path"):
        found = f"not available: {said.get('why_not') or 'the daemon does not say why'}"
        yield Finding("control groups", "warn", found, CGROUP_FIX)
        return
    missing = [name for name in CONTROLLERS if name not in said.get("controllers", CONTROLLERS)]
    found = f"one per worker in {said['path']}" + (
        f"; without {', '.join(missing)}" if missing else ""
    )
    yield Finding("control groups", "ok", found)


def _inotify(_: Where) -> Iterator[Finding]:
    """See how many large workspaces the kernel can watch; the others are scanned in full."""
    try:
        queues, watches = (
            int(Path(f"/proc/sys/fs/inotify/max_user_{name}").read_text())
            for name in ("instances", "watches")
        )
    except (OSError, ValueError):
        mend = "nothing to do; actions in large workspaces take longer"
        yield Finding("inotify", "warn", "not available in this kernel", mend)
        return
    found = f"{queues} instances and {watches} watches for all programs of this user"
    if queues < QUEUES_MIN or watches < WATCHES_MIN:
        mend = (
            "sysctl fs.inotify: raise max_user_instances and max_user_watches (docs/operations.md)"
        )
        yield Finding("inotify", "warn", f"{found}: few for large workspaces", mend)
    else:
        yield Finding("inotify", "ok", found)


def _systemd(where: Where) -> Iterator[Finding]:
    from clew_daemon.host.units import unit_path

    done = _ran(["systemctl", "--version"], PROGRAM_S)
    if isinstance(done, str):
        yield Finding(
            "systemd",
            "warn",
            "not available",
            "clew run works without it; have something restart it",
        )
        return
    words = done.stdout.split()
    version = words[1] if len(words) > 1 else "?"
    old = version.isdigit() and int(version) < NOTIFY_RELOAD_SINCE
    yield Finding(
        "systemd", "ok", f"version {version}" + (", reload by SIGHUP only" if old else "")
    )
    yield _user_manager()
    unit = unit_path(where.env)
    if unit.exists():
        yield Finding("unit", "ok", str(unit))
    else:
        yield Finding("unit", "warn", "not installed", "clew service install")
    yield _linger()


def _user_manager() -> Finding:
    done = _ran(["systemctl", "--user", "is-system-running"], PROGRAM_S)
    said = done if isinstance(done, str) else done.stdout.strip() or done.stderr.strip()
    if said in ("running", "degraded", "starting"):
        return Finding("user manager", "ok", said)
    first = (said or "no answer").splitlines()[0]
    return Finding(
        "user manager", "warn", first, "from a login session (not su), run: systemctl --user status"
    )


def _linger() -> Finding:
    user = os.environ.get("USER") or str(os.getuid())
    done = _ran(["loginctl", "show-user", user, "--property=Linger"], PROGRAM_S)
    if not isinstance(done, str) and done.stdout.strip() == "Linger=yes":
        return Finding("linger", "ok", "services keep running after logout")
    return Finding("linger", "warn", "the service stops at logout", "loginctl enable-linger")


def _ran(command: list[str], within_s: float) -> subprocess.CompletedProcess[str] | str:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
