"""`clew doctor`: facts on this machine, home and agents, with what to do; each check yields some and changes none."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx2

from clew_daemon.cli import parameters
from clew_daemon.cli.commands import facts
from clew_daemon.cli.commands.facts import Finding, probe_sandbox, run_program, settings_of
from clew_daemon.host.keys import Keys
from clew_daemon.processes.cell_rules import cli_program, resolved, unusable
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, print_lines, show
from clew_daemon.reading.sanitize import clean
from clew_shared.config.agent_tables import CliAgentSettings, CommandAgentSettings, LlmAgentSettings
from clew_shared.config.tables import SandboxSettings, Settings
from clew_shared.text.redact import redact
from clew_shared.text.words import counted, log_in
from clew_shared.wire.nursery import SandboxReport

STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "bold red"}
LLM_S, VERSION_S = 3.0, 30.0
LINE_CHARS = 300
NOT_FOUND = "is not found on the PATH of the daemon"
PORTS_ABI = 4  # The version of Landlock's ABI from which on a process can be limited to TCP ports (Linux 6.7)


@parameters.command(parameters.as_json)
def doctor(instance: Instance, as_json: bool) -> None:
    """Check the setup: what works, what does not, and how to fix it; exit 1 if anything fails."""
    findings = []
    for finding in examine(instance):
        findings.append(finding)
        if not as_json:
            text = f"{finding.name}: {clean(finding.found)}"
            head: Line = [(f"{finding.level:<5}", STYLES[finding.level]), (text, "")]
            fix = [f"      {clean(line)}" for line in finding.fix.splitlines()]
            print_lines([head, *([(line, "dim")] for line in fix)])
    failed = any(finding.level == "fail" for finding in findings)
    ready = ready_for(findings)
    checks = [{"name": f.name, "level": f.level, "found": f.found, "mend": f.fix} for f in findings]
    view = {"ok": not failed, "ready_for": ready, "checks": checks}
    show(view, [[(summary(findings, ready), "bold")]], as_json=as_json, failed=failed)


def examine(instance: Instance) -> Iterator[Finding]:
    """Run all checks, in the order in which one problem causes the next; one that raises CliError has failed."""
    for check in (*facts.CHECKS, agents):
        try:
            yield from check(instance)
        except CliError as error:
            yield Finding(check.__name__, "fail", error.message)


def ready_for(findings: Sequence[Finding]) -> list[str]:
    """Return the kinds of work for which nothing is missing: `runbooks`, and agents by their names."""
    if any(one.level == "fail" and not one.agent for one in findings):
        return []
    named = dict.fromkeys(one.agent for one in findings if one.agent)
    lacking = {one.agent for one in findings if one.level != "ok"}
    return ["runbooks", *(name for name in named if name not in lacking)]


def summary(findings: Sequence[Finding], ready: Sequence[str]) -> str:
    """Return the last line, as in `ready for runbooks and codex; 2 warnings`."""
    *most, last = ready or [""]
    what = f"ready for {', '.join(most)} and {last}" if most else f"ready for {last}"
    counts = Counter(finding.level for finding in findings)
    wrong = [counted(counts["fail"], "failure")] if counts["fail"] else []
    wrong += [counted(counts["warn"], "warning")] if counts["warn"] else []
    return clean("; ".join([what if ready else "not ready", *wrong]))


def agents(instance: Instance) -> Iterator[Finding]:
    """Check each agent of the config; what only goals that name an agent need is a warning, and no failure."""
    settings = settings_of(instance)
    executors = ask(instance.socket, "executor_env")
    env = {**(executors or instance.env), "HOME": instance.env.get("HOME", "/")}
    for name, agent in sorted(settings.agents.named.items()):
        title, found = f"agent {name}", list[Finding]()
        if isinstance(agent, LlmAgentSettings):
            found = [_endpoint(title, agent, instance)]
        elif isinstance(agent, CommandAgentSettings):
            program = resolved(agent.command, env)[0]
            wrong = unusable(Path(program)) if program.startswith("/") else NOT_FOUND
            if "/" in program and not program.startswith("/"):
                wrong = "is a relative path"
            found = [Finding(title, "ok", _line(" ".join(agent.command)))]
            if wrong:
                fix = f"correct [agents.{name}] command: an absolute path of a program"
                found = [Finding(title, "fail", f"{program} {wrong}", fix)]
        elif isinstance(agent, CliAgentSettings):
            found = list(_coder(title, agent, instance, settings, env))
        for one in found:
            is_spared = one.level == "fail" and name != settings.agents.default_name
            yield replace(one, level="warn" if is_spared else one.level, agent=name)


def _endpoint(name: str, agent: LlmAgentSettings, instance: Instance) -> Finding:
    """Ask the endpoint for its models; any HTTP answer proves that a server is there."""
    keys = Keys(instance.env, instance.config.parent)
    if fault := keys.fault(agent):
        return Finding(name, "fail", f"no key: {fault}", "set it")
    url, key = f"{agent.base_url}/models", keys.of(agent)
    own = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        # without proxies and redirects: either would be told the key
        with httpx2.stream("GET", url, headers=own, timeout=LLM_S, trust_env=False) as answer:
            raw = next(answer.iter_bytes(1 << 20), b"")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return Finding(name, "fail", redact(f"{url}: {error}"), "start its server, or set base_url")
    if not answer.is_success:
        fix = "check the key" if answer.status_code in (401, 403) else "check base_url"
        return Finding(name, "fail", redact(f"{url} answers with status {answer.status_code}"), fix)
    models: list[str] = []
    with suppress(ValueError, KeyError, TypeError):  # it need not answer in this form
        models = [str(model["id"]) for model in json.loads(raw)["data"]]
    if models and agent.model and agent.model not in models:
        found = redact(f"{url} has no model {agent.model!r}")
        return Finding(name, "warn", found, f"available: {redact(', '.join(models[:8]))}")
    return Finding(name, "ok", redact(f"{agent.model or 'no model set'} at {agent.base_url}"))


def _coder(
    title: str,
    agent: CliAgentSettings,
    instance: Instance,
    settings: Settings,
    env: Mapping[str, str],
) -> Iterator[Finding]:
    try:
        program = cli_program(agent, env)
    except SpawnError as error:
        found, _, fix = str(error).partition("; ")
        yield Finding(title, "fail", found, fix)
        return
    with tempfile.TemporaryDirectory(prefix="clew-doctor-") as home:
        surroundings = {"PATH": env.get("PATH", ""), "HOME": home}
        done = run_program([str(program), "--version"], VERSION_S, surroundings)
    fix = f"start {program} in a shell to see what is wrong with it"
    if isinstance(done, str):
        yield Finding(title, "fail", _line(done), fix)
    elif done.returncode:
        why = _line(done.stderr or done.stdout) or f"exit code {done.returncode}"
        yield Finding(title, "fail", f"{program} --version: {why}", fix)
    else:
        yield Finding(title, "ok", f"{_line(done.stdout) or 'no version'} ({program})")
    login = f"{title}: login"  # whether keys and login files are there, for this user alone
    if fault := Keys(instance.env, instance.config.parent).fault(agent):
        found, _, fix = fault.partition("; ")
        yield Finding(login, "warn", found, fix)
    elif agent.api_key_env or agent.api_key_file or agent.credentials:
        yield Finding(login, "ok", "it is there; whether it works only a goal shows")
    elif agent.base_url:
        yield Finding(login, "ok", f"none configured for {agent.base_url}")
    else:
        fix = f"{log_in(agent.cli)}; then name its login files in `credentials`: docs/agents/{agent.cli}.md"
        yield Finding(login, "warn", "it has neither a key nor a login file", fix)
    report = probe_sandbox()
    probed = None if isinstance(report, str) else report
    yield confined(f"{title}: sandbox", settings.sandbox, probed)


def confined(name: str, table: SandboxSettings, report: SandboxReport | None) -> Finding:
    """Return whether the sandbox holds a coding agent here; `report` is that of the probe, None where it failed."""
    abi = report.landlock_abi if report else 0
    fix = '[sandbox] mode = "enforce" on a kernel with Landlock'
    if table.mode == "enforce" and report:
        if not abi:
            return Finding(name, "fail", "no worker starts: this kernel has no Landlock", fix)
        if not table.network and report.network_off == "none":
            return Finding(name, "fail", "network = false cannot be enforced here", fix)
    if table.mode == "off" or not abi:
        found = "its own tools can write files and start programs here"
        return Finding(name, "warn", found, fix)
    if abi < PORTS_ABI:
        found = "it writes and starts nothing of its own, but reaches any port"
        return Finding(name, "warn", found, "Linux 6.7 and later limit it to its endpoint's port")
    return Finding(name, "ok", "it writes and starts nothing of its own")


def _line(text: str) -> str:
    return next((line.strip()[:LINE_CHARS] for line in text.splitlines() if line.strip()), "")
