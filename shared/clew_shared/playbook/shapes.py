"""What an action is in general, without its arguments: the same for an action and its like in another goal. Pure.

A shape is short and has no secret: of the arguments only a program's name, a subcommand and a file's ending are taken.
"""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from clew_shared.playbook.steps import ToolCall, command_line, command_parts, names_in, path_of

NAME_CHARS = 40
_NOT_IN_NAMES = re.compile(r"[^\w.:/-]")
_PROGRAM = re.compile(rf"[A-Za-z0-9_][\w.+-]{{0,{NAME_CHARS - 1}}}")
_VERSIONED = re.compile(r"(python|pip|node|gcc|ruby|php)[\d.]+")
_SUBCOMMAND = re.compile(r"[a-z][a-z-]{0,19}")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}")
_WITH_SUBCOMMANDS = names_in(
    "apt, apt-get, brew, bundle, cargo, docker, dotnet, git, go, gradle, just, kubectl, make, mvn, npm, npx, pip, pnpm,"
    "podman, poetry, systemctl, uv, yarn"
)


def shape(tool: str, args: Mapping[str, Any]) -> str:
    """Return the tool with a command's program or a path's ending: `run_cmd git commit`, `read_file *.py`."""
    call = ToolCall(tool, args)
    name = _NOT_IN_NAMES.sub("", tool)[:NAME_CHARS] or "a tool"
    line = command_line(call)
    if line is not None:
        program = _program(line)
        return name if program in ("", name) else f"{name} {program}"
    ending = PurePosixPath(path_of(call)).suffix
    return f"{name} *{ending}" if _ENDING.fullmatch(ending) else name


def _program(line: str) -> str:
    """Return the program of the first simple command that matters, with its subcommand or module."""
    words = next(iter(command_parts(line)), "").split()
    if not words:
        return ""
    program = PurePosixPath(words[0]).name
    if not _PROGRAM.fullmatch(program):
        return ""
    versioned = _VERSIONED.fullmatch(program)
    program = versioned[1] if versioned else program
    if program == "python" and words[1:2] == ["-m"]:
        module = words[2] if len(words) > 2 else ""
        return f"python -m {module}" if _PROGRAM.fullmatch(module) else program
    following = words[1] if len(words) > 1 and program in _WITH_SUBCOMMANDS else ""
    return f"{program} {following}" if _SUBCOMMAND.fullmatch(following) else program
