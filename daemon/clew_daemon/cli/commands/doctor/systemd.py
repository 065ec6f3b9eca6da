"""Checks of systemd: its version, the user manager, the unit of clew, and lingering."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor.findings import Finding
from clew_daemon.cli.surroundings import run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.instance import Instance

PROGRAM_S = 10.0
NOTIFY_RELOAD_SINCE = 253
INSTALL = "to start it at login: clew service install --now (docs/operations.md)"


def systemd(instance: Instance) -> Iterator[Finding]:
    from clew_daemon.host.unit_file import unit_path

    done = run_program(["systemctl", "--version"], PROGRAM_S)
    if isinstance(done, str):
        fix = "clew run works without it; have something restart it"
        yield Finding("systemd", "note", "not available", fix)
        return
    version = [*done.stdout.split(), "?", "?"][1]
    is_old = version.isdigit() and int(version) < NOTIFY_RELOAD_SINCE
    found = f"version {version}{', reload by SIGHUP only' if is_old else ''}"
    yield Finding("systemd", "ok", found)
    unit = unit_path(instance.env)
    if not unit.exists():
        yield Finding("unit", "note", "not installed: clew is no service here", INSTALL)
        return
    yield Finding("unit", "ok", str(unit))
    yield _user_manager()
    yield _linger()


def _user_manager() -> Finding:
    done = run_program(["systemctl", "--user", "is-system-running"], PROGRAM_S)
    state = done if isinstance(done, str) else done.stdout.strip() or done.stderr.strip()
    if state in ("running", "degraded", "starting"):
        return Finding("user manager", "ok", state)
    first = (state or "no answer").splitlines()[0]
    fix = "from a login session (not su), run: systemctl --user status"
    return Finding("user manager", "warn", first, fix)


def _linger() -> Finding:
    user = os.environ.get("USER") or str(os.getuid())
    done = run_program(["loginctl", "show-user", user, "--property=Linger"], PROGRAM_S)
    if not isinstance(done, str) and done.stdout.strip() == "Linger=yes":
        return Finding("linger", "ok", "services keep running after logout")
    return Finding("linger", "warn", "the service stops at logout", "loginctl enable-linger")
