"""`clew verify`: replay the ledger and check it, with the snapshots that it names."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.display.output import print_json, print_lines
from clew_daemon.cli.display.sanitize import clean, counted
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.cli.display.output import Line
    from clew_daemon.cli.instance import Instance

NAMED_MAX = 5


@click.command()
@parameters.as_json
@click.pass_obj
def verify(instance: Instance, as_json: bool) -> None:
    """Replay the ledger and check it and the snapshots; exit 1 and name the first error, if there is one."""
    report = _checked(instance)
    if as_json:
        print_json(report)
    elif (fault := report["fault"]) is None:
        found = f": {counted(report['events'], 'event')} of {counted(report['goals'], 'goal')}"
        print_lines([[("ok", "green"), (found, "")], *_snapshot_lines(report["snapshots"])])
    else:
        at = "" if fault["seq"] is None else f" at event {fault['seq']}"
        of = "" if not fault["goal"] else f" of {fault['goal']}"
        print_lines([[("error", "bold red"), (clean(f"{at}{of}: {fault['message']}"), "")]])
    if not report["ok"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _checked(instance: Instance) -> dict[str, Any]:
    """Return the report on the ledger, and on the snapshots where the ledger is whole."""
    from clew_daemon.cli.ledger_check import check_ledger
    from clew_daemon.cli.snapshot_check import SnapshotCheck, check_snapshots

    report = check_ledger(instance.ledger, instance.places.state)
    found = check_snapshots(instance) if report["ok"] else SnapshotCheck()
    if found.fault:
        report |= {"ok": False, "fault": asdict(found.fault)}
    return report | {"snapshots": found.as_dict()}


def _snapshot_lines(found: Mapping[str, Any]) -> list[Line]:
    """Return what was found of the snapshots, where there are any."""
    lines: list[Line] = []
    if found["goals"]:
        lines.append(
            [("ok", "green"), (f": the snapshots of {counted(found['goals'], 'goal')}", "")]
        )
    if found["missing"]:
        what = f": the snapshots of {_named(found['missing'])} were left in another home"
        lines.append([("missing", "yellow"), (what, "")])
    if found["unchecked"]:
        what = f": the snapshots of {_named(found['unchecked'])}: {found['why']}"
        lines.append([("not checked", "yellow"), (clean(what), "")])
    return lines


def _named(goals: list[str]) -> str:
    more = f" and {len(goals) - NAMED_MAX} more" if len(goals) > NAMED_MAX else ""
    return clean(", ".join(goals[:NAMED_MAX]) + more)
