"""`clew doctor --workspace DIR`: tries the tools that a developer would use there in the sandbox of a goal.

A tool that fails is tried again with a line of `[sandbox]` that should allow it, so that the advice is known to
help. Nothing is written into the workspace.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor import allowing
from clew_daemon.cli.commands.doctor.findings import IDENTITY_FIX, Finding, Level, in_one_line
from clew_daemon.cli.commands.doctor.trial import AS_IT_IS, SandboxTrial, SandboxVariant, TrialError
from clew_daemon.cli.errors import CliError
from clew_daemon.cli.surroundings import executor_env
from clew_daemon.host import git
from clew_daemon.host.keys import Keys
from clew_daemon.inbox import locating
from clew_daemon.processes import cells

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.cli.instance import Instance
    from clew_shared.config.settings import Settings

TOOL_S = 20.0

USUAL = ("python3", "python", "git", "make")
OTHERS = ("node", "cargo", "go")
MARKERS = {
    "package.json": ("node", "npm"),
    "pnpm-lock.yaml": ("pnpm",),
    "yarn.lock": ("yarn",),
    "Cargo.toml": ("cargo",),
    "go.mod": ("go",),
    "pyproject.toml": ("python3",),
    "uv.lock": ("uv",),
    "poetry.lock": ("poetry",),
    "Makefile": ("make",),
    "Gemfile": ("ruby",),
    "CMakeLists.txt": ("cmake",),
}
VERSION = {"go": "go version"}
VENVS = (".venv", "venv")


@dataclass(frozen=True, slots=True)
class DeveloperTool:
    """A tool to try: `program` must be found; `wanted` if it is usual or the files of the workspace ask for it."""

    name: str
    command: str
    program: str
    wanted: bool


@dataclass
class _WorkspaceTrial:
    """A trial of tools in a workspace: its surroundings, and the lines of `[sandbox]` that were found to help."""

    trial: SandboxTrial
    workspace: Path
    env: Mapping[str, str]
    own_path: str
    home: str
    read: tuple[str, ...]
    folders: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def is_repository(self) -> bool:
        """Whether the workspace is the top folder of a git repository, or a linked worktree."""
        return os.path.lexists(self.workspace / ".git")


def examine_workspace(instance: Instance, folder: Path) -> list[Finding]:
    """Try the tools of a workspace; raises CliError where no goal could work there."""
    workspace = folder.expanduser().absolute().resolve()
    if not workspace.is_dir():
        raise CliError(f"{folder} is not a directory: give the workspace of a goal")
    try:
        locating.check(workspace, instance.places, instance.env)
    except ValueError as error:
        raise CliError(str(error)) from None
    settings = instance.settings_in_force
    keys = Keys(instance.env, instance.config.parent)
    env = executor_env(instance)
    trial = SandboxTrial(instance.places, settings, keys, env, str(workspace))
    try:
        return asyncio.run(_examined(instance, settings, trial, env, workspace))
    except TrialError as error:
        return [Finding("sandbox", "fail", str(error), "clew doctor")]


async def _examined(
    instance: Instance,
    settings: Settings,
    trial: SandboxTrial,
    env: Mapping[str, str],
    workspace: Path,
) -> list[Finding]:
    async with trial:
        path, home = instance.env.get("PATH", cells.DEFAULT_PATH), instance.env.get("HOME", "/")
        bench = _WorkspaceTrial(trial, workspace, env, path, home, settings.sandbox.read)
        found = f"{workspace}, sandbox mode {settings.sandbox.mode}"
        findings = [Finding("workspace", "ok", found)]
        tried = [await _tool(bench, tool) for tool in tools(workspace)]
        findings += [finding for finding in tried if finding]
        findings += await _git(bench, settings)
        return findings + _summary(bench, settings)


def tools(workspace: Path) -> list[DeveloperTool]:
    """Return the tools to try: the usual ones, those that its files ask for, and its virtual environments."""
    asked = [
        name for marker, names in MARKERS.items() if (workspace / marker).exists() for name in names
    ]
    names = dict.fromkeys([*USUAL, *asked, *OTHERS])
    found = [
        DeveloperTool(
            name, VERSION.get(name, f"{name} --version"), name, name in asked or name in USUAL
        )
        for name in names
    ]
    venvs = [venv for venv in VENVS if os.path.lexists(workspace / venv / "bin" / "python")]
    return found + [_venv(workspace, venv) for venv in venvs]


def _venv(workspace: Path, venv: str) -> DeveloperTool:
    program = f"{venv}/bin/python"
    has_pytest = any((workspace / venv).glob("lib/python*/site-packages/pytest"))
    if has_pytest:
        return DeveloperTool(
            f"{program} -m pytest", f"{program} -m pytest --version", program, wanted=True
        )
    return DeveloperTool(program, f"{program} --version", program, wanted=True)


async def _tool(bench: _WorkspaceTrial, tool: DeveloperTool) -> Finding | None:
    """Try one tool; None for one that is neither installed nor asked for."""
    outside = _outside(bench, tool)
    worked, inside, output = await _run(bench, tool, AS_IT_IS)
    if worked and (outside is None or _is_same(inside, outside)):
        return Finding(tool.name, "ok", output)
    if outside is None:
        return _absent(tool)
    level: Level = "fail" if tool.wanted and not worked else "warn"
    why = output or "it failed and printed nothing"
    if worked:
        why = f"{output} ({inside}), and not {outside} as in this shell"
    elif not inside:
        why = f"{outside} is not visible in the sandbox, or not on the PATH of the daemon"
    for variant, env_path in _variants(bench, outside, output):
        tried, found, _ = await _run(bench, tool, variant)
        if tried and _is_same(found, outside):
            fix = _advice(bench, variant, outside, with_path=env_path)
            return Finding(tool.name, level, why, fix)
    return Finding(tool.name, level, why, "no line of [sandbox] was found that allows it")


async def _run(
    bench: _WorkspaceTrial, tool: DeveloperTool, variant: SandboxVariant
) -> tuple[bool, str, str]:
    """Return whether a tool works, the path of its program ("" if not found), and a line of its output."""
    program = shlex.quote(tool.program)
    done = await bench.trial.command(f"command -v {program} && {tool.command}", TOOL_S, variant)
    inside, _, rest = done.output.partition("\n")
    if not inside.endswith(tool.program):
        return done.ok, "", in_one_line(done.output, last=True)
    return done.ok, str(bench.workspace / inside), in_one_line(rest, last=not done.ok)


def _is_same(inside: str, outside: str) -> bool:
    return os.path.realpath(inside) == os.path.realpath(outside)


def _absent(tool: DeveloperTool) -> Finding | None:
    if not tool.wanted:
        return None
    fix = f"install {tool.name}, or leave it if no goal needs it"
    if tool.name == "python":
        fix = "agents often call it: install python-is-python3, or use a virtual environment"
    return Finding(tool.name, "warn", "not installed", fix)


def _outside(bench: _WorkspaceTrial, tool: DeveloperTool) -> str | None:
    """Return the path of a tool outside of the sandbox: on the PATH of this shell, otherwise on the daemon's."""
    if "/" in tool.program:
        return str(bench.workspace / tool.program)
    for path in (bench.own_path, bench.env.get("PATH", cells.DEFAULT_PATH)):
        if found := shutil.which(tool.program, path=path):
            return found
    return None


