"""The daemon under systemd: `start`, `stop`, `restart`, and `service` with its commands."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.app import CommandGroup
from clew_daemon.control.requests import PingRequest
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError, print_error
from clew_daemon.reading.output import show
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.host.unit_file import ServiceUnit
    from clew_daemon.host.units import Installed, Service
    from clew_daemon.reading.instance import Instance


DONE = {"start": "started", "stop": "stopped", "restart": "restarted"}


def _begins(verb: str, summary: str) -> click.Command:
    @click.command(verb, help=summary)
    @click.pass_obj
    def command(instance: Instance) -> None:
        _refuse_unmanaged(instance)
        _ = instance.settings  # a broken config is explained better here than in the journal
        _control(instance, verb)

    return command


start = _begins("start", "Start the systemd user service, and wait until the daemon is ready.")
restart = _begins(
    "restart", "Restart the systemd user service; its goals continue where they were."
)


@click.command()
@click.pass_obj
def stop(instance: Instance) -> None:
    """Stop the systemd user service, and wait until its agents have ended."""
    from clew_daemon.host import units

    found = units.look("", home=instance.home, env=instance.env)
    if not found.installed or found.other_home or found.error:
        _refuse_unmanaged(instance)
    _control(instance, "stop")
    _refuse_unmanaged(instance)


@contextmanager
def _explained() -> Iterator[None]:
    from clew_daemon.host.units import ServiceError

    try:
        yield
    except ServiceError as error:
        raise CliError(str(error)) from None


def _control(instance: Instance, verb: str) -> None:
    from clew_daemon.host import units
    from clew_daemon.reading.queries import interrupted_after, last_seq
    from clew_daemon.record.doing import interrupted

    before = None if verb == "start" else last_seq(instance)
    with _explained():
        units.control(verb, instance.home, env=instance.env)
    count = 0 if before is None else interrupted_after(instance, before)
    told = f"; {interrupted(count)}: the agent will be told" if count else ""
    print(f"{DONE[verb]}{told}")


def _refuse_unmanaged(instance: Instance) -> None:
    if running := _unmanaged(instance):
        raise CliError(f"{running}, not as the service: end it where it was started")


def _unmanaged(instance: Instance) -> str:
    """Return the description of a running daemon that is not the service, "" if there is none."""
    from clew_daemon.host import units

    found = instance.holder
    if found is None:
        return ""
    service = units.look("", home=instance.home, env=instance.env)
    is_service = found.pid == service.pid
    if service.error:  # then it says itself whether systemd started it
        with suppress(CliError):  # it does not answer: unknown
            is_service = bool((ask(instance.socket, PingRequest()) or {}).get("managed"))
    return "" if is_service else found.running


@click.group(cls=CommandGroup, no_args_is_help=False)
def service() -> None:
    """Install, inspect or remove a systemd user service: of the daemon, of `clew herald` or of `clew web`."""


WHICH = click.argument("which", type=click.Choice(["daemon", "herald", "web"]), default="daemon")


def _unit(which: str) -> ServiceUnit:
    from clew_daemon.host.unit_file import UNITS

    return UNITS[which]


@service.command()
@WHICH
@click.option("--now", is_flag=True, help="Start it, too.")
@click.pass_obj
def install(instance: Instance, which: str, now: bool) -> None:
    """Write and enable a systemd user unit for this clew: of the daemon, of `clew herald` or of `clew web`."""
    from clew_daemon.host import units

    if now and which == "daemon":
        _refuse_unmanaged(instance)
    with _explained():
        done = units.install(
            _program(),
            home=instance.home,
            stop_grace_s=instance.settings.restart.stop_grace_s,
            env=instance.env,
            now=now,
            unit=_unit(which),
        )
    _report(done)


@service.command()
@WHICH
@click.option("--all", "everything", is_flag=True, help="All three, and say what else remains.")
@click.pass_obj
def uninstall(instance: Instance, which: str, everything: bool) -> None:
    """Stop, disable and remove a systemd user unit; with --all, say how to remove the rest of clew, too."""
    from clew_daemon.host import units

    if everything:
        _report(units.uninstall_all(instance.home, instance.env), _remaining(instance))
        return
    with _explained():
        done = units.uninstall(instance.home, env=instance.env, unit=_unit(which))
    _report(done)


def _remaining(instance: Instance) -> list[str]:
    from clew_daemon.host.packages import pip

    places = instance.places
    there = sorted({path for path in (places.config, *places.folders.values()) if path.exists()})
    lines = ["What remains has your goals, their record, and the work in their workspaces:"]
    lines += [f"  {clean(str(path))}" for path in there]
    if running := _unmanaged(instance):
        lines.insert(0, f"{clean(running)}: end it first")
    lines += ["Each workspace elsewhere has a folder .agent_context (docs/uninstall.md)."]
    return [*lines, "to remove the program:", f"  {pip('uninstall', 'clew')}"]


@service.command()
@WHICH
@parameters.as_json
@click.pass_obj
def status(instance: Instance, which: str, as_json: bool) -> None:
    """Show whether a service is installed, enabled and running."""
    from dataclasses import asdict

    from clew_daemon.host import unit_file, units

    try:
        grace_s = instance.settings.restart.stop_grace_s
    except CliError:  # the state of the service can be shown all the same
        grace_s = unit_file.STOP_GRACE_S
    unit = _unit(which)
    expected = units.text_of(unit, _program(), instance.home, grace_s, instance.env)
    found = units.look(expected, home=instance.home, env=instance.env, unit=unit)
    show(asdict(found), _service_lines(instance, unit, found), as_json=as_json)


def _service_lines(instance: Instance, unit: ServiceUnit, found: Service) -> list[str]:
    from clew_daemon.host.units import removal

    install = f"clew {unit.service('install')}"
    if not found.installed:
        return [f"not installed: {install}"]
    lines = [f"unit      {found.unit}"]
    if found.other_home:
        remove = clean(removal(unit, found.other_home, instance.env))
        lines.append(f"          installed for another home: {clean(found.other_home)}")
        return [*lines, f"          to remove it: {remove}"]
    if not found.up_to_date:
        lines.append(f"          it is not what `{install}` would write now: run that again")
    if found.error:
        return [*lines, f"unknown   systemd cannot be asked: {clean(found.error)}"]
    since = f" since {found.since}" if found.since and found.active == "active" else ""
    pid = f", process {found.pid}" if found.pid else ""
    lines.append(f"state     {found.active}{since}{pid}")
    if found.status:
        lines.append(f"          {clean(found.status)}")
    lines.append(f"at login  {'started' if found.enabled else f'not started: {install}'}")
    lingers = "keeps running" if found.linger else "stops; to keep it: loginctl enable-linger"
    return [*lines, f"at logout {lingers}"]


def _report(done: Installed, more: Sequence[str] = ()) -> None:
    print("\n".join([*done.messages, *more]), flush=True)
    if done.faults:
        print_error("\n".join(done.faults))
        raise click.exceptions.Exit(ExitCode.FAILED)


def _program() -> str:
    """Return the absolute path of the `clew` beside this Python, or of the one on PATH."""
    beside = Path(sys.executable).with_name("clew")
    if beside.exists():
        return str(beside)
    named = shutil.which("clew")
    if named is None:
        raise CliError("the program `clew` is not on PATH: install it, e.g. with `pipx install .`")
    return str(Path(named).absolute())
