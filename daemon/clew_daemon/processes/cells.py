"""What an agent's and an executor's cell may see and do: settings, places and a goal's state in, a `CellSpec` out.

The rules are those of docs/security.md, "Mechanisms".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.host.folders import overlap
from clew_daemon.host.git import program
from clew_shared.config.settings import (
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
    Settings,
)
from clew_shared.wire.nursery import CellLimits, CellSpec, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clew_shared.config.places import Places
    from clew_shared.record.state import State

Agent = LlmAgentSettings | RunbookAgentSettings | CommandAgentSettings

EXECUTOR_ENV = ("PATH", "LANG", "TERM", "USER")
AGENT_ENV = ("PATH", "LANG")
UMASK = 0o022
"""Files that an agent writes belong to the user's work: they are as readable as those that the user writes."""

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def private(places: Places, goal: str) -> tuple[Path, Path]:
    """Return a goal's own TMPDIR and HOME, which exist until the goal ends."""
    folder = places.state / "goals" / goal
    return folder / "tmp", folder / "home"


def make_private(places: Places, goal: str, *, store: bool = False) -> dict[str, tuple[int, int]]:
    """Create a goal's own TMPDIR and HOME where they are missing; return device and inode of each.

    With `store`, the folder of its snapshots too. A state folder that was removed is not created again. Raises OSError.
    """
    if store:
        for folder in (places.snapshots, places.snapshots / goal):
            folder.mkdir(exist_ok=True, mode=0o700)
    found = {}
    for folder in private(places, goal):
        for one in (places.state / "goals", folder.parent, folder):
            one.mkdir(exist_ok=True)
        info = folder.stat()
        found[str(folder)] = (info.st_dev, info.st_ino)
    return found


def hidden(
    places: Places, keys: Iterable[Path], state: State, others: Iterable[State]
) -> tuple[str, ...]:
    """Return the paths that no cell of this goal may see, whatever else allows them; `keys` are the key files."""
    own = state.spec.workspace
    folders = [
        places.config,
        places.inbox,
        places.outbox,
        places.state,
        places.run,
        places.workspaces,
    ]
    workspaces = [
        s.spec.workspace for s in others if not s.ended and not overlap(s.spec.workspace, own)
    ]
    return tuple(dict.fromkeys([*map(str, [*folders, *keys]), *workspaces]))


def executor_spec(
    places: Places,
    settings: Settings,
    state: State,
    hide: tuple[str, ...],
    env: Mapping[str, str],
    git: Mapping[str, str],
) -> CellSpec:
    """Return the spec of the process that carries out actions; `git` is the identity for commits, as variables."""
    tmp, home = private(places, state.goal_id)
    sandbox = _sandbox(settings, state, hide, (str(tmp), str(home)), acts=True)
    store = str(places.snapshots / state.goal_id) if settings.snapshots.enabled else ""
    return CellSpec(
        kind="executor",
        sandbox=sandbox.model_copy(update={"store": store}),
        git=(program(env) or "") if store else "",
        cwd=state.spec.workspace,
        env=executor_env(settings, env, git) | {"HOME": str(home), "TMPDIR": str(tmp)},
        limits=_limits(settings),
        umask=UMASK,
        ignore=settings.loops.ignore,
    )


def executor_env(
    settings: Settings, env: Mapping[str, str], git: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of an executor, without its private HOME and TMPDIR."""
    return {**git, **_env(env, (*EXECUTOR_ENV, *settings.sandbox.env))}


def agent_spec(
    places: Places,
    settings: Settings,
    state: State,
    agent: Agent,
    hide: tuple[str, ...],
    env: Mapping[str, str],
    git: Mapping[str, str],
    epoch: int,
) -> CellSpec:
    """Return the spec of the agent's process; one with its own tools has the rights and identity of an executor."""
    own_tools = isinstance(agent, CommandAgentSettings) and agent.own_tools
    tmp, home = private(places, state.goal_id)
    identity = {"CLEW_GOAL_ID": state.goal_id, "CLEW_EPOCH": str(epoch)}
    names = (*(EXECUTOR_ENV if own_tools else AGENT_ENV), *settings.sandbox.env)
    private_env = {"HOME": str(home), "TMPDIR": str(tmp)} if own_tools else {}
    git = git if own_tools else {}
    return CellSpec(
        kind="command" if isinstance(agent, CommandAgentSettings) else "agent",
        sandbox=_sandbox(
            settings,
            state,
            hide,
            (str(tmp), str(home)) if own_tools else (),
            acts=own_tools,
            own_tools=own_tools,
        ),
        cwd=state.spec.workspace,
        env={**git, **_env(env, names), **private_env, **identity},
        agent=agent.kind if not isinstance(agent, CommandAgentSettings) else "",
        argv=resolved(agent.command, env) if isinstance(agent, CommandAgentSettings) else (),
        limits=_limits(settings),
        umask=UMASK,
        options={"goal_id": state.goal_id, **agent_options(settings, agent)},
    )


def resolved(command: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Find the program of a command on PATH, past the shims of version managers; `~/` is the user's home.

    A shim (pyenv, rbenv, asdf) is a shell script that starts other programs, which an agent's sandbox does
    not allow; the program of that name further along PATH is taken instead.
    """
    command = tuple(_at_home(part, env) for part in command)
    program = command[0]
    if "/" in program:
        return command
    for folder in env.get("PATH", DEFAULT_PATH).split(os.pathsep):
        found = Path(folder or ".") / program
        if Path(folder).name != "shims" and found.is_file() and os.access(found, os.X_OK):
            return (str(found), *command[1:])
    return command


def _at_home(part: str, env: Mapping[str, str]) -> str:
    return env["HOME"] + part[1:] if part.startswith("~/") and env.get("HOME") else part


def agent_options(settings: Settings, agent: Agent) -> dict[str, object]:
    """Return the part of the config that a built-in agent gets: its own table, `[context]`, `[playbook]`; no key."""
    return {
        "agent": agent.model_dump(mode="json"),
        "context": settings.context.model_dump(mode="json"),
        "playbook": settings.playbook.model_dump(mode="json"),
    }


def _sandbox(
    settings: Settings,
    state: State,
    hide: tuple[str, ...],
    private: tuple[str, ...],
    *,
    acts: bool,
    own_tools: bool = False,
) -> SandboxSpec:
    sandbox = settings.sandbox
    return SandboxSpec(
        mode=sandbox.mode,
        workspace=state.spec.workspace,
        private=private,
        read=_absolute(sandbox.read),
        write=_absolute(sandbox.write),
        hide=hide,
        network=sandbox.network or not acts,  # an agent that does not act must still reach its LLM
        own_tools=own_tools,
    )


def _absolute(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(Path(path).expanduser()) for path in paths)


def _limits(settings: Settings) -> CellLimits:
    return CellLimits(open_files=settings.limits.open_files, processes=settings.limits.processes)


def _env(env: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    usual = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", "TERM": "dumb"} | dict(env)
    return {name: usual[name] for name in names if name in usual}
