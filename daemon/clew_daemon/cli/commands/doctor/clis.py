"""Checks of coding agents: installed, logged in, confined here, and a proof that they work through clew alone."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor.findings import Finding, Level, in_one_line
from clew_daemon.cli.surroundings import run_program
from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from clew_daemon.cli.commands.agents.abilities import SandboxHold
    from clew_daemon.reading.instance import Instance
    from clew_shared.config.agent_tables import CliAgentSettings, CliName
    from clew_shared.config.tables import Settings

VERSION_S = 30.0


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What the checks of all coding agents share; `env` is the daemon's, with HOME."""

    instance: Instance
    settings: Settings
    env: Mapping[str, str]
    hold: SandboxHold


def coding_agents(
    instance: Instance, settings: Settings, agents: Mapping[str, CliAgentSettings]
) -> Iterator[Finding]:
    """Check each coding agent of the config; one that is only installed is mentioned."""
    from clew_daemon.cli.commands.agents.abilities import SandboxHold
    from clew_daemon.cli.surroundings import executor_env, probe_sandbox

    env = {**executor_env(instance), "HOME": instance.env.get("HOME", "/")}
    if agents:
        report = probe_sandbox()
        hold = SandboxHold(settings.sandbox, None if isinstance(report, str) else report)
        around = _Surroundings(instance, settings, env, hold)
        proved: dict[tuple[Path, tuple[str, ...]], Finding] = {}
        for name, agent in agents.items():
            yield from _agent(around, name, agent, proved)
    yield from _unused(env, instance.env, {agent.cli for agent in agents.values()})


def _agent(
    around: _Surroundings,
    name: str,
    agent: CliAgentSettings,
    proved: dict[tuple[Path, tuple[str, ...]], Finding],
) -> Iterator[Finding]:
    """Check one agent; a program that was proved with the same arguments is not proved again."""
    from clew_daemon.processes.cli_programs import CliProgramError, cli_program

    title = f"agent {name}"
    if fault := around.settings.agents.fault(name, around.instance.config):
        yield Finding(title, "fail", fault)
        return
    try:
        program = cli_program(agent, around.env)
    except CliProgramError as error:
        found, _, fix = str(error).partition("; ")
        yield Finding(title, "fail", found, fix)
        return
    yield _version(title, program, around.env)
    yield _login(f"{title}: login", agent, around.instance)
    confined = _confined(f"{title}: sandbox", agent, around.hold)
    yield confined
    if confined.level == "fail":
        return
    key = (program, agent.args)
    if key not in proved:
        proved[key] = _proof(f"{title}: proof", agent, program, around)
        yield proved[key]


def _version(title: str, program: Path, env: Mapping[str, str]) -> Finding:
    """Ask a program for its version, in an empty home and without this environment."""
    from clew_daemon.cli.surroundings import native_program

    with tempfile.TemporaryDirectory(prefix="clew-doctor-") as home:
        surroundings = {"PATH": env.get("PATH", ""), "HOME": home}
        done = run_program([str(native_program(program)), "--version"], VERSION_S, surroundings)
    fix = f"start {program} in a shell to see what is wrong with it"
    if isinstance(done, str):
        return Finding(title, "fail", in_one_line(done), fix)
    if done.returncode:
        why = in_one_line(done.stderr or done.stdout, last=True) or f"exit code {done.returncode}"
        return Finding(title, "fail", f"{program} --version: {why}", fix)
    return Finding(title, "ok", f"{in_one_line(done.stdout) or 'no version'} ({program})")


def _login(title: str, agent: CliAgentSettings, instance: Instance) -> Finding:
    """Check the key and the login files: that they are there, and that no one else can read them."""
    from clew_daemon.host.keys import Keys
    from clew_shared.text.words import log_in

    if fault := Keys(instance.env, instance.config.parent).fault(agent):
        found, _, fix = fault.partition("; ")
        return Finding(title, "warn", found, fix)
    named = [f"${agent.api_key_env}"] if agent.api_key_env else []
    named += [agent.api_key_file] if agent.api_key_file else []
    named += agent.credentials
    if named:
        is_there = f"{', '.join(named)} is there; whether it works only a goal shows"
        return Finding(title, "ok", is_there)
    if agent.base_url:
        return Finding(title, "ok", f"none configured for {agent.base_url}")
    fix = f"{log_in(agent.cli)}; then name its login files in `credentials`: docs/agents/{agent.cli}.md"
    return Finding(title, "warn", "it has neither a key nor a login file", fix)


def _confined(title: str, agent: CliAgentSettings, hold: SandboxHold) -> Finding:
    """Check whether this kernel, and the config, confine a coding agent."""
    from clew_daemon.processes.cells import endpoint_port

    fix = '[sandbox] mode = "enforce", on a kernel with Landlock, confines it'
    if hold.stops_workers:
        return Finding(title, "fail", hold.stops_workers, fix)
    if hold.paths != "enforced":
        return Finding(title, "warn", "its own tools can write files and start programs here", fix)
    if hold.ports != "enforced":
        found = "it writes and starts nothing of its own, but reaches any port"
        return Finding(title, "warn", found, "Linux 6.7 and later limit it to its endpoint's port")
    port = endpoint_port(agent.base_url)
    return Finding(title, "ok", f"it writes and starts nothing of its own; TCP to port {port} only")


def _proof(title: str, agent: CliAgentSettings, program: Path, around: _Surroundings) -> Finding:
    from clew_daemon.bootstrap import NURSERY_ENV
    from clew_daemon.cli.commands.doctor.proof.goal import prove

    env = {**around.instance.env, "PATH": around.env.get("PATH", "")}
    clean = {name: env[name] for name in NURSERY_ENV if name in env}
    try:
        proof = prove(agent, program, around.settings.sandbox, clean)
    except (CliError, OSError) as error:
        why = error.message if isinstance(error, CliError) else str(error)
        return Finding(title, "fail", f"no test goal could be run: {in_one_line(why, last=True)}")
    level: Level = "ok" if proof.ok else "fail"
    fix = (
        ""
        if proof.ok
        else f"docs/agents/{agent.cli}.md: what it needs, and the version that was tested"
    )
    return Finding(title, level, proof.found, fix)


def _unused(env: Mapping[str, str], shell: Mapping[str, str], used: set[str]) -> Iterator[Finding]:
    """Mention coding agents that are installed and not in the config; `shell` is the environment of the caller."""
    from clew_daemon.processes.cli_programs import INSTALLED_BY

    for cli in INSTALLED_BY:
        if cli in used:
            continue
        fix = f'to use it: [agents.{cli}] with cli = "{cli}" in the config (docs/agents/{cli}.md)'
        if program := _found(cli, env):
            yield Finding(cli, "ok", f"installed ({program}), not configured", fix)
        elif program := _found(cli, {**env, "PATH": shell.get("PATH", "")}):
            where = "on the PATH of this shell and not on that of the daemon"
            yield Finding(cli, "note", f"installed ({program}), not configured, {where}", fix)


def _found(cli: CliName, env: Mapping[str, str]) -> Path | None:
    """Return where a coding agent is installed, None where it is not found."""
    from clew_daemon.processes.cli_programs import CliProgramError, cli_program
    from clew_shared.config.agent_tables import CliAgentSettings

    try:
        return cli_program(CliAgentSettings(cli=cli), env)
    except CliProgramError:
        return None
