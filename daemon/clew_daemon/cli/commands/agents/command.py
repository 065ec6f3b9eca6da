"""`clew agents`: each agent of the config and of clew itself, and what it may do on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.output import Line, columns, print_json, print_lines
from clew_daemon.reading.sanitize import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.cli.commands.agents.abilities import SandboxHold
    from clew_daemon.reading.instance import Instance
    from clew_shared.config.agent_tables import Agent
    from clew_shared.config.tables import Settings

CLI_NAMES = {"codex": "Codex", "claude": "Claude Code", "opencode": "opencode"}
LABELS = {
    "refused_actions": "refused actions",
    "writes_files": "writes files",
    "starts_programs": "starts programs",
    "network": "network",
    "keys": "keys",
    "own_tools": "own tools",
}
HELD_STYLE = {"enforced": "green", "advisory": "yellow", "open": "", "unknown": "yellow"}


@click.command()
@parameters.as_json
@click.pass_obj
def agents(instance: Instance, as_json: bool) -> None:
    """Show all agents, and what each may do here: what is enforced, and what is not."""
    from clew_daemon.cli.commands.agents.abilities import SandboxHold
    from clew_daemon.cli.surroundings import executor_env, probe_sandbox

    settings = instance.settings_for_display
    report = probe_sandbox()
    hold = SandboxHold(settings.sandbox, None if isinstance(report, str) else report)
    sandbox = _sandbox_view(hold, report if isinstance(report, str) else "")
    env = {**executor_env(instance), "HOME": instance.env.get("HOME", "")}
    found = [_agent_view(instance, settings, name, hold, env) for name in _names(settings)]
    if as_json:
        default = settings.agents.default_name
        print_json({"default": default, "sandbox": sandbox, "agents": found})
    else:
        print_lines(_lines(sandbox, found))


def _names(settings: Settings) -> list[str]:
    """Return the agents of the config in its order, then the built-in ones; `default` only where it is one of them."""
    from clew_shared.config.agent_tables import RUNBOOK_AGENT

    agents = settings.agents
    return list(dict.fromkeys([*agents.named, agents.default_name, RUNBOOK_AGENT]))


def _sandbox_view(hold: SandboxHold, error: str) -> dict[str, Any]:
    report = hold.report
    return {
        "mode": hold.table.mode,
        "network": hold.table.network,
        "landlock_abi": report.landlock_abi if report else None,
        "isolation": report.isolation if report else None,
        "seccomp": report.seccomp if report else None,
        "fault": error or hold.stops_workers or None,
    }


def _agent_view(
    instance: Instance, settings: Settings, name: str, hold: SandboxHold, env: Mapping[str, str]
) -> dict[str, Any]:
    from clew_daemon.cli.commands.agents.abilities import abilities
    from clew_daemon.config.profiles import profiled_agent

    agent = profiled_agent(settings, settings.agents.get(name))
    table = agent.model_dump(mode="json")
    return {
        "name": name,
        "kind": agent.kind,
        "built_in": name not in settings.agents.named,
        "default": name == settings.agents.default_name,
        "cli": table.get("cli"),
        "program": _program(agent, env),
        "model": table.get("model"),
        "base_url": table.get("base_url"),
        "mode": table.get("mode"),
        "attempts": _attempts(settings, agent),
        "args": table.get("args", []),
        "fault": _fault(instance, settings, name, agent, env),
        "may": {key: asdict(one) for key, one in abilities(agent, hold).items()},
    }


def _program(agent: Agent, env: Mapping[str, str]) -> str | None:
    """Return the path of the program that an agent is, where it is found; None for an agent that is none."""
    from clew_daemon.processes.cells import resolved
    from clew_daemon.processes.cli_programs import CliProgramError, cli_program
    from clew_shared.config.agent_tables import CliAgentSettings, CommandAgentSettings

    if isinstance(agent, CommandAgentSettings):
        return resolved(agent.command, env)[0]
    if not isinstance(agent, CliAgentSettings):
        return None
    try:
        return str(cli_program(agent, env))
    except CliProgramError:
        return None


def _attempts(settings: Settings, agent: Agent) -> int:
    """Return how many attempts a subtask gets where the goal file sets no number."""
    from clew_daemon.config.profiles import profiled_attempts
    from clew_shared.config.agent_tables import ModelAgentSettings

    return profiled_attempts(settings, agent).limit if isinstance(agent, ModelAgentSettings) else 1


def _fault(
    instance: Instance, settings: Settings, name: str, agent: Agent, env: Mapping[str, str]
) -> str | None:
    """Return why an agent cannot be used; its key is looked for in this environment, not in the daemon's."""
    from clew_daemon.host.keys import Keys
    from clew_daemon.processes.cli_programs import cli_program_fault

    keys = Keys(instance.env, instance.config.parent)
    fault = settings.agents.fault(name, instance.config)
    return fault or cli_program_fault(agent, env) or keys.fault(agent) or None


def _lines(sandbox: dict[str, Any], found: list[dict[str, Any]]) -> list[Line]:
    from clew_daemon.cli.commands.agents.abilities import TRICK

    lines = _sandbox_lines(sandbox)
    for view in found:
        lines += [[("", "")], *_agent_lines(view)]
    if any("(1)" in one["text"] for view in found for one in view["may"].values()):
        lines += [[("", "")], *([(line, "dim")] for line in TRICK.splitlines())]
    return lines


def _sandbox_lines(sandbox: dict[str, Any]) -> list[Line]:
    what = f"sandbox: mode {sandbox['mode']}"
    if sandbox["landlock_abi"] is not None:
        what += f", Landlock ABI {sandbox['landlock_abi']}, {sandbox['isolation']}"
    lines: list[Line] = [[(what, "")]]
    if sandbox["fault"]:
        lines.append([(clean(sandbox["fault"]), "bold red")])
    return lines


def _agent_lines(view: dict[str, Any]) -> list[Line]:
    lines: list[Line] = [[(clean(view["name"]), "bold"), (f"  {clean(_what(view))}", "")]]
    if view["program"]:
        lines.append([(f"  {clean(view['program'])}", "dim")])
    if view["fault"]:
        lines.append([(f"  cannot start: {clean(view['fault'])}", "bold red")])
    rows = [
        [(f"  {LABELS[key]}", ""), (one["held"], HELD_STYLE[one["held"]]), (clean(one["text"]), "")]
        for key, one in view["may"].items()
    ]
    return lines + columns(rows)


def _what(view: dict[str, Any]) -> str:
    """Return the kind of an agent and how it is set up, as in `Codex, model m, 3 attempts, the default`."""
    parts = [CLI_NAMES[view["cli"]] if view["cli"] else view["kind"]]
    parts += [f"model {view['model']}"] if view["model"] else []
    parts += [f"mode {view['mode']}"] if view["mode"] else []
    parts += [f"{view['attempts']} attempts"] if view["attempts"] > 1 else []
    parts += ["built in"] if view["built_in"] else []
    parts += ["the default"] if view["default"] else []
    return ", ".join(parts)
