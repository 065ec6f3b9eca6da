"""`clew config` and `clew reload`: the config in effect, errors in a config file, and what a reload changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.control.requests import ReloadRequest
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import Line, print_json, print_lines
from clew_daemon.reading.sanitize import clean, counted, short
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_shared.config.settings import Loaded


@click.command()
@click.option(
    "--check",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check this file, and name all errors in it.",
)
@parameters.as_json
@click.pass_obj
def config(instance: Instance, check: Path | None, as_json: bool) -> None:
    """Show the config in effect, and where each value comes from."""
    from clew_shared.config.faults import SettingsError
    from clew_shared.config.settings import load

    try:
        loaded = instance.loaded if check is None else load(_text(check), {}, str(check))
    except SettingsError as error:
        if not as_json:
            raise CliError(f"{counted(len(error.faults), 'config error')}:\n{error}") from None
        print_json({"faults": [{"place": f.place, "message": f.message} for f in error.faults]})
        raise click.exceptions.Exit(ExitCode.FAILED) from None
    if as_json:
        found = _effective(instance, loaded).items()
        keys = {key: {"value": value, "source": source} for key, (value, source) in found}
        print_json({"file": str(check or instance.config), "faults": [], "keys": keys})
    elif check is not None:
        print(f"{check}: no errors")
        print_lines([(clean(sentence), "yellow")] for sentence in loaded.outdated)
    else:
        there = "" if instance.config_text is not None else ", which does not exist"
        head: Line = [(f"# the file: {clean(str(instance.config))}{there}", "dim")]
        outdated: list[Line] = [[(f"# {clean(text)}", "yellow")] for text in loaded.outdated]
        print_lines([head, *outdated, *_config_lines(_effective(instance, loaded))])


@click.command()
@click.pass_obj
def reload(instance: Instance) -> None:
    """Read the config again, as SIGHUP does; show what changed, or why it was rejected."""
    changes = send(instance.socket, ReloadRequest())["changes"]
    if not changes:
        there = "" if instance.config_text is not None else ", which does not exist"
        print(f"nothing changed in {clean(str(instance.config))}{there}")
    for change in _as_written(instance, changes):
        applies = change["applies"]
        applies += _of_what(change["key"]) if applies == "after a restart" else ""
        when = "" if applies == "now" else f"  (applies {applies})"
        old, new = _short_value(change["old"]), _short_value(change["new"])
        print(f"{clean(change['key'])}: {old} -> {new}{when}")


def _as_written(instance: Instance, changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes without the defaults that a new agent brings with it."""
    from clew_shared.config.faults import SettingsError

    sources: Mapping[str, str] = {}
    with suppress(SettingsError, CliError):  # changed again meanwhile
        sources = instance.loaded.sources
    return [
        one for one in changes if one["old"] is not None or sources.get(one["key"]) != "default"
    ]


def _of_what(key: str) -> str:
    """Return what must be restarted for a key, and how."""
    from clew_daemon.host.unit_file import DAEMON_UNIT, HERALD_UNIT, WEB_UNIT

    views = {"notify": HERALD_UNIT, "herald": HERALD_UNIT, "web": WEB_UNIT}
    unit = views.get(key.partition(".")[0], DAEMON_UNIT)
    what = "the daemon" if unit is DAEMON_UNIT else f"clew {unit.command}"
    return f" of {what}: {unit.to_restart}"


def _effective(instance: Instance, loaded: Loaded) -> dict[str, tuple[Any, str | None]]:
    """Return values and sources by key, with the paths in use and what profiles set for the agents' models."""
    from clew_daemon.config.profiles import in_effect
    from clew_shared.config.faults import dotted
    from clew_shared.config.places import places
    from clew_shared.config.settings import flatten

    values = flatten(loaded.settings)
    used = places(instance.env, instance.home, loaded.settings)
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        if value is None and table == "paths":
            values[key] = str(getattr(used, name))
    if values.get("log.file") is None:
        values["log.file"] = str(used.log_file)
    found = {key: (value, loaded.sources.get(key)) for key, value in values.items()}
    profiles = {dotted(at): it for at, it in in_effect(loaded.settings).items()}
    return found | {key: (value, f"profile {name}") for key, (value, name) in profiles.items()}


def _config_lines(values: dict[str, tuple[Any, str | None]]) -> list[Line]:
    lines: list[Line] = []
    for key, (value, source) in values.items():
        shown = "unset" if value is None else json.dumps(value, ensure_ascii=False)
        style = "bold" if source not in (None, "default") else "dim"
        of = clean(source or "default")
        lines.append([(key, ""), (f" = {clean(shown)}", style), (f"  # {of}", "dim")])
    return lines


def _short_value(value: object) -> str:
    return "not set" if value is None else short(json.dumps(value, ensure_ascii=False))


def _text(path: Path) -> str:
    from clew_daemon.config import configfile

    try:
        text = configfile.read(path)
    except configfile.ConfigFileError as error:
        raise CliError(str(error)) from None
    if text is None:
        raise CliError(f"no such file: {path}")
    return text
