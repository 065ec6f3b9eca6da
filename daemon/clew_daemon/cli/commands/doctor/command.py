"""`clew doctor`: runs the checks in the order in which one problem causes the next, and prints what they found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.commands.doctor.findings import OF_AGENT, numbered
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import Line, print_json, print_lines
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clew_daemon.cli.commands.doctor.findings import Finding
    from clew_daemon.reading.instance import Instance

STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "bold red"}


@click.command()
@parameters.as_json
@click.pass_obj
def doctor(instance: Instance, as_json: bool) -> None:
    """Check the setup: what works, what does not, and how to fix it; exit 1 if anything fails."""
    findings = []
    for finding in examine(instance):
        findings.append(finding)
        if not as_json:
            print_lines(_finding_lines(finding))
    failed = any(finding.level == "fail" for finding in findings)
    ready = ready_for(findings)
    if as_json:
        checks = [finding.as_dict() for finding in findings]
        print_json({"ok": not failed, "ready_for": ready, "checks": checks})
    else:
        print_lines([[(_summary(findings, ready), "bold")]])
    if failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


def examine(instance: Instance) -> Iterator[Finding]:
    """Run all checks of the host and of this home, one after the other; a check that raises CliError has failed."""
    from clew_daemon.cli.commands.doctor import agents, herald, home, host, systemd
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
    )
    for check in checks:
        try:
            yield from check(instance)
        except CliError as error:
            yield Finding(check.__name__, "fail", error.message)


def ready_for(findings: Sequence[Finding]) -> list[str]:
    """Return the kinds of work for which nothing is missing: `runbooks`, and agents by their names."""
    agents: dict[str, bool] = {}
    for one in findings:
        if one.name.startswith(OF_AGENT):
            name = one.name.removeprefix(OF_AGENT).partition(":")[0]
            agents[name] = agents.get(name, True) and one.level == "ok"
        elif one.level == "fail":
            return []
    return ["runbooks", *(name for name, is_ready in agents.items() if is_ready)]


def _summary(findings: Sequence[Finding], ready: Sequence[str]) -> str:
    """Return the last line: what clew is ready for, and how much is wrong."""
    counts = Counter(finding.level for finding in findings)
    what = "ready for runbooks" if ready else "not ready"
    names = {finding.name for finding in findings}
    coders = [name for name in ready[1:] if f"{OF_AGENT}{name}: login" in names]
    if agents := [name for name in ready[1:] if name not in coders]:
        what += f" and for the agent{'s' if len(agents) > 1 else ''} {', '.join(agents)}"
    if coders:  # their logins were not tried
        what += f"; installed and confined: {', '.join(coders)}"
    wrong = [numbered(counts["fail"], "failure")] if counts["fail"] else []
    wrong += [numbered(counts["warn"], "warning")] if counts["warn"] else []
    return clean("; ".join([what, *wrong]))


def _finding_lines(finding: Finding) -> list[Line]:
    text = f"{finding.name}: {clean(finding.found)}"
    head: Line = [(f"{finding.level:<5}", STYLES[finding.level]), (text, "")]
    return [head, *([(f"      {clean(line)}", "dim")] for line in finding.fix.splitlines())]
