"""Checks of this machine: Python and packages, the sandbox, control groups, inotify, and git."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor.findings import IDENTITY_FIX, Finding, Level
from clew_daemon.cli.surroundings import probe_sandbox
from clew_daemon.host import packages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.instance import Instance

OPEN_STORE = "commands of agents could read and change it: nothing keeps them from it here"
OPEN_STORE_FIX = '[sandbox] mode = "enforce", on a kernel with Landlock, keeps them away'
PYTHON_MIN = (3, 11)
QUEUES_MIN = 128
WATCHES_MIN = 16_384
CGROUP_FIX = (
    "without them workers are stopped one process at a time, and memory is measured but not limited by the kernel: "
    "run clew as a service (clew service install), or systemd-run --user --scope -p Delegate=yes clew run"
)


def python(_: Instance) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_MIN:
        yield Finding("python", "fail", version, "install Python 3.11 or newer")
    else:
        yield Finding("python", "ok", f"{version} ({sys.executable})")
    yield _packages()


def _packages() -> Finding:
    """Compare the installed packages with the requirements of clew's own metadata."""
    from importlib.metadata import PackageNotFoundError, version

    missing = []
    wanted = packages.requirements()
    if not wanted:
        fix = f"in a clone of clew: {packages.pip('install', '.')}"
        return Finding("packages", "warn", "clew is not installed as a package", fix)
    for requirement in wanted:
        name = packages.name_in(requirement)
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        fix = packages.install(*missing)
        return Finding("packages", "fail", f"missing: {', '.join(missing)}", fix)
    return Finding("packages", "ok", f"all {len(wanted)} installed")


def git(instance: Instance) -> Iterator[Finding]:
    """Check whether the executors can commit."""
    from clew_daemon.host import git as git_host

    path = git_host.program(instance.env)
    if path is None:
        fix = "install git if goals work in repositories, and for clew diff and clew undo"
        yield Finding("git", "warn", "not installed", fix)
        return
    yield _git_version(path)
    found = git_host.read_identity(instance.env)
    if len(found) < len(git_host.NAMES):
        lacking = " and ".join(
            what for what in ("name", "email") if f"GIT_AUTHOR_{what.upper()}" not in found
        )
        yield Finding("git identity", "warn", f"no {lacking or 'committer'} set", IDENTITY_FIX)
    else:
        who = f"{found['GIT_AUTHOR_NAME']} <{found['GIT_AUTHOR_EMAIL']}>"
        note = "a repository's own user.* does not override it"
        yield Finding("git identity", "ok", f"{who} ({note})")


def _git_version(path: str) -> Finding:
    """Check whether this git can take snapshots."""
    from clew_shared.snapshots.store import GIT_OLDEST, StoreError, git_version, version_text

    try:
        version = git_version(path)
    except StoreError as error:
        return Finding("git", "warn", f"takes no snapshots: {error}")
    found = f"{version_text(version)} ({path})"
    if version < GIT_OLDEST:
        fix = f"clew diff and clew undo need at least {version_text(GIT_OLDEST)}"
        return Finding("git", "warn", f"{found} takes no snapshots", fix)
    return Finding("git", "ok", found)


def sandbox(instance: Instance) -> Iterator[Finding]:
    report = probe_sandbox()
    if isinstance(report, str):
        yield Finding("sandbox", "fail", report)
        return
    abi = report.landlock_abi
    mode = _sandbox_mode(instance)
    if mode == "off" or (abi == 0 and mode != "enforce"):
        yield Finding("snapshots' store", "warn", OPEN_STORE, OPEN_STORE_FIX)
    found = f"Landlock ABI {abi}, {report.isolation}, mode {mode}"
    messages = "\n".join(report.messages)
    if abi == 0 and mode == "enforce":
        yield Finding("sandbox", "fail", f"{found}: no worker can start", messages)
    else:
        level: Level = "warn" if messages or mode != "enforce" else "ok"
        yield Finding("sandbox", level, found, messages)


def _sandbox_mode(instance: Instance) -> str:
    from clew_shared.config.faults import SettingsError

    try:
        return instance.loaded.settings.sandbox.mode
    except SettingsError:
        return "enforce"


def cgroup(instance: Instance) -> Iterator[Finding]:
    """Report the control groups of the daemon, or those of a daemon that would be started from here."""
    from clew_daemon.control.requests import PingRequest
    from clew_daemon.host import systemctl
    from clew_daemon.processes import cgroup_tree
    from clew_daemon.processes.cgroups import CONTROLLERS
    from clew_daemon.reading.client import NoDaemon, send

    try:
        view = send(instance.socket, PingRequest()).get("cgroup", {})
    except NoDaemon:
        own, why_not = cgroup_tree.own_group()
        if own:
            why_not = cgroup_tree.why_not_delegated(own, systemctl.is_delegated)
        view = {"path": None if why_not else str(own), "why_not": why_not}
    if not view.get("path"):
        found = f"not available: {view.get('why_not') or 'the daemon does not say why'}"
        yield Finding("control groups", "warn", found, CGROUP_FIX)
        return
    missing = [name for name in CONTROLLERS if name not in view.get("controllers", CONTROLLERS)]
    without = f"; without {', '.join(missing)}" if missing else ""
    yield Finding("control groups", "ok", f"one per worker in {view['path']}{without}")


def inotify(_: Instance) -> Iterator[Finding]:
    """Report how many large workspaces the kernel can watch; the others are scanned in full."""
    try:
        queues, watches = (
            int(Path(f"/proc/sys/fs/inotify/max_user_{name}").read_text())
            for name in ("instances", "watches")
        )
    except (OSError, ValueError):
        fix = "nothing to do; actions in large workspaces take longer"
        yield Finding("inotify", "warn", "not available in this kernel", fix)
        return
    found = f"{queues} instances and {watches} watches for all programs of this user"
    if queues < QUEUES_MIN or watches < WATCHES_MIN:
        fix = (
            "sysctl fs.inotify: raise max_user_instances and max_user_watches (docs/operations.md)"
        )
        yield Finding("inotify", "warn", f"{found}: few for large workspaces", fix)
    else:
        yield Finding("inotify", "ok", found)
