"""`clew verify`: replay the ledger and check it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.display.output import print_json, print_lines
from clew_daemon.cli.display.sanitize import clean
from clew_daemon.cli.display.units import counted
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance


@click.command()
@parameters.as_json
@click.pass_obj
def verify(instance: Instance, as_json: bool) -> None:
    """Replay the ledger and check it; exit 1 and name the first error, if there is one."""
    from clew_daemon.cli.ledger_check import check_ledger

    report = check_ledger(instance.ledger, instance.places.state)
    if as_json:
        print_json(report)
    elif (fault := report["fault"]) is None:
        found = f": {counted(report['events'], 'event')} of {counted(report['goals'], 'goal')}"
        print_lines([[("ok", "green"), (found, "")]])
    else:
        at = "" if fault["seq"] is None else f" at event {fault['seq']}"
        of = "" if not fault["goal"] else f" of {fault['goal']}"
        print_lines([[("error", "bold red"), (clean(f"{at}{of}: {fault['message']}"), "")]])
    if not report["ok"]:
        raise click.exceptions.Exit(ExitCode.FAILED)
