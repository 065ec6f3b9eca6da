"""Checks of this home: its config, folders and ledger, the daemon, the herald, and the files in the inbox."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor import Finding, Level, numbered
from clew_daemon.control.requests import PingRequest
from clew_daemon.reading.client import NoDaemon, send
from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.instance import Instance

FREE_MB_MIN = 200
INBOX_SHOWN_MAX = 10
BROKEN_CONFIG_FIX = (
    "fix the file, then run clew reload; a running daemon keeps its settings until then, and "
    "a restart before that would fail"
)
REJECTED_FIX = "fix it and submit it again, then delete it and its .error.txt from inbox/rejected"
HERALD_FIX = "check the address in [notify] urls_file, or OTEL_EXPORTER_OTLP_ENDPOINT, and that its server runs"


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
    level: Level = "ok" if free_mb >= FREE_MB_MIN else "warn"
    fix = "" if level == "ok" else "free some: on a full disk clew accepts and runs nothing"
    yield Finding("free space", level, f"{free_mb} MB", fix)


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


def daemon(instance: Instance) -> Iterator[Finding]:
    address = instance.socket
    try:
        answer = send(address, PingRequest())
    except NoDaemon as error:
        if address.holder:
            yield Finding("daemon", "fail", error.message)
        else:
            yield Finding("daemon", "note", "not running", f"to start it: {address.to_start}")
    except CliError as error:
        fix = "see clew logs; then stop that process and start it again"
        yield Finding("daemon", "fail", error.message, fix)
    else:
        found = f"pid {answer['pid']}, version {answer['version']}"
        if answer.get("config_error"):
            found += "; it keeps the settings that it started with"
        yield Finding("daemon", "ok", found)


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


def herald(instance: Instance) -> Iterator[Finding]:
    """Report what `clew herald` cannot reach; nothing if none was ever started here."""
    from clew_shared.ledger.lock import holder
    from clew_shared.record.moment import local

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
        fix = "clew herald, or systemctl --user start clew-herald; nothing is sent until then"
        yield Finding("herald", "warn", "not running", fix)
    elif not failing:
        yield Finding("herald", "ok", f"pid {running.pid}")
