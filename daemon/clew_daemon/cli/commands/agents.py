"""`clew agents`: each agent of the config and of clew itself, and what holds it on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.output import Line, print_json, print_lines
from clew_daemon.reading.sanitize import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.reading.instance import Instance
    from clew_shared.config.tables import SandboxSettings, Settings
    from clew_shared.wire.nursery import SandboxReport

Held = Literal["enforced", "advisory", "unknown"]
"""A limit that the kernel enforces; one that the agent only is asked to keep; not probed."""

PORTS_ABI = 4
"""The version of Landlock's ABI from which on a process can be limited to TCP ports (Linux 6.7)."""


@dataclass(frozen=True, slots=True)
class SandboxHold:
    """How firmly the sandbox holds here: `[sandbox]`, and the report of the probe, None where there is none."""

    table: SandboxSettings
    report: SandboxReport | None

    @property
    def paths(self) -> Held:
        """Of limits on files, programs and keys."""
        return self._held(bool(self.report and self.report.landlock_abi))

    @property
    def ports(self) -> Held:
        """Of limits to TCP ports."""
        return self._held(bool(self.report and self.report.landlock_abi >= PORTS_ABI))

    def _held(self, possible: bool) -> Held:
        if self.table.mode == "off":
            return "advisory"
        if self.report is None:
            return "unknown"
        return "enforced" if possible else "advisory"

    @property
    def stops_workers(self) -> str:
        """Why `enforce` starts no worker here, "" where it does."""
        if self.table.mode != "enforce" or self.report is None:
            return ""
        if not self.report.landlock_abi:
            return 'no worker starts: this kernel has no Landlock, and [sandbox] mode is "enforce"'
        if not self.table.network and self.report.network_off == "none":
            return "no worker starts: network = false cannot be enforced here"
        return ""


@click.command()
@parameters.as_json
@click.pass_obj
def agents(instance: Instance, as_json: bool) -> None:
    """Show all agents, and whether the sandbox holds them here (docs/guarantees.md says what that is)."""
    from clew_daemon.cli.surroundings import executor_env, probe_sandbox
    from clew_shared.config.agent_tables import RUNBOOK_AGENT

    settings = instance.settings_for_display
    report = probe_sandbox()
    hold = SandboxHold(settings.sandbox, None if isinstance(report, str) else report)
    held: dict[str, str | None] = {
        "mode": hold.table.mode,
        "paths": hold.paths,
        "ports": hold.ports,
    }
    held["fault"] = (report if isinstance(report, str) else hold.stops_workers) or None
    env = {**executor_env(instance), "HOME": instance.env.get("HOME", "")}
    named = settings.agents
    names = dict.fromkeys([*named.named, named.default_name, RUNBOOK_AGENT])
    found = [_view(instance, settings, name, env) for name in names]
    if as_json:
        print_json({"default": named.default_name, "sandbox": held, "agents": found})
        return
    lines: list[Line] = [[(f"sandbox: {hold.table.mode}; files and programs: {hold.paths}", "")]]
    if held["fault"]:
        lines.append([(clean(held["fault"]), "bold red")])
    for view in found:
        facts = [view["kind"], view["cli"], view["model"], view["base_url"]]
        facts += ["works by itself and reports" if view["own_tools"] else "works through clew"]
        facts += ["the default" if view["default"] else ""]
        text = ", ".join(str(one) for one in facts if one)
        lines.append([(clean(view["name"]), "bold"), (f"  {clean(text)}", "")])
        if view["fault"]:
            lines.append([(f"  cannot start: {clean(view['fault'])}", "bold red")])
    print_lines(lines)


def _view(
    instance: Instance, settings: Settings, name: str, env: Mapping[str, str]
) -> dict[str, Any]:
    from clew_daemon.config.profiles import profiled_agent
    from clew_daemon.host.keys import Keys
    from clew_daemon.processes.cli_programs import cli_program_fault

    agent = profiled_agent(settings, settings.agents.get(name))
    table = agent.model_dump(mode="json")
    fault = settings.agents.fault(name, instance.config) or cli_program_fault(agent, env)
    keys = Keys(instance.env, instance.config.parent)
    facts = {key: table.get(key) for key in ("kind", "cli", "model", "base_url", "mode")}
    return {
        "name": name,
        "default": name == settings.agents.default_name,
        **facts,
        "own_tools": bool(table.get("own_tools")),
        "fault": fault or keys.fault(agent) or None,
    }
