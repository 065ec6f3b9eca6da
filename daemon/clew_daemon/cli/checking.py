"""Is all as it should be: `verify` the ledger, show or check the `config`, ask the `doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.errors import EXIT_FAILED, CliError

if TYPE_CHECKING:
    from clew_daemon.cli.findings import Finding
    from clew_daemon.cli.where import Where
    from clew_shared.settings import Loaded

_FINDING_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@arguments.as_json
@click.pass_obj
def verify(where: Where, as_json: bool) -> None:
    """Replay the ledger and check it; exit 1 with the first fault, if there is one."""
    from clew_daemon.cli.output import print_json, print_lines
    from clew_daemon.cli.printable import clean
    from clew_daemon.cli.replay import checked

    report = checked(where.ledger, where.places.state)
    if as_json:
        print_json(report)
    elif (fault := report["fault"]) is None:
        print_lines(
            [[("ok", "green"), (f": {report['events']} events of {report['goals']} goals", "")]]
        )
    else:
        at = "" if fault["seq"] is None else f" at event {fault['seq']}"
        of = "" if not fault["goal"] else f" of {fault['goal']}"
        print_lines([[("fault", "bold red"), (clean(f"{at}{of}: {fault['message']}"), "")]])
    if not report["ok"]:
        raise click.exceptions.Exit(EXIT_FAILED)


@click.command()
@click.option(
    "--check",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check this file, and tell all its faults.",
)
@arguments.as_json
@click.pass_obj
def config(where: Where, check: Path | None, as_json: bool) -> None:
    """Show the config that is in force, and where each value comes from."""
    from clew_daemon.cli.output import print_json
    from clew_shared.settings import SettingsError, flatten, load

    try:
        loaded = where.loaded if check is None else load(_text(check), {}, str(check))
    except SettingsError as error:
        if not as_json:
            raise CliError(f"{len(error.faults)} to mend:\n{error}") from None
        print_json({"faults": [{"place": f.place, "message": f.message} for f in error.faults]})
        raise click.exceptions.Exit(EXIT_FAILED) from None
    if as_json:
        values = flatten(loaded.settings).items()
        keys = {key: {"value": value, "source": loaded.sources.get(key)} for key, value in values}
        print_json({"file": str(check or where.config), "faults": [], "keys": keys})
    elif check is not None:
        print(f"{check}: no faults")
    else:
        _show_config(loaded)


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
    """Check the setup and suggest fixes; exit 1 if anything fails."""
    from clew_daemon.cli.output import print_json

    if workspace is None:
        from clew_daemon.cli.doctor import examine

        findings = examine(where)
    else:
        from clew_daemon.cli.doctor_workspace import examine_workspace

        findings = examine_workspace(where, workspace)
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        print_json({"ok": not failed, "checks": [finding.as_dict() for finding in findings]})
    else:
        _show_findings(findings)
    if failed:
        raise click.exceptions.Exit(EXIT_FAILED)


def _show_config(loaded: Loaded) -> None:
    from clew_daemon.cli.output import Line, columns, print_lines
    from clew_daemon.cli.printable import short
    from clew_shared.settings import flatten

    rows: list[Line] = []
    for key, value in flatten(loaded.settings).items():
        source = loaded.sources.get(key, "default")
        style = "dim" if source == "default" else ""
        rows.append([(key, ""), (short(_toml(value), 60), style or "bold"), (short(source), style)])
    print_lines(columns(rows))


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
