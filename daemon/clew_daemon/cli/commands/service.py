"""The daemon: `run` in the foreground; under systemd `start`, `stop`, `restart`, and `service` with its commands."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.app import CommandGroup
from clew_daemon.control.requests import PingRequest
from clew_daemon.host import units
from clew_daemon.host.own_process import pip
from clew_daemon.host.units import UNITS, ServiceUnit
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError, print_error
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import show
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode


@click.command()
@click.pass_obj
def run(instance: Instance) -> None:
    """Run the daemon in the foreground, as systemd does.

    SIGTERM or SIGINT stops it, SIGHUP reads the config again. Exit code 78: the config cannot be
    used, and all its errors are on stderr; starting again would not change that.
    """
    from clew_daemon.bootstrap import BootstrapError, bootstrap, failed
    from clew_daemon.host.own_process import collect_as_usual
    from clew_shared.config.faults import SettingsError
    from clew_shared.config.places import places

    try:
        loaded = instance.loaded
    except (SettingsError, CliError) as error:
        raise CliError(f"the config cannot be used:\n{error}", ExitCode.CONFIGURATION) from None
    collect_as_usual()
    try:
        with bootstrap(places(instance.env, instance.home, loaded.settings), loaded) as begun:
            from clew_daemon.app import lifecycle  # imported while the nursery starts

            code = lifecycle.run(begun)
    except BootstrapError as error:
        code = failed(str(error), error.code)
    raise click.exceptions.Exit(code)


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
restart = _begins("restart", "Restart the systemd user service; its goals continue there.")


@click.command()
@click.pass_obj
def stop(instance: Instance) -> None:
    """Stop the systemd user service, and wait until its agents have ended."""
    found = units.look("", home=instance.home, env=instance.env)
    if not found.installed or found.other_home or found.error:
        _refuse_unmanaged(instance)
    _control(instance, "stop")
    _refuse_unmanaged(instance)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except units.ServiceError as error:
        raise CliError(str(error)) from None


def _control(instance: Instance, verb: str) -> None:
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


@service.command()
@WHICH
@click.option("--now", is_flag=True, help="Start it, too.")
@click.pass_obj
def install(instance: Instance, which: str, now: bool) -> None:
    """Write and enable a systemd user unit for this clew: of the daemon, of `clew herald` or of `clew web`."""
    if now and which == "daemon":
        _refuse_unmanaged(instance)
    with _explained():
        done = units.install(
            _program(),
            home=instance.home,
            stop_grace_s=instance.settings.restart.stop_grace_s,
            env=instance.env,
            now=now,
            unit=UNITS[which],
        )
    _report(done)


@service.command()
@WHICH
@click.option("--all", "everything", is_flag=True, help="All three, and say what else remains.")
@click.pass_obj
def uninstall(instance: Instance, which: str, everything: bool) -> None:
    """Stop, disable and remove a systemd user unit; with --all, say how to remove the rest of clew, too."""
    if everything:
        _report(units.uninstall_all(instance.home, instance.env), _remaining(instance))
        return
    with _explained():
        done = units.uninstall(instance.home, env=instance.env, unit=UNITS[which])
    _report(done)


def _remaining(instance: Instance) -> Iterator[str]:
    places = instance.places
    if running := _unmanaged(instance):
        yield f"{clean(running)}: end it first"
    yield "What remains has your goals, their record, and the work in their workspaces:"
    for path in sorted({places.config, *places.folders.values()}):
        if path.exists():
            yield f"  {clean(str(path))}"
    yield "Each workspace elsewhere has a folder .agent_context (docs/uninstall.md)."
    yield f"to remove the program:\n  {pip('uninstall', 'clew')}"


@service.command()
@WHICH
@parameters.as_json
@click.pass_obj
def status(instance: Instance, which: str, as_json: bool) -> None:
    """Show whether a service is installed, enabled and running."""
    grace_s = units.STOP_GRACE_S
    with suppress(CliError):  # the state of the service can be shown all the same
        grace_s = instance.settings.restart.stop_grace_s
    unit = UNITS[which]
    expected = units.unit_text(unit, _program(), instance.home, grace_s)
    found = units.look(expected, home=instance.home, env=instance.env, unit=unit)
    show(asdict(found), _service_lines(instance, unit, found), as_json=as_json)


def _service_lines(instance: Instance, unit: ServiceUnit, found: units.Service) -> Iterator[str]:
    install = f"clew {unit.service('install')}"
    if not found.installed:
        yield f"not installed: {install}"
        return
    yield f"unit      {found.unit}"
    if found.other_home:
        yield f"          installed for another home: {clean(found.other_home)}"
        remove = units.removal(unit, found.other_home, instance.env)
        yield f"          to remove it: {clean(remove)}"
        return
    if not found.up_to_date:
        yield f"          it is not what `{install}` would write now: run that again"
    if found.error:
        yield f"unknown   systemd cannot be asked: {clean(found.error)}"
        return
    since = f" since {found.since}" if found.since and found.active == "active" else ""
    pid = f", process {found.pid}" if found.pid else ""
    yield f"state     {found.active}{since}{pid}"
    if found.status:
        yield f"          {clean(found.status)}"
    yield f"at login  {'started' if found.enabled else f'not started: {install}'}"
    lingers = "keeps running" if found.linger else "stops; to keep it: loginctl enable-linger"
    yield f"at logout {lingers}"


def _report(done: units.Installed, more: Iterator[str] | Sequence[str] = ()) -> None:
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
