"""What an agent may do, by its kind, `[sandbox]` and what the kernel enforces: docs/guarantees.md, computed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clew_daemon.processes.cells import endpoint_port
from clew_shared.config.agent_tables import (
    CliAgentSettings,
    CommandAgentSettings,
    ModelAgentSettings,
    RunbookAgentSettings,
)

if TYPE_CHECKING:
    from clew_shared.config.agent_tables import Agent
    from clew_shared.config.tables import SandboxSettings
    from clew_shared.wire.nursery import SandboxReport

Held = Literal["enforced", "advisory", "open", "unknown"]
"""A limit that the kernel or the daemon enforces; one that the agent only is asked to keep; no limit; not probed."""

PORTS_ABI = 4
"""The version of Landlock's ABI from which on a process can be limited to TCP ports (Linux 6.7)."""

TRICK = "(1) except for tricks that leave the program in the same sandbox:\n    docs/security.md, Mechanisms"


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing that an agent may do or not: how firmly its limit holds, and a few words on it."""

    held: Held
    text: str


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

    @property
    def no_network(self) -> Held:
        """Of `network = false`, and of agents that need no network."""
        return self._held(bool(self.report and self.report.network_off != "none"))

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


def abilities(agent: Agent, hold: SandboxHold) -> dict[str, Ability]:
    """Return what an agent may do, by the keys of `clew agents --json`."""
    own = isinstance(agent, CommandAgentSettings) and agent.own_tools
    # an agent that may write or start programs could do what was refused
    refused = Ability(hold.paths, "are not carried out")
    if own:
        refused = Ability("advisory", "it is told, and may do them all the same")
    return {
        "refused_actions": refused,
        "writes_files": Ability(hold.paths, _files(agent, hold.table)),
        "starts_programs": _programs(agent, hold),
        "network": _network(agent, hold),
        "keys": Ability(hold.paths, _keys(agent, hold.table)),
        "own_tools": _own_tools(agent, hold),
    }


def _files(agent: Agent, table: SandboxSettings) -> str:
    if isinstance(agent, CliAgentSettings):
        return "only its own HOME and TMPDIR"
    if isinstance(agent, CommandAgentSettings) and agent.own_tools:
        more = ", [sandbox] write" if table.write else ""
        return f"only the workspace, its HOME and TMPDIR{more}"
    return "none"


def _programs(agent: Agent, hold: SandboxHold) -> Ability:
    if isinstance(agent, CliAgentSettings):
        return Ability(hold.paths, "only itself, its helpers and clew's relay (1)")
    if not isinstance(agent, CommandAgentSettings):
        return Ability(hold.paths, "none")
    if agent.own_tools:
        return Ability("open", "any")
    return Ability(hold.paths, "only its own interpreter (1)")


def _network(agent: Agent, hold: SandboxHold) -> Ability:
    if isinstance(agent, RunbookAgentSettings):
        return Ability(hold.no_network, "none")
    if isinstance(agent, CliAgentSettings):
        return Ability(hold.ports, f"TCP only to port {endpoint_port(agent.base_url)}, on any host")
    acts = isinstance(agent, CommandAgentSettings) and agent.own_tools
    if acts and not hold.table.network:
        return Ability(hold.no_network, "none")
    return Ability("open", "any host" if acts else "any host, as its LLM may be anywhere")


def _keys(agent: Agent, table: SandboxSettings) -> str:
    """Return which secrets an agent sees: names and files, never the values."""
    if not isinstance(agent, ModelAgentSettings):
        return "none but what [sandbox] env passes" if table.env else "none"
    found = [f"${agent.api_key_env}"] if agent.api_key_env else []
    found += [agent.api_key_file] if agent.api_key_file else []
    if isinstance(agent, CliAgentSettings):
        found += [f"a copy of {path}" for path in agent.credentials]
        if agent.refresh_credentials:
            found.append("refreshed logins are written back")
    return ", ".join(found) if found else "none"


def _own_tools(agent: Agent, hold: SandboxHold) -> Ability:
    if isinstance(agent, CliAgentSettings):
        return Ability(hold.paths, "switched off; otherwise they could change nothing")
    if isinstance(agent, CommandAgentSettings) and agent.own_tools:
        return Ability("open", "works in the workspace by itself, and reports")
    return Ability(hold.paths, "none; it only proposes actions")
