"""`clew verify`: replay the ledger and check it."""

from __future__ import annotations

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import print_json, print_lines
from clew_daemon.reading.sanitize import clean, counted
from clew_shared.exit_codes import ExitCode


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
        what = f": {counted(report['events'], 'event')} of {counted(report['goals'], 'goal')}"
        print_lines([[("ok", "green"), (what, "")]])
    else:
        where = "" if fault["seq"] is None else f" at event {fault['seq']}"
        of = "" if not fault["goal"] else f" of {fault['goal']}"
        print_lines([[("error", "bold red"), (clean(f"{where}{of}: {fault['message']}"), "")]])
    if not report["ok"]:
        raise click.exceptions.Exit(ExitCode.FAILED)
