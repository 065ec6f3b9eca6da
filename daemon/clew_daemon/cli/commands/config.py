"""`clew config` and `clew reload`: the config in effect, errors in a config file, and what a reload changed."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from clew_daemon.cli import parameters
from clew_daemon.config import configfile
from clew_daemon.config.profiles import in_effect
from clew_daemon.control.requests import ReloadRequest
from clew_daemon.host.units import DAEMON_UNIT, HERALD_UNIT, WEB_UNIT
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, show
from clew_daemon.reading.sanitize import clean, counted, short
from clew_shared.config.faults import SettingsError, dotted
from clew_shared.config.places import places
from clew_shared.config.settings import Loaded, flatten, load

FILE = click.Path(path_type=Path)
Sourced = tuple[object, str | None]
"""A value, and where it comes from; None for a default."""


@click.command()
@click.option("--check", type=FILE, metavar="FILE", help="Name all errors in this file.")
@parameters.as_json
@click.pass_obj
def config(instance: Instance, check: Path | None, as_json: bool) -> None:
    """Show the config in effect, and where each value comes from."""
    try:
        loaded = instance.loaded if check is None else load(_text(check), {}, str(check))
    except SettingsError as error:
        if not as_json:
            raise CliError(f"{counted(len(error.faults), 'config error')}:\n{error}") from None
        faults = [{"place": f.place, "message": f.message} for f in error.faults]
        show({"faults": faults}, (), as_json=True, failed=True)
        return
    values = _effective(instance, loaded)
    lines: list[Line] = [[(f"{check}: no errors", "")]]
    lines += [[(clean(sentence), "yellow")] for sentence in loaded.outdated]
    if check is None:
        head: Line = [(f"# the file: {_file(instance)}", "dim")]
        outdated: list[Line] = [[(f"# {clean(text)}", "yellow")] for text in loaded.outdated]
        lines = [head, *outdated, *(_value_line(key, one) for key, one in values.items())]
    keys = {key: {"value": value, "source": source} for key, (value, source) in values.items()}
    view = {"file": str(check or instance.config), "faults": [], "keys": keys}
    show(view, lines, as_json=as_json)


@click.command()
@click.pass_obj
def reload(instance: Instance) -> None:
    """Read the config again, as SIGHUP does; show what changed, or why it was rejected."""
    changes = send(instance.socket, ReloadRequest())["changes"]
    if not changes:
        print(f"nothing changed in {_file(instance)}")
    sources: Mapping[str, str] = {}
    with suppress(SettingsError, CliError):  # changed again meanwhile
        sources = instance.loaded.sources
    for change in changes:
        key, old, applies = change["key"], change["old"], change["applies"]
        if old is None and sources.get(key) == "default":
            continue  # that a new agent brings with it
        applies += _of_what(key) if applies == "after a restart" else ""
        when = "" if applies == "now" else f"  (applies {applies})"
        print(f"{clean(key)}: {_short_value(old)} -> {_short_value(change['new'])}{when}")


def _file(instance: Instance) -> str:
    there = "" if instance.config_text is not None else ", which does not exist"
    return f"{clean(str(instance.config))}{there}"


def _of_what(key: str) -> str:
    """Return what must be restarted for a key, and how."""
    views = {"notify": HERALD_UNIT, "herald": HERALD_UNIT, "web": WEB_UNIT}
    unit = views.get(key.partition(".")[0], DAEMON_UNIT)
    what = "the daemon" if unit is DAEMON_UNIT else f"clew {unit.command}"
    return f" of {what}: {unit.to_restart}"


def _effective(instance: Instance, loaded: Loaded) -> dict[str, Sourced]:
    """Return values and sources by key, with the paths in use and what profiles set for the agents' models."""
    values = flatten(loaded.settings)
    used = places(instance.env, instance.home, loaded.settings)
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        if value is None and table == "paths":
            values[key] = str(getattr(used, name))
    if values.get("log.file") is None:
        values["log.file"] = str(used.log_file)
    found: dict[str, Sourced] = {key: (one, loaded.sources.get(key)) for key, one in values.items()}
    profiles = {dotted(at): it for at, it in in_effect(loaded.settings).items()}
    return found | {key: (value, f"profile {name}") for key, (value, name) in profiles.items()}


def _value_line(key: str, found: Sourced) -> Line:
    value, source = found
    shown = "unset" if value is None else json.dumps(value, ensure_ascii=False)
    style = "bold" if source not in (None, "default") else "dim"
    return [(key, ""), (f" = {clean(shown)}", style), (f"  # {clean(source or 'default')}", "dim")]


def _short_value(value: object) -> str:
    return "not set" if value is None else short(json.dumps(value, ensure_ascii=False))


def _text(path: Path) -> str:
    try:
        text = configfile.read(path)
    except configfile.ConfigFileError as error:
        raise CliError(str(error)) from None
    if text is None:
        raise CliError(f"no such file: {path}")
    return text
