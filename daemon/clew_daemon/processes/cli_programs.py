"""Where the program of a coding agent is, and what to do where it is not installed.

It looks at the file system and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from clew_daemon.processes.cells import resolved
from clew_shared.config.agent_tables import Agent, CliAgentSettings, CliName
from clew_shared.config.places import PlacesError, expanded

INSTALLED_BY: dict[CliName, str] = {
    "codex": "npm install -g @openai/codex",
    "claude": "npm install -g @anthropic-ai/claude-code",
    "opencode": "npm install -g opencode-ai",
}
"""How each of them is installed; the sources are their own pages in the npm registry."""


TO_SERVICE = "`systemctl --user import-environment PATH`, then `clew restart`"
"""How the service gets the PATH of a shell; the source is systemctl(1)."""


class CliProgramError(Exception):
    """The program of a coding agent cannot be started; the message says why, and what to do."""


def cli_program(agent: CliAgentSettings, env: Mapping[str, str]) -> Path:
    """Return the absolute path of the program, with its links; `env` has PATH and HOME. Raises CliProgramError."""
    named = agent.looked_for
    try:
        found = str(expanded(named, env)) if "/" in named else resolved((named,), env)[0]
    except PlacesError as error:
        raise CliProgramError(str(error)) from None
    if "/" not in found:
        install = INSTALLED_BY[agent.cli]
        raise CliProgramError(
            f"{named} is not found on the PATH of the daemon, which is that of its start; install it ({install}), "
            "or give its path as `program`; if your shell finds it, start `clew run` again from there, "
            f"or the service: {TO_SERVICE}"
        )
    path = Path(found)
    if why := unusable(path):
        raise CliProgramError(
            f"{found} {why}; correct `program`, or install it: {INSTALLED_BY[agent.cli]}"
        )
    return path


def cli_program_fault(agent: Agent, env: Mapping[str, str]) -> str:
    """Return why the program of a coding agent cannot be started, "" where it can; "" for any other agent."""
    if not isinstance(agent, CliAgentSettings):
        return ""
    try:
        cli_program(agent, env)
    except CliProgramError as error:
        return str(error)
    return ""


def unusable(path: Path) -> str:
    """Return why a path is not a program, "" if it may be one."""
    if not os.path.lexists(path):
        return "does not exist"
    if not path.exists():
        return "is a link to something that does not exist"
    if path.is_dir():
        return "is a directory"
    return "" if os.access(path, os.X_OK) else "is not executable"
