"""What an agent's and an executor's cell may see and do, and which program a coding agent is: a `CellSpec` comes out.

The rules are those of docs/security.md, "Mechanisms".
"""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clew_daemon.config.places import Places, PlacesError, expanded
from clew_daemon.host.git import program
from clew_daemon.processes.nursery import SpawnError
from clew_shared.config.agent_tables import Agent, CliAgentSettings, CommandAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.files import remove_tree
from clew_shared.proof.judges import BUILDS, CACHES
from clew_shared.record.state import State
from clew_shared.wire.nursery import CellLimits, CellSpec, SandboxSpec

EXECUTOR_ENV = ("PATH", "LANG", "TERM", "USER")
AGENT_ENV = ("PATH", "LANG")
# what an agent writes belongs to the user's work, as readable as what the user writes
UMASK = 0o022
UMASK_OF_CLI = 0o077
HTTP, HTTPS = 80, 443
CACHES_MAX = 64  # Folders of a `.cache` that a view shows: a goal may make any number
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def private(places: Places, goal: str, *, cli: bool = False) -> tuple[Path, Path]:
    """Return a goal's own HOME and TMPDIR, which exist until it ends, or those of the CLI of its coding agent."""
    folder = places.state / "goals" / goal / ("cli" if cli else "")
    return folder / "home", folder / "tmp"


def make_private(places: Places, goal: str, *, cli: bool = False) -> None:
    """Make a goal's own TMPDIR and HOME, or those of its CLI, where they are missing; raises OSError.

    A state folder that was removed is not made again.
    """
    folders = private(places, goal, cli=cli)
    goals = places.state / "goals"
    for folder in (goals, goals / goal, folders[0].parent, *folders):
        folder.mkdir(mode=0o700, exist_ok=True)


def view_of(places: Places, goal: str) -> Path:
    """Return the folder of the view in which a goal's checks run a second time."""
    return places.state / "goals" / goal / "view"


def make_view(places: Places, goal: str) -> Path:
    """Make the folders of a view anew: an empty TMPDIR, a HOME with links to caches alone. Raises OSError."""
    place, own = view_of(places, goal), private(places, goal)[0]
    remove_view(places, goal)
    place.mkdir(mode=0o700)
    for name in ("home", "tmp", "upper", "work", "copy"):
        (place / name).mkdir()
    for cache in caches(own):
        (place / "home" / cache).parent.mkdir(parents=True, exist_ok=True)
        (place / "home" / cache).symlink_to(own / cache)
    return place


def caches(home: Path) -> list[str]:
    """Return the folders of package caches in a HOME; a link is none: the goal may have laid it to anywhere."""
    home = Path(os.path.realpath(home))
    names = (one.name for one in (home / ".cache").glob("*"))
    fit = (name for name in names if name not in BUILDS and name.isprintable())
    within = [f".cache/{name}" for name in islice(fit, CACHES_MAX)]
    found = (one for one in (*CACHES, *within) if (home / one).is_dir())
    return [one for one in found if os.path.realpath(home / one) == str(home / one)]


def remove_view(places: Places, goal: str) -> None:
    """Remove the folder of a view with all that was written there, also where its checks have locked it."""
    with suppress(FileNotFoundError):
        remove_tree(view_of(places, goal))


