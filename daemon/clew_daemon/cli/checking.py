"""`verify` the ledger, show or check the `config`, ask the `doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.errors import CliError
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.cli.doctor.findings import Finding
    from clew_daemon.cli.where import Where
    from clew_shared.config.settings import Loaded

_FINDING_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@arguments.as_json
@click.pass_obj
def verify(where: Where, as_json: bool) -> None:
    """Replay the ledger and check it; exit 1 and name the first error, if there is one."""
    from clew_daemon.cli.output import counted_as, print_json, print_lines
    from clew_daemon.cli.printable import clean
    from clew_daemon.cli.replay import checked

    report = checked(where.ledger, where.places.state)
    if as_json:
        print_json(report)
    elif (fault := report["fault"]) is None:
        counted = (
            f"{counted_as(report['events'], 'event')} of {counted_as(report['goals'], 'goal')}"
        )
        print_lines([[("ok", "green"), (f": {counted}", "")]])
    else:
        at = "" if fault["seq"] is None else f" at event {fault['seq']}"
        of = "" if not fault["goal"] else f" of {fault['goal']}"
        print_lines([[("error", "bold red"), (clean(f"{at}{of}: {fault['message']}"), "")]])
    if not report["ok"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


@click.command()
@click.option(
    "--check",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check this file, and name all errors in it.",
)
@arguments.as_json
@click.pass_obj
def config(where: Where, check: Path | None, as_json: bool) -> None:
    """Show the config in effect, and where each value comes from."""
    from clew_daemon.cli.output import counted_as, print_json
    from clew_shared.config.settings import SettingsError, load

    try:
        loaded = where.loaded if check is None else load(_text(check), {}, str(check))
    except SettingsError as error:
        if not as_json:
            count = counted_as(len(error.faults), "config error")
            raise CliError(f"{count}:\n{error}") from None
        print_json({"faults": [{"place": f.place, "message": f.message} for f in error.faults]})
        raise click.exceptions.Exit(ExitCode.FAILED) from None
    if as_json:
        values = effective(where, loaded).items()
        keys = {key: {"value": value, "source": loaded.sources.get(key)} for key, value in values}
        print_json({"file": str(check or where.config), "faults": [], "keys": keys})
    elif check is not None:
        print(f"{check}: no errors")
    else:
        _show_config(effective(where, loaded), loaded)


@click.command()
@click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Try the developer tools of this folder in the sandbox of a goal.",
)
@arguments.as_json
@click.pass_obj
def doctor(where: Where, workspace: Path | None, as_json: bool) -> None:
    """Check the setup: what works, what does not, and how to fix it; exit 1 if anything fails."""
    from clew_daemon.cli.output import print_json

    if workspace is None:
        from clew_daemon.cli.doctor.host import examine

        findings = examine(where)
    else:
        from clew_daemon.cli.doctor.workspace import examine_workspace

        findings = examine_workspace(where, workspace)
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        print_json({"ok": not failed, "checks": [finding.as_dict() for finding in findings]})
    else:
        _show_findings(findings)
    if failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


def effective(where: Where, loaded: Loaded) -> dict[str, Any]:
    """Return every key's value, with the path that is used where the config leaves it open."""
    from clew_shared.config.settings import flatten, places

    values = flatten(loaded.settings)
    used = places(where.env, where.home, loaded.settings)
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        if value is None and table == "paths":
            values[key] = str(getattr(used, name))
    if values.get("log.file") is None:
        values["log.file"] = str(used.log_file)
    return values


def _show_config(values: dict[str, Any], loaded: Loaded) -> None:
    from clew_daemon.cli.output import Line, print_lines
    from clew_daemon.cli.printable import clean

    lines: list[Line] = []
    for key, value in values.items():
        source = loaded.sources.get(key, "default")
        style = "dim" if source == "default" else "bold"
        shown = f" = {clean(_toml(value))}"
        lines.append([(key, ""), (shown, style), (f"  # {clean(source)}", "dim")])
    print_lines(lines)


def _show_findings(findings: list[Finding]) -> None:
    from clew_daemon.cli.output import Line, print_lines
    from clew_daemon.cli.printable import clean

    lines: list[Line] = []
    for finding in findings:
        style = _FINDING_STYLE[finding.level]
        lines.append(
            [(f"{finding.level:<5}", style), (f"{finding.name}: {clean(finding.found)}", "")]
        )
        lines += [[(f"      {clean(line)}", "dim")] for line in finding.mend.splitlines()]
    print_lines(lines)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CliError(f"{path} is not UTF-8 (at byte {error.start}): save it as UTF-8") from None


def _toml(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)
