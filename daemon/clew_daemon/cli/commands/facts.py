"""Checks of this machine (sandbox, control groups, git, systemd), and of this home: config, folders, daemon."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from clew_daemon.host import git as git_host
from clew_daemon.host.units import is_delegated, unit_path
from clew_daemon.inbox.files import left
from clew_daemon.ledger.lock import holder
from clew_daemon.processes import cgroups
from clew_daemon.reading.client import NoDaemon, call
from clew_daemon.reading.errors import TO_START, CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import ledger_if_any, refuse_lost_ledger
from clew_daemon.record.lost_record import lacking
from clew_shared.config.settings import SettingsError
from clew_shared.config.tables import Settings
from clew_shared.ledger.errors import LedgerError
from clew_shared.record.moment import local
from clew_shared.snapshots.store import GIT_OLDEST, StoreError, git_version, version_text
from clew_shared.text.words import counted
from clew_shared.wire.nursery import SandboxReport

Level = Literal["ok", "note", "warn", "fail"]  # note: what only some uses of clew need to know


@dataclass(frozen=True)
class Finding:
    """The state of one thing, that of an `agent` perhaps; `fix` is what to do about it, "" if nothing."""

    name: str
    level: Level
    found: str
    fix: str = ""
    agent: str = ""


PROGRAM_S, SANDBOX_S = 10.0, 30.0
PROBE = "from clew_worker.sandbox import probe; print(probe().model_dump_json())"
FREE_MB_MIN = 200
INBOX_SHOWN_MAX = 10
CGROUP_FIX = "for limits of memory: clew service install, or systemd-run --user --scope -p Delegate=yes clew run"
IDENTITY_FIX = 'git config --global user.name "Your Name" and user.email, then clew restart: else git commit fails'
BROKEN_CONFIG_FIX = "fix it, then run clew reload; the daemon keeps its settings until then, and cannot be restarted"
REJECTED_FIX = "fix it and submit it again under its name, or delete it from inbox/rejected"
HERALD_FIX = "check the address in [notify] urls_file, or OTEL_EXPORTER_OTLP_ENDPOINT, and that its server runs"
HERALD_START = "clew herald, or systemctl --user start clew-herald; nothing is sent until then"


def run_program(
    command: list[str], within_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | str:
    """Run a program and capture its output; return the error as a text where it cannot be run or takes too long."""
    read = partial(subprocess.run, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        return read(command, text=True, errors="replace", timeout=within_s, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"


def probe_sandbox() -> SandboxReport | str:
    """Probe the sandbox in a process that imports the worker; return its report, or the error as a text."""
    done = run_program([sys.executable, "-P", "-c", PROBE], SANDBOX_S)  # -P: not from this folder
    if isinstance(done, str):
        return done
    if done.returncode:
        return f"the probe failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
    return SandboxReport.model_validate_json(done.stdout)


def settings_of(instance: Instance) -> Settings:
    """Return the settings of the config; where that is broken, those in force."""
    try:
        return instance.loaded.settings
    except SettingsError:
        return instance.settings_in_force


def config(instance: Instance) -> Iterator[Finding]:
    yield Finding("python", "ok", f"{sys.version.split()[0]} ({sys.executable})")
    try:
        settings = instance.loaded.settings
    except SettingsError as error:
        errors = "\n".join(map(str, error.faults))
        found = f"{counted(len(error.faults), 'error')} in {instance.config}"
        yield Finding("config", "fail", found, f"{errors}\n{BROKEN_CONFIG_FIX}")
        return
    except CliError as error:
        yield Finding("config", "fail", error.message, BROKEN_CONFIG_FIX)
        return
    missing = "" if instance.config_text is not None else " does not exist: all defaults"
    yield Finding("config", "ok", f"{instance.config}{missing}")
    if fault := settings.agents.fault(None, instance.config):
        level: Level = "warn" if settings.agents.named else "note"
        yield Finding("default agent", level, fault, "goals with a runbook work without one")


def folders(instance: Instance) -> Iterator[Finding]:
    for name in ("inbox", "outbox", "workspaces", "state", "run"):
        yield _folder(name, getattr(instance.places, name), private=name in ("state", "run"))
    free_mb = shutil.disk_usage(_existing(instance.places.state)).free >> 20
    fix = "free some: on a full disk clew accepts and runs nothing" if free_mb < FREE_MB_MIN else ""
    yield Finding("free space", "warn" if fix else "ok", f"{free_mb} MB", fix)


def _folder(name: str, path: Path, *, private: bool) -> Finding:
    if not path.exists():
        if os.access(above := _existing(path), os.W_OK | os.X_OK):
            return Finding(name, "ok", f"{path} (created on first start)")
        return Finding(name, "fail", f"{path} cannot be created", f"make {above} writable for you")
    if not path.is_dir():
        return Finding(name, "fail", f"{path} is not a directory", "move it away")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Finding(name, "fail", f"{path} is not writable", f"chmod u+rwx {path}")
    if private and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
        return Finding(name, "warn", f"{path} is open to others ({mode:o})", f"chmod 700 {path}")
    return Finding(name, "ok", str(path))


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next((place for place in (path, *path.parents) if place.exists()), Path("/"))


def ledger(instance: Instance) -> Iterator[Finding]:
    refuse_lost_ledger(instance)
    if not instance.ledger.exists():
        yield Finding("ledger", "ok", f"{instance.ledger} (created on first start)")
        return
    try:
        with ledger_if_any(instance) as reader:
            goals = counted(len(list(filter(None, reader.goals()))) if reader else 0, "goal")
        missing = lacking(instance.ledger, instance.places.state)
    except (LedgerError, OSError) as error:
        yield Finding("ledger", "fail", str(error))
        return
    if missing and not missing.is_copied:
        behind = missing.error(instance.ledger)
        yield Finding("ledger", "fail", f"{behind.path} {behind.what}", behind.hint)
    else:
        yield Finding("ledger", "ok", f"{instance.ledger}, {goals}; check it with `clew verify`")


def daemon(instance: Instance) -> Iterator[Finding]:
    """Report the daemon and its control groups, or those of a daemon that would be started from here."""
    address = instance.socket
    try:
        answer = call(address, "ping")
    except NoDaemon as error:
        if address.holder:
            yield Finding("daemon", "fail", error.message)
        else:
            yield Finding("daemon", "note", "not running", f"to start it: {TO_START}")
        own, why_not = cgroups.own_group()
        why_not = cgroups.why_not_delegated(own, is_delegated) if own else why_not
        groups = {"path": None if why_not else str(own), "why_not": why_not}
    except CliError as error:
        fix = "see clew logs; then stop that process and start it again"
        yield Finding("daemon", "fail", error.message, fix)
        return
    else:
        kept = "; it keeps the settings that it started with" if answer["config_error"] else ""
        yield Finding("daemon", "ok", f"pid {answer['pid']}, version {answer['version']}{kept}")
        groups = answer["cgroup"]
    if groups["path"]:
        yield Finding("control groups", "ok", f"one per worker in {groups['path']}")
    else:
        yield Finding("control groups", "warn", f"not available: {groups['why_not']}", CGROUP_FIX)


def inbox(instance: Instance) -> Iterator[Finding]:
    """Report the files that will not become goals, the newest first."""
    found = left(instance.places.inbox)
    for one in found["inbox"][:INBOX_SHOWN_MAX]:
        what = "was rejected" if one["rejected"] else "will not be taken"
        fix = REJECTED_FIX if one["rejected"] else "move it away, or fix it"
        yield Finding("inbox", "warn", f"{one['name']} {what}: {one['reason']}", fix)
    if (more := found["inbox_total"] - INBOX_SHOWN_MAX) > 0:
        yield Finding("inbox", "warn", f"and {more} more", "clew status")


def herald(instance: Instance) -> Iterator[Finding]:
    """Report what `clew herald` cannot reach; nothing if none was ever started here."""
    state = instance.places.state
    try:
        channels = json.loads((state / "herald.json").read_text())["channels"].values()
        failing = [one for one in channels if one["failing_since"]]
        running = holder(state / "herald.lock")
    except FileNotFoundError:
        return
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        yield Finding("herald", "warn", f"{state / 'herald.json'} cannot be read: {error}")
        return
    for one in failing:
        found = f"{one['label']}: since {local(one['failing_since'])}: {one['error']}"
        yield Finding("herald", "warn", found, HERALD_FIX)
    if running is None:
        yield Finding("herald", "warn", "not running", HERALD_START)
    elif not failing:
        yield Finding("herald", "ok", f"pid {running.pid}")


def sandbox(instance: Instance) -> Iterator[Finding]:
    report, mode = probe_sandbox(), settings_of(instance).sandbox.mode
    if isinstance(report, str):
        yield Finding("sandbox", "fail", report)
        return
    found = f"Landlock ABI {report.landlock_abi}, {report.isolation}, mode {mode}"
    level: Level = "warn" if report.messages or mode != "enforce" else "ok"
    if report.landlock_abi == 0 and mode == "enforce":
        found, level = f"{found}: no worker can start", "fail"
    yield Finding("sandbox", level, found, "\n".join(report.messages))


def git(instance: Instance) -> Iterator[Finding]:
    """Check whether this git can take snapshots, and whether agents can commit."""
    path = git_host.program(instance.env)
    if path is None:
        fix = "install git if goals work in repositories, and for clew diff and clew undo"
        yield Finding("git", "warn", "not installed", fix)
        return
    try:
        version = git_version(path)
        fix = "" if version >= GIT_OLDEST else f"snapshots need {version_text(GIT_OLDEST)} or later"
        found = f"{version_text(version)} ({path})"
        yield Finding("git", "warn" if fix else "ok", found, fix)
    except StoreError as error:
        yield Finding("git", "warn", f"takes no snapshots: {error}")
    who = git_host.read_identity(instance.env)
    if len(who) == len(git_host.NAMES):
        found = f"{who['GIT_AUTHOR_NAME']} <{who['GIT_AUTHOR_EMAIL']}>"
        yield Finding("git identity", "ok", found)
        return
    no = " and ".join(one for one in ("name", "email") if f"GIT_AUTHOR_{one.upper()}" not in who)
    yield Finding("git identity", "warn", f"no {no or 'committer'} set", IDENTITY_FIX)


def systemd(instance: Instance) -> Iterator[Finding]:
    done = run_program(["systemctl", "--version"], PROGRAM_S)
    if isinstance(done, str):
        fix = "clew run works without it; have something restart it"
        yield Finding("systemd", "note", "not available", fix)
        return
    yield Finding("systemd", "ok", f"version {[*done.stdout.split(), '?', '?'][1]}")
    unit = unit_path(instance.env)
    if not unit.exists():
        fix = "to start it at login: clew service install --now (docs/operations.md)"
        yield Finding("unit", "note", "not installed: clew is no service here", fix)
        return
    done = run_program(["systemctl", "--user", "is-system-running"], PROGRAM_S)
    state = done if isinstance(done, str) else done.stdout.strip() or done.stderr.strip()
    if state not in ("running", "degraded", "starting"):
        fix = "from a login session (not su), run: systemctl --user status"
        yield Finding("user manager", "warn", (state or "no answer").splitlines()[0], fix)
    yield Finding("unit", "ok", f"{unit}; `clew service status` says more")


CHECKS = (config, folders, ledger, daemon, inbox, herald, sandbox, git, systemd)