@dataclass(frozen=True, slots=True)
class CellRules:
    """The cells of one worker of a goal, whose folder has the device and inode `place`.

    `hide` is what none of them may see, `git` the identity for commits, as variables.
    """

    places: Places
    settings: Settings
    state: State
    epoch: int
    place: tuple[int, int]
    hide: tuple[str, ...]
    env: Mapping[str, str]
    git: Mapping[str, str]

    def executor(self) -> CellSpec:
        """Return the spec of the process that carries out actions."""
        store = self.places.snapshots / self.state.goal_id
        enabled = self.settings.snapshots.enabled
        has_store = enabled and os.path.isdir(store)  # noqa: PTH112 - False where it cannot be reached
        git, ignore = (program(self.env) or "") if enabled else "", self.settings.loops.ignore
        box = {"store": str(store) if has_store else ""}
        return self._spec(self._acting_env(), box, kind="executor", ignore=ignore, git=git)

    def view(self, place: Path, *, overlay: bool) -> CellSpec:
        """Return the spec of an executor in a view that `make_view` prepared; a copy may read the workspace, too."""
        spec, home, tmp = self.executor(), str(place / "home"), str(place / "tmp")
        folder = spec.cwd if overlay else str(place / "copy")
        own = private(self.places, self.state.goal_id)[0]
        read = [str(own / one) for one in caches(own)]
        read += [] if overlay else [spec.cwd]
        box = {"workspace": folder, "private": (tmp, home), "read": (*spec.sandbox.read, *read)}
        changes = {
            "title": self._title("view"),
            "cwd": folder,
            "sandbox": spec.sandbox.model_copy(update=box),
            "env": {**spec.env, "HOME": home, "TMPDIR": tmp},
            "overlay": (str(place / "upper"), str(place / "work")) if overlay else None,
            "stands_on": self.place if overlay else None,
        }
        return spec.model_copy(update=changes)

    def agent(self, agent: Agent) -> CellSpec:
        """Return the spec of the agent's process; with its own tools it has an executor's rights and identity."""
        command = agent if isinstance(agent, CommandAgentSettings) else None
        acts, goal = command is not None and command.own_tools, self.state.goal_id
        env = _env(self.env, (*AGENT_ENV, *self.settings.sandbox.env))
        env = self._acting_env() if acts else env
        env |= {"CLEW_GOAL_ID": goal, "CLEW_EPOCH": str(self.epoch)}
        argv = resolved(command.command, self.env) if command else ()
        kind, built_in = ("command", "") if command else ("agent", agent.kind)
        return self._spec(env, {"own_tools": acts}, acts=acts, kind=kind, agent=built_in, argv=argv)

    def cli(self, agent: CliAgentSettings) -> CellSpec:
        """Return the spec of the cell that a coding agent's CLI runs in; raises SpawnError."""
        folders = tuple(map(str, private(self.places, self.state.goal_id, cli=True)))
        endpoint = urlsplit(agent.base_url or "https:")  # a CLI's own one speaks HTTPS
        port = endpoint.port or (HTTPS if endpoint.scheme == "https" else HTTP)
        box = {"private": folders, "write": (), "ports": (port,)}
        argv, env = (str(cli_program(agent, self.env)),), _env(self.env, AGENT_ENV)
        return self._spec(env, box, acts=False, kind="cli", argv=argv, umask=UMASK_OF_CLI)

    def _title(self, role: str) -> str:
        return f"clew: {role} {self.state.goal_id} epoch {self.epoch}"

    def _acting_env(self) -> dict[str, str]:
        home, tmp = private(self.places, self.state.goal_id)
        env = executor_env(self.settings, self.env, self.git)
        return env | {"HOME": str(home), "TMPDIR": str(tmp)}

    def _spec(
        self, env: dict[str, str], box: Mapping[str, object], *, acts: bool = True, **program: Any
    ) -> CellSpec:
        """Return the spec of a cell; one that `acts` gets the goal's TMPDIR and HOME, `box` is what else is special."""
        sandbox, limits = self.settings.sandbox, self.settings.limits
        folders = private(self.places, self.state.goal_id) if acts else ()
        usual = SandboxSpec(
            mode=sandbox.mode,
            workspace=self.state.spec.workspace,
            private=tuple(map(str, folders)),
            read=_absolute(sandbox.read),
            write=_absolute(sandbox.write),
            hide=self.hide,
            network=sandbox.network or not acts,  # one that does not act must still reach its LLM
        )
        own = {
            "title": self._title("agent" if program["kind"] == "command" else program["kind"]),
            "sandbox": usual.model_copy(update=box),
            "cwd": usual.workspace,
            "env": env,
            "limits": CellLimits(open_files=limits.open_files, processes=limits.processes),
            "umask": UMASK,
            "stands_on": self.place,
        }
        return CellSpec(**(own | program))


def executor_env(
    settings: Settings, env: Mapping[str, str], git: Mapping[str, str]
) -> dict[str, str]:
    return {**git, **_env(env, (*EXECUTOR_ENV, *settings.sandbox.env))}


def resolved(command: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Find the program of a command on PATH, past the shims of version managers; `~/` is the user's home.

    A shim (pyenv, rbenv, asdf) is a shell script that starts other programs, which an agent's sandbox does
    not allow; the program of that name further along PATH is taken instead.
    """
    if home := env.get("HOME"):
        command = tuple(home + one[1:] if one.startswith("~/") else one for one in command)
    folders = env.get("PATH", DEFAULT_PATH).split(os.pathsep)
    path = os.pathsep.join(one for one in folders if Path(one).name != "shims")
    return (shutil.which(command[0], path=path) or command[0], *command[1:])


def agent_options(settings: Settings, agent: Agent) -> dict[str, object]:
    """Return the part of the config that a built-in agent gets: its own table, `[context]`, `[playbook]`; no key."""
    return {
        "agent": agent.model_dump(mode="json"),
        "context": settings.context.model_dump(mode="json", exclude={"models"}),
        "playbook": settings.playbook.model_dump(mode="json"),
    }


def _absolute(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(Path(path).expanduser()) for path in paths)


def _env(env: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    usual = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", "TERM": "dumb"} | dict(env)
    return {name: usual[name] for name in names if name in usual}


def cli_program(agent: CliAgentSettings, env: Mapping[str, str]) -> Path:
    """Return the absolute path of the program, with its links; `env` has PATH and HOME. Raises SpawnError."""
    named = agent.program or agent.cli
    try:
        found = str(expanded(named, env)) if "/" in named else resolved((named,), env)[0]
    except PlacesError as error:
        raise SpawnError("exec", str(error)) from None
    if "/" not in found:
        where = "is not found on the PATH of the daemon, which is that of its start"
        advice = f"install it (docs/agents/{agent.cli}.md), or give its path as `program`"
        raise SpawnError("exec", f"{named} {where}: {advice}")
    if why := unusable(Path(found)):
        raise SpawnError("exec", f"{found} {why}; correct `program` of the agent, or install it")
    return Path(found)


def cli_program_fault(agent: Agent, env: Mapping[str, str]) -> str:
    """Return why the program of a coding agent cannot be started, "" where it can; "" for any other agent."""
    try:
        if isinstance(agent, CliAgentSettings):
            cli_program(agent, env)
    except SpawnError as error:
        return str(error)
    return ""


def unusable(path: Path) -> str:
    """Return why a path is not a program, "" if it may be one."""
    if os.path.isdir(path):  # noqa: PTH112 - False where it cannot be reached
        return "is a directory"
    return "" if os.access(path, os.X_OK) else "does not exist, or is not executable"