def _variants(
    bench: _WorkspaceTrial, outside: str, output: str
) -> list[tuple[SandboxVariant, bool]]:
    """Return the variants to try, the smallest change first, each with whether it changes PATH."""
    near = _beyond(bench, [outside])
    far = _beyond(bench, [outside, *allowing.mentioned(output)])
    named = tuple(allowing.variables(far, bench.home).items())
    own = (("PATH", bench.own_path),)
    found = [
        (SandboxVariant(read, (*path, *env)), bool(path))
        for path in ((), own)
        for read, env in (((), ()), (tuple(near), ()), (tuple(far), ()), (tuple(far), named))
    ]
    return list(dict.fromkeys(found))[1:]  # the first one changes nothing


def _beyond(bench: _WorkspaceTrial, paths: list[str]) -> list[str]:
    """Return the folders to allow; those of the workspace are readable anyway."""
    found = allowing.roots(paths, bench.home)
    return [one for one in found if not Path(one).is_relative_to(bench.workspace)]


def _advice(
    bench: _WorkspaceTrial, variant: SandboxVariant, outside: str, *, with_path: bool
) -> str:
    """Return the lines of a variant that was tried and works, and remember them for the summary."""
    lines = []
    if variant.read:
        bench.folders += variant.read
        lines.append(f"[sandbox] {allowing.line(bench.read, variant.read, bench.home)}")
    names = [name for name, _ in variant.env if name != "PATH"]
    if names:
        bench.names += names
        lines.append(f"[sandbox] env = {allowing.toml_list(names)}")
    for name, value in variant.env:
        if name != "PATH" and not bench.env.get(name):
            lines.append(f"and in the environment of the daemon: {name}={shlex.quote(value)}")
    if with_path:
        lines.append(
            f"and {Path(outside).parent} on the PATH of the daemon: start it from this shell, "
            "or set Environment=PATH=… (systemctl --user edit clew)"
        )
    return "\n".join(lines) + "\n(tried: it works with that; restart clew after the change)"


async def _git(bench: _WorkspaceTrial, settings: Settings) -> list[Finding]:
    """Check whether git works in the workspace if it is a repository, and who commits there."""
    if shutil.which("git", path=bench.env.get("PATH", cells.DEFAULT_PATH)) is None:
        return []
    return [*await _repository(bench, settings), await _identity(bench)]


async def _repository(bench: _WorkspaceTrial, settings: Settings) -> list[Finding]:
    if not bench.is_repository:
        return []
    if folder := git.folder_outside(str(bench.workspace), settings.sandbox.write):
        found = f"its folder {folder} is outside"
        return [Finding("git repository", "fail", found, git.folder_hint(folder))]
    done = await bench.trial.command("git status --short --branch", TOOL_S)
    if done.ok:
        return [Finding("git repository", "ok", in_one_line(done.output))]
    is_foreign = "dubious ownership" in done.output
    fix = "chown the folder to yourself" if is_foreign else "look at it with git status"
    return [Finding("git repository", "fail", in_one_line(done.output), fix)]


async def _identity(bench: _WorkspaceTrial) -> Finding:
    command = "git var GIT_AUTHOR_IDENT && git var GIT_COMMITTER_IDENT"
    done = await bench.trial.command(command, TOOL_S)
    if done.ok:
        who = done.output.splitlines()[0].rpartition(">")[0] + ">"
        return Finding("git identity", "ok", who)
    return Finding("git identity", "warn", in_one_line(done.output, last=True), IDENTITY_FIX)


def _summary(bench: _WorkspaceTrial, settings: Settings) -> list[Finding]:
    """Return the lines for all tools together, where several tools need some."""
    folders = dict.fromkeys(bench.folders)
    names = dict.fromkeys([*settings.sandbox.env, *bench.names])
    if len(folders) < 2:
        return []
    lines = [f"[sandbox] {allowing.line(bench.read, folders, bench.home)}"]
    if bench.names:
        lines.append(f"[sandbox] env = {allowing.toml_list(names)}")
    found = "several tools need a line in [sandbox]"
    return [Finding("all together", "warn", found, "\n".join(lines))]
