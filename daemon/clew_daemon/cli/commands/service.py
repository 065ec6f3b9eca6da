"""The daemon: `run` in the foreground; under systemd `start`, `stop`, `restart` and `service`; its config."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.app import CommandGroup
from clew_daemon.cli.parameters import Shown, reading
from clew_daemon.config import configfile
from clew_daemon.config.places import places
from clew_daemon.config.profiles import in_effect
from clew_daemon.host import units
from clew_daemon.host.units import DAEMON_UNIT, HERALD_UNIT, UNITS, WEB_UNIT
from clew_daemon.reading import output
from clew_daemon.reading.client import ask, call
from clew_daemon.reading.errors import CliError, print_error
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line
from clew_daemon.reading.sanitize import clean, short
from clew_shared.config.settings import SettingsError, dotted, flatten, load
from clew_shared.exit_codes import ExitCode
from clew_shared.text.words import counted


@parameters.command()
def run(instance: Instance) -> None:
    """Run the daemon in the foreground, as systemd does.

    SIGTERM or SIGINT stops it, SIGHUP reads the config again. Exit code 78: the config cannot be
    used, and all its errors are on stderr; starting again would not change that.
    """
    from clew_daemon.bootstrap import BootstrapError, bootstrap, failed
    from clew_daemon.host.own_process import collect_as_usual

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


def _unit(instance: Instance, which: str = "daemon") -> units.OwnUnit:
    return units.OwnUnit(UNITS[which], instance.home, instance.env)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except units.ServiceError as error:
        raise CliError(str(error)) from None


def _control(instance: Instance, verb: str, done: str) -> None:
    if verb != "stop":
        _refuse_unmanaged(instance)
        _ = instance.settings  # a broken config is explained better here than in the journal
    with _explained():
        _unit(instance).control(verb)
    print(done)


@parameters.command()
def start(instance: Instance) -> None:
    """Start the systemd user service, and wait until the daemon is ready."""
    _control(instance, "start", "started")


@parameters.command()
def restart(instance: Instance) -> None:
    """Restart the systemd user service; its goals continue there."""
    _control(instance, "restart", "restarted")


@parameters.command()
def stop(instance: Instance) -> None:
    """Stop the systemd user service, and wait until its agents have ended."""
    found = _unit(instance).look()
    if not found.installed or found.other_home or found.error:
        _refuse_unmanaged(instance)
    # also a service that fails and is started again, because another daemon holds the ledger
    _control(instance, "stop", "stopped")
    _refuse_unmanaged(instance)


def _refuse_unmanaged(instance: Instance) -> None:
    if running := _unmanaged(instance):
        raise CliError(f"{running}, not as the service: Ctrl-C where it was started, or `kill` it")


def _unmanaged(instance: Instance) -> str:
    """Return the description of a running daemon that is not the service, "" if there is none."""
    found = instance.holder
    if found is None:
        return ""
    service = _unit(instance).look()
    is_service = found.pid == service.pid
    if service.error:  # then it says itself whether systemd started it
        with suppress(CliError):  # it does not answer: unknown
            is_service = bool((ask(instance.socket, "ping") or {}).get("managed"))
    return "" if is_service else found.running


@click.group(cls=CommandGroup, no_args_is_help=False)
def service() -> None:
    """Install, inspect or remove a systemd user service: of the daemon, of `clew herald` or of `clew web`."""


WHICH = click.argument("which", type=click.Choice(["daemon", "herald", "web"]), default="daemon")
NOW = parameters.flag("--now", "Start it, too.")
ALL = parameters.flag("--all", "everything", "All three, and say what else remains.")


@parameters.command(WHICH, NOW, of=service)
def install(instance: Instance, which: str, now: bool) -> None:
    """Write and enable a systemd user unit for this clew: of the daemon, of `clew herald` or of `clew web`."""
    if now and which == "daemon":
        _refuse_unmanaged(instance)
    grace_s = instance.settings.restart.stop_grace_s
    with _explained():
        done = _unit(instance, which).install(_program(), grace_s, now=now)
    _report(done)


@parameters.command(WHICH, ALL, of=service)
def uninstall(instance: Instance, which: str, everything: bool) -> None:
    """Stop, disable and remove a systemd user unit; with --all, say how to remove the rest of clew, too."""
    if everything:
        _report(units.uninstall_all(instance.home, instance.env), _remaining(instance))
        return
    with _explained():
        done = _unit(instance, which).uninstall()
    _report(done)


def _remaining(instance: Instance) -> Iterator[str]:
    found = instance.places
    if running := _unmanaged(instance):
        yield f"{clean(running)}: end it first"
    yield "What remains has your goals, their record, and the work in their workspaces:"
    for path in sorted({found.config, *found.folders.values()}):
        if path.exists():
            yield f"  {clean(str(path))}"
    yield "Each workspace elsewhere has a folder .agent_context (docs/uninstall.md)."
    pip = shlex.join([sys.executable, "-m", "pip", "uninstall", "clew"])
    yield f"to remove the program (pipx, uv: as it was installed):\n  {pip}"


@reading(WHICH, of=service)
def status(instance: Instance, which: str) -> Shown:
    """Show whether a service is installed, enabled and running."""
    grace_s = units.STOP_GRACE_S
    with suppress(CliError):  # the state of the service can be shown all the same
        grace_s = instance.settings.restart.stop_grace_s
    own = _unit(instance, which)
    found = own.look(units.unit_text(own.unit, _program(), instance.home, grace_s))
    return asdict(found), _service_lines(own, found)


def _service_lines(own: units.OwnUnit, found: units.Service) -> Iterator[str]:
    install = f"clew service install{own.unit.named}"
    if not found.installed:
        yield f"not installed: {install}"
        return
    yield f"unit      {found.unit}"
    if found.other_home:
        yield f"          installed for another home: {clean(found.other_home)}"
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
    beside = Path(sys.executable).with_name("clew")
    if beside.exists():
        return str(beside)
    named = shutil.which("clew")
    if named is None:
        raise CliError("the program `clew` is not on PATH: install it, e.g. with `pipx install .`")
    return str(Path(named).absolute())


# -- the config

FILE = click.Path(path_type=Path)
VIEWS = {"notify": HERALD_UNIT, "herald": HERALD_UNIT, "web": WEB_UNIT}  # by table
CHECK = parameters.option("--check", "FILE", "Name all errors in this file.", type=FILE)


@parameters.command(CHECK, parameters.as_json)
def config(instance: Instance, check: Path | None, as_json: bool) -> None:
    """Show the config in effect, and where each value comes from."""
    try:
        text = None if check is None else configfile.read(check)
        if check is not None and text is None:
            raise CliError(f"no such file: {check}")
        loaded = instance.loaded if check is None else load(text, {}, str(check))
    except configfile.ConfigFileError as error:
        raise CliError(str(error)) from None
    except SettingsError as error:
        if not as_json:
            raise CliError(f"{counted(len(error.faults), 'config error')}:\n{error}") from None
        faults = [{"place": place, "message": message} for place, message in error.faults]
        output.show({"faults": faults}, (), as_json=True, failed=True)
        return
    found, used = flatten(loaded.settings), places(instance.env, instance.home, loaded.settings)
    in_use = {f"paths.{name}": str(path) for name, path in used.folders.items()}
    in_use["log.file"] = str(used.log_file)
    found |= {key: path for key, path in in_use.items() if found.get(key, path) is None}
    values = {key: (value, loaded.sources.get(key)) for key, value in found.items()}
    for at, (value, name) in in_effect(loaded.settings).items():  # of the agents' models
        values[dotted(at)] = value, f"profile {name}"
    comment = "# " if check is None else ""
    lines: list[Line] = [[(f"{check}: no errors", "")]]
    if check is None:
        lines = [[(f"# the file: {_file(instance)}", "dim")]]
    lines += [[(f"{comment}{clean(sentence)}", "yellow")] for sentence in loaded.outdated]
    for key, (value, source) in values.items() if check is None else ():
        shown = "unset" if value is None else json.dumps(value, ensure_ascii=False)
        style = "dim" if source in (None, "default") else "bold"
        whence = f"  # {clean(source or 'default')}"
        lines.append([(key, ""), (f" = {clean(shown)}", style), (whence, "dim")])
    keys = {key: {"value": value, "source": source} for key, (value, source) in values.items()}
    view = {"file": str(check or instance.config), "faults": [], "keys": keys}
    output.show(view, lines, as_json=as_json)


@parameters.command()
def reload(instance: Instance) -> None:
    """Read the config again, as SIGHUP does; show what changed, or why it was rejected."""
    changes = call(instance.socket, "reload")["changes"]
    if not changes:
        print(f"nothing changed in {_file(instance)}")
    for change in changes:
        applies, unit = change["applies"], VIEWS.get(change["key"].partition(".")[0], DAEMON_UNIT)
        how = f": {unit.to_restart}" if applies == "after a restart" else ""
        when = "" if applies == "now" else f"  (applies {applies}{how})"
        values = f"{_short_value(change['old'])} -> {_short_value(change['new'])}"
        print(f"{clean(change['key'])}: {values}{when}")


def _file(instance: Instance) -> str:
    there = "" if instance.config_text is not None else ", which does not exist"
    return f"{clean(str(instance.config))}{there}"


def _short_value(value: object) -> str:
    return "not set" if value is None else short(json.dumps(value, ensure_ascii=False))
