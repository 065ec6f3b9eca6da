"""Checks of this home: its config, folders and ledger, the daemon, and the files in the inbox."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor.findings import Finding, Level, numbered
from clew_daemon.cli.surroundings import executor_env
from clew_daemon.control.requests import PingRequest
from clew_daemon.reading.client import NoDaemon, send
from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.instance import Instance

MB = 1 << 20
FREE_MB_MIN = 200
INBOX_SHOWN_MAX = 10
BROKEN_CONFIG_FIX = (
    "fix the file, then run clew reload; a running daemon keeps its settings until then, and "
    "a restart before that would fail"
)
PATH_FIX = (
    "if they should: stop `clew run` and start it from this shell, or for the service "
    "`systemctl --user import-environment PATH`, then `clew restart`; "
    "folders in your home also need [sandbox] read"
)
REJECTED_FIX = "fix it and submit it again, then delete it and its .error.txt from inbox/rejected"


def config(instance: Instance) -> Iterator[Finding]:
    from clew_shared.config.faults import SettingsError

    try:
        loaded = instance.loaded
    except SettingsError as error:
        errors = "\n".join(map(str, error.faults))
        found = f"{numbered(len(error.faults), 'error')} in {instance.config}"
        yield Finding("config", "fail", found, f"{errors}\n{BROKEN_CONFIG_FIX}")
        return
    except CliError as error:
        yield Finding("config", "fail", error.message, BROKEN_CONFIG_FIX)
        return
    missing = "" if instance.config_text is not None else " does not exist: all defaults"
    yield Finding("config", "ok", f"{instance.config}{missing}")
    if fault := loaded.settings.agents.fault(None, instance.config):
        level: Level = "warn" if loaded.settings.agents.named else "note"
        yield Finding("default agent", level, fault, "goals with a runbook work without one")


def folders(instance: Instance) -> Iterator[Finding]:
    places = instance.places
    for name in ("inbox", "outbox", "workspaces", "state", "run"):
        yield _folder(name, getattr(places, name), private=name in ("state", "run"))
    free_mb = shutil.disk_usage(_existing(places.state)).free >> 20
    if free_mb < FREE_MB_MIN:
        level: Level = "fail" if free_mb < FREE_MB_MIN // 10 else "warn"
        fix = f"free up space: on a full disk clew accepts and runs nothing ({places.state})"
        yield Finding("free space", level, f"{free_mb} MB", fix)
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


def ledger(instance: Instance) -> Iterator[Finding]:
    from clew_daemon.reading.queries import goal_ids, refuse_lost_ledger
    from clew_daemon.record.lost_record import lacking
    from clew_shared.ledger import LedgerError

    refuse_lost_ledger(instance)
    if not instance.ledger.exists():
        yield Finding("ledger", "ok", f"{instance.ledger} (created on first start)")
        return
    try:
        goals = goal_ids(instance)
        missing = lacking(instance.ledger, instance.places.state)
    except (CliError, LedgerError, OSError) as error:
        yield Finding("ledger", "fail", str(error))
        return
    if missing and not missing.is_copied:
        behind = missing.error(instance.ledger)
        yield Finding("ledger", "fail", f"{behind.path} {behind.what}", behind.hint)
        return
    found = f"{instance.ledger}, {numbered(len(goals), 'goal')}; check it with `clew verify`"
    yield Finding("ledger", "ok", found)


def snapshots(instance: Instance) -> Iterator[Finding]:
    """Report how much disk the snapshots use, and how much they may."""
    from clew_daemon.host.snapshot_space import SnapshotSpace
    from clew_shared.config.faults import SettingsError

    space = SnapshotSpace(instance.places.snapshots)
    space.measure()
    used = f"{space.total / MB:.0f} MB used"
    try:
        limits = instance.loaded.settings.snapshots
    except (CliError, SettingsError):
        yield Finding("snapshots", "ok", used)
        return
    if not limits.enabled:
        fix = (
            "without them clew diff and clew undo have nothing to go by: [snapshots] enabled = true"
        )
        yield Finding("snapshots", "warn", f"not taken; {used}", fix)
    elif space.total >= limits.max_mb * MB:
        fix = "those of the goals that ended first are removed; more room: [snapshots] max_mb"
        yield Finding("snapshots", "warn", f"{used}, the limit is {limits.max_mb} MB", fix)
    else:
        yield Finding("snapshots", "ok", f"{used} of {limits.max_mb} MB")


def daemon(instance: Instance) -> Iterator[Finding]:
    address = instance.socket
    start = address.to_start
    try:
        answer = send(address, PingRequest())
    except NoDaemon as error:
        if address.holder:
            yield Finding("daemon", "fail", error.message)
        else:
            first = f"fix the config, then start it: {start}"
            yield Finding("daemon", "note", "not running", start if _may_start(instance) else first)
    except CliError as error:
        restart = "see clew logs; then stop that process and start it again"
        first = "see clew logs; fix the config before you restart it"
        yield Finding("daemon", "fail", error.message, restart if _may_start(instance) else first)
    else:
        found = f"pid {answer['pid']}, version {answer['version']}"
        if answer.get("config_error"):
            found += "; it keeps the settings that it started with"
        yield Finding("daemon", "ok", found)
        yield from _path(instance)


def _path(instance: Instance) -> Iterator[Finding]:
    """Report the folders with programs that are on the PATH of this shell, and not on that of the daemon."""
    known = executor_env(instance).get("PATH", "").split(":")
    own = instance.env.get("PATH", "").split(":")
    unknown = [one for one in dict.fromkeys(own) if one not in known and Path(one).is_dir()]
    if unknown:
        found = f"the daemon's lacks {', '.join(unknown)}, so goals find no programs there"
        yield Finding("PATH", "note", found, PATH_FIX)


def _may_start(instance: Instance) -> bool:
    """Return whether a daemon could start with the config as it is on disk."""
    from clew_shared.config.faults import SettingsError

    try:
        return bool(instance.loaded)
    except (CliError, SettingsError):
        return False


def inbox(instance: Instance) -> Iterator[Finding]:
    """Report the files that will not become goals, the newest first."""
    from clew_daemon.inbox.leftovers import left

    found = left(instance.places.inbox)
    for one in found.shown[:INBOX_SHOWN_MAX]:
        what = "was rejected" if one["rejected"] else "will not be taken"
        fix = REJECTED_FIX if one["rejected"] else "move it away, or fix it"
        yield Finding("inbox", "warn", f"{one['name']} {what}: {one['reason']}", fix)
    if found.total > INBOX_SHOWN_MAX:
        yield Finding("inbox", "warn", f"and {found.total - INBOX_SHOWN_MAX} more", "clew status")
