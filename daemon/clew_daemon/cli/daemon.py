"""Running the daemon: `run` in the foreground, `start`, `stop`, `restart` and `service` under systemd."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.errors import CliError, tell
from clew_daemon.cli.lazy import Commands
from clew_daemon.cli.printable import clean
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where
    from clew_daemon.host.units import Installed, Service
    from clew_shared.config.settings import Loaded, Places

GC_USUAL = (700, 10, 10)
_NOT_OURS = "not as the service: end it where it was started"


@click.command()
@click.pass_obj
def run(where: Where) -> None:
    """Run the daemon in the foreground, as systemd does.

    SIGTERM or SIGINT stops it, SIGHUP reads the config again. Exit code 78: the config cannot be
    used, and all its errors are on stderr; starting again would not change that.
    """
    from clew_shared.config.settings import SettingsError, places

    try:
        loaded = where.loaded
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", ExitCode.CONFIGURATION) from None
    gc.set_threshold(*GC_USUAL)
    raise click.exceptions.Exit(_run(places(where.env, where.home, loaded.settings), loaded))


def _run(places: Places, loaded: Loaded) -> int:
    from clew_daemon.bootstrap import BootstrapError, bootstrap, failed

    try:
        with bootstrap(places, loaded) as bootstrapped:
            from clew_daemon.app.lifecycle import run  # while the nursery warms up

            return run(bootstrapped)
    except BootstrapError as error:
        return failed(str(error), error.code)


@click.command()
@click.pass_obj
def start(where: Where) -> None:
    """Start the systemd user service, and wait until the daemon is ready."""
    if running := _outside(where):
        raise CliError(f"{running}, {_NOT_OURS}")
    _ = where.settings  # with one that cannot be used it would only fail, with less to say
    _control(where, "start")


@click.command()
@click.pass_obj
def stop(where: Where) -> None:
    """Stop the systemd user service, and wait until its agents have ended."""
    from clew_daemon.host import units

    found = units.look("", home=where.home, env=where.env)
    is_ours = found.installed and not found.other_home and not found.error
    if not is_ours and (running := _outside(where)):
        raise CliError(f"{running}, {_NOT_OURS}")
    _control(where, "stop")
    if running := _outside(where):
        raise CliError(f"{running}, {_NOT_OURS}")


@click.command()
@click.pass_obj
def restart(where: Where) -> None:
    """Restart the systemd user service; its goals continue where they were."""
    if running := _outside(where):
        raise CliError(f"{running}, {_NOT_OURS}")
    _ = where.settings  # a daemon that works is not stopped for one that could not start
    _control(where, "restart")


def _control(where: Where, verb: str) -> None:
    from clew_daemon.host import units

    try:
        units.control(verb, where.home, env=where.env)
    except units.ServiceError as error:
        raise CliError(str(error)) from None
    print({"start": "started", "stop": "stopped", "restart": "restarted"}[verb])


def _outside(where: Where) -> str:
    """Say which daemon runs that is not the service, "" where none does."""
    from clew_daemon.host import units

    found = where.holder
    if found is None:
        return ""
    service = units.look("", home=where.home, env=where.env)
    is_service = _is_managed(where) if service.error else found.pid == service.pid
    return "" if is_service else found.running


def _is_managed(where: Where) -> bool:
    """Tell whether the running daemon says that systemd started it."""
    from clew_daemon.cli.client import ask

    try:
        return bool((ask(where.socket, "ping") or {}).get("managed"))
    except CliError:  # it does not answer: what it is cannot be known
        return False


@click.group(cls=Commands, no_args_is_help=False)
def service() -> None:
    """Install, inspect or remove the systemd user service."""


@service.command()
@click.option("--now", is_flag=True, help="Start it, too.")
@click.pass_obj
def install(where: Where, now: bool) -> None:
    """Write and enable the systemd user unit for this clew."""
    from clew_daemon.host import units

    if now and (running := _outside(where)):
        raise CliError(f"{running}, {_NOT_OURS}")
    grace_s = where.settings.restart.stop_grace_s
    try:
        done = units.install(
            _program(), home=where.home, stop_grace_s=grace_s, env=where.env, now=now
        )
    except units.ServiceError as error:
        raise CliError(str(error)) from None
    _report(done)


@service.command()
@click.pass_obj
def uninstall(where: Where) -> None:
    """Stop, disable and remove the systemd user unit."""
    from clew_daemon.host import units

    try:
        done = units.uninstall(where.home, env=where.env)
    except units.ServiceError as error:
        raise CliError(str(error)) from None
    _report(done)


@service.command()
@arguments.as_json
@click.pass_obj
def status(where: Where, as_json: bool) -> None:
    """Show whether the service is installed, enabled and running."""
    from dataclasses import asdict

    from clew_daemon.cli.output import print_json, print_lines
    from clew_daemon.host import units

    try:
        grace_s = where.settings.restart.stop_grace_s
    except CliError:  # what the service does is worth knowing all the same
        grace_s = units.STOP_GRACE_S
    version = units.manager_version(where.env)
    expected = units.unit_text(_program(), where.home, stop_grace_s=grace_s, version=version)
    found = units.look(expected, home=where.home, env=where.env)
    if as_json:
        print_json(asdict(found))
    else:
        print_lines([(line, "")] for line in _service_lines(where, found))


def _service_lines(where: Where, found: Service) -> list[str]:
    from clew_daemon.host.units import removal

    if not found.installed:
        return ["not installed: clew service install"]
    lines = [f"unit      {found.unit}"]
    if found.other_home:
        remove = removal(found.other_home, where.env)
        return [
            *lines,
            f"          installed for another home: {clean(found.other_home)}",
            f"          to remove it: {clean(remove)}",
        ]
    if not found.up_to_date:
        lines.append(
            "          it is not what `clew service install` would write now: run that again"
        )
    if found.error:
        return [*lines, f"unknown   systemd cannot be asked: {clean(found.error)}"]
    since = f" since {found.since}" if found.since and found.active == "active" else ""
    pid = f", process {found.pid}" if found.pid else ""
    lines.append(f"state     {found.active}{since}{pid}")
    if found.status:
        lines.append(f"          {clean(found.status)}")
    lines.append(
        "at login  started" if found.enabled else "at login  not started: clew service install"
    )
    lingers = "keeps running" if found.linger else "stops; to keep it: loginctl enable-linger"
    return [*lines, f"at logout {lingers}"]


def _report(done: Installed) -> None:
    print("\n".join(done.messages), flush=True)
    if not done.ok:
        tell("\n".join(done.faults))
        raise click.exceptions.Exit(ExitCode.FAILED)


def _program() -> str:
    """Return the absolute path of the `clew` beside this Python, or of the one on PATH."""
    import shutil
    from pathlib import Path

    beside = Path(sys.executable).with_name("clew")
    if beside.exists():
        return str(beside)
    named = shutil.which("clew")
    if named is None:
        raise CliError(
            "the program `clew` is not on PATH: install clew, e.g. with `pipx install .` in its folder"
        )
    return str(Path(named).absolute())
