"""`clew doctor`: facts on this machine, home and agents, one line each, with what to do about what is wrong.

Each check is a function that yields findings, and changes nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.commands.doctor import agents, setup
from clew_daemon.cli.commands.doctor.setup import Finding
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, print_lines, show
from clew_daemon.reading.sanitize import clean, counted

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
    checks = [
        {"name": one.name, "level": one.level, "found": one.found, "mend": one.fix}  # since 0.1
        for one in findings
    ]
    view = {"ok": not failed, "ready_for": ready, "checks": checks}
    show(view, [[(summary(findings, ready), "bold")]], as_json=as_json, failed=failed)


def examine(instance: Instance) -> Iterator[Finding]:
    """Run all checks, in the order in which one problem causes the next; one that raises CliError has failed."""
    for check in (*setup.CHECKS, agents.agents):
        try:
            yield from check(instance)
        except CliError as error:
            yield Finding(check.__name__, "fail", error.message)


def ready_for(findings: Sequence[Finding]) -> list[str]:
    """Return the kinds of work for which nothing is missing: `runbooks`, and agents by their names."""
    if any(one.level == "fail" and not one.agent for one in findings):
        return []
    agents = dict.fromkeys(one.agent for one in findings if one.agent)
    lacking = {one.agent for one in findings if one.level != "ok"}
    return ["runbooks", *(name for name in agents if name not in lacking)]


def summary(findings: Sequence[Finding], ready: Sequence[str]) -> str:
    """Return the last line, as in `ready for runbooks and codex; 2 warnings`."""
    *most, last = ready or [""]
    what = f"ready for {', '.join(most)} and {last}" if most else f"ready for {last}"
    counts = Counter(finding.level for finding in findings)
    wrong = [counted(counts["fail"], "failure")] if counts["fail"] else []
    wrong += [counted(counts["warn"], "warning")] if counts["warn"] else []
    return clean("; ".join([what if ready else "not ready", *wrong]))


def _finding_lines(finding: Finding) -> list[Line]:
    text = f"{finding.name}: {clean(finding.found)}"
    head: Line = [(f"{finding.level:<5}", STYLES[finding.level]), (text, "")]
    return [head, *([(f"      {clean(line)}", "dim")] for line in finding.fix.splitlines())]
