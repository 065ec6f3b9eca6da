"""Checks of this machine: Python and packages, the sandbox, control groups, git, and systemd."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor import Finding, Level
from clew_daemon.cli.surroundings import probe_sandbox, run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.instance import Instance

PROGRAM_S = 10.0
CGROUP_FIX = (
    "workers are stopped one process at a time, and the kernel does not limit their memory: run clew as a service "
    "(clew service install), or systemd-run --user --scope -p Delegate=yes clew run"
)
IDENTITY_FIX = (
    'git config --global user.name "Your Name" and git config --global user.email you@example.com, '
    "then clew reload; without it, git commit fails in every workspace"
)
INSTALL = "to start it at login: clew service install --now (docs/operations.md)"


def python(_: Instance) -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    from clew_daemon.host import packages

    yield Finding("python", "ok", f"{sys.version.split()[0]} ({sys.executable})")
    missing = []
    wanted = packages.requirements()
    for name in map(packages.name_in, wanted):
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    if not wanted:
        fix = f"in a clone of clew: {packages.pip('install', '.')}"
        yield Finding("packages", "warn", "clew is not installed as a package", fix)
    elif missing:
        fix = packages.install(*missing)
        yield Finding("packages", "fail", f"missing: {', '.join(missing)}", fix)
    else:
        yield Finding("packages", "ok", f"all {len(wanted)} installed")


def sandbox(instance: Instance) -> Iterator[Finding]:
    from clew_shared.config.faults import SettingsError

    report = probe_sandbox()
    if isinstance(report, str):
        yield Finding("sandbox", "fail", report)
        return
    try:
        mode = instance.loaded.settings.sandbox.mode
    except SettingsError:
        mode = "enforce"
    found = f"Landlock ABI {report.landlock_abi}, {report.isolation}, mode {mode}"
    messages = "\n".join(report.messages)
    if report.landlock_abi == 0 and mode == "enforce":
        yield Finding("sandbox", "fail", f"{found}: no worker can start", messages)
    else:
        level: Level = "warn" if messages or mode != "enforce" else "ok"
        yield Finding("sandbox", level, found, messages)


def cgroup(instance: Instance) -> Iterator[Finding]:
    """Report the control groups of the daemon, or those of a daemon that would be started from here."""
    from clew_daemon.control.requests import PingRequest
    from clew_daemon.host import units
    from clew_daemon.processes import cgroups
    from clew_daemon.reading.client import NoDaemon, send

    try:
        view = send(instance.socket, PingRequest()).get("cgroup", {})
    except NoDaemon:
        own, why_not = cgroups.own_group()
        if own:
            why_not = cgroups.why_not_delegated(own, units.is_delegated)
        view = {"path": None if why_not else str(own), "why_not": why_not}
    if view.get("path"):
        yield Finding("control groups", "ok", f"one per worker in {view['path']}")
    else:
        found = f"not available: {view.get('why_not') or 'the daemon does not say why'}"
        yield Finding("control groups", "warn", found, CGROUP_FIX)


def git(instance: Instance) -> Iterator[Finding]:
    """Check whether this git can take snapshots, and whether agents can commit."""
    from clew_daemon.host import git as git_host
    from clew_shared.snapshots.store import GIT_OLDEST, StoreError, git_version, version_text

    path = git_host.program(instance.env)
    if path is None:
        fix = "install git if goals work in repositories, and for clew diff and clew undo"
        yield Finding("git", "warn", "not installed", fix)
        return
    try:
        version = git_version(path)
        level: Level = "ok" if version >= GIT_OLDEST else "warn"
        fix = "" if level == "ok" else f"snapshots need at least {version_text(GIT_OLDEST)}"
        yield Finding("git", level, f"{version_text(version)} ({path})", fix)
    except StoreError as error:
        yield Finding("git", "warn", f"takes no snapshots: {error}")
    found = git_host.read_identity(instance.env)
    if len(found) < len(git_host.NAMES):
        parts = {"GIT_AUTHOR_NAME": "name", "GIT_AUTHOR_EMAIL": "email"}
        lacking = " and ".join(what for key, what in parts.items() if key not in found)
        yield Finding("git identity", "warn", f"no {lacking or 'committer'} set", IDENTITY_FIX)
    else:
        who = f"{found['GIT_AUTHOR_NAME']} <{found['GIT_AUTHOR_EMAIL']}>"
        yield Finding("git identity", "ok", who)


def systemd(instance: Instance) -> Iterator[Finding]:
    from clew_daemon.host.unit_file import unit_path

    done = run_program(["systemctl", "--version"], PROGRAM_S)
    if isinstance(done, str):
        fix = "clew run works without it; have something restart it"
        yield Finding("systemd", "note", "not available", fix)
        return
    yield Finding("systemd", "ok", f"version {[*done.stdout.split(), '?', '?'][1]}")
    unit = unit_path(instance.env)
    if not unit.exists():
        yield Finding("unit", "note", "not installed: clew is no service here", INSTALL)
        return
    done = run_program(["systemctl", "--user", "is-system-running"], PROGRAM_S)
    state = done if isinstance(done, str) else done.stdout.strip() or done.stderr.strip()
    if state not in ("running", "degraded", "starting"):
        fix = "from a login session (not su), run: systemctl --user status"
        yield Finding("user manager", "warn", (state or "no answer").splitlines()[0], fix)
    yield Finding("unit", "ok", f"{unit}; `clew service status` says more")
