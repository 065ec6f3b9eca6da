"""`clew doctor`: runs the checks in the order in which one problem causes the next, and prints what they found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.display.output import Line, print_json, print_lines
from clew_daemon.cli.display.sanitize import clean
from clew_daemon.cli.errors import CliError
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clew_daemon.cli.commands.doctor.findings import Finding
    from clew_daemon.cli.instance import Instance

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Try the developer tools of this folder in the sandbox of a goal.",
)
@parameters.as_json
@click.pass_obj
def doctor(instance: Instance, workspace: Path | None, as_json: bool) -> None:
    """Check the setup: what works, what does not, and how to fix it; exit 1 if anything fails."""
    findings = []
    for finding in examine(instance) if workspace is None else _of_workspace(instance, workspace):
        findings.append(finding)
        if not as_json:
            print_lines(_finding_lines(finding))
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        print_json({"ok": not failed, "checks": [finding.as_dict() for finding in findings]})
    if failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _of_workspace(instance: Instance, workspace: Path) -> Iterable[Finding]:
    from clew_daemon.cli.commands.doctor.workspace import examine_workspace

    return examine_workspace(instance, workspace)


def examine(instance: Instance) -> Iterator[Finding]:
    """Run all checks of the host and of this home, one after the other; a check that raises CliError has failed."""
    from clew_daemon.cli.commands.doctor import agents, herald, home, host, models, systemd
    from clew_daemon.cli.commands.doctor.findings import Finding

    checks = (
        host.python,
        home.config,
        home.folders,
        home.ledger,
        home.snapshots,
        home.daemon,
        home.inbox,
        herald.herald,
        host.sandbox,
        host.cgroup,
        host.inotify,
        host.git,
        systemd.systemd,
        agents.agents,
        models.models,
    )
    for check in checks:
        try:
            yield from check(instance)
        except CliError as error:
            yield Finding(check.__name__, "fail", error.message)


def _finding_lines(finding: Finding) -> list[Line]:
    text = f"{finding.name}: {clean(finding.found)}"
    head: Line = [(f"{finding.level:<5}", STYLES[finding.level]), (text, "")]
    return [head, *([(f"      {clean(line)}", "dim")] for line in finding.fix.splitlines())]
