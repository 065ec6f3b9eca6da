"""What a check needs before it can run at all: a program on the PATH, or a test runner's module. Pure.

A person is asked for it before anything is spent. In doubt a check can run: what the goal itself is to make, a path, or
what its text speaks of, is never missing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from clew_shared.record.state import State

_RUNNERS = (
    "behave black coverage flake8 isort mypy nose nose2 nox pycodestyle pyflakes pylint pyright pytest "
    "robot ruff tox"
)
RUNNERS = frozenset(re.findall(r"\S+", _RUNNERS))
"""Test runners, and other programs that check, which are modules of Python."""

_TOOLS = (
    "bash bats bun cabal cargo cc clang cmake composer ctest curl deno docker dotnet eslint g++ gcc git go gradle java "
    "javac jest jq make meson mix mocha mvn ninja node npm npx perl php phpunit pip pip3 pnpm podman python python3 "
    "rake rspec ruby rustc shellcheck sqlite3 swift tsc uv vitest wget yarn zig"
)
TOOLS = RUNNERS | frozenset(re.findall(r"\S+", _TOOLS))
"""Well-known programs: a goal that names one does not mean to make it."""

_FIRST = re.compile(
    r"\s*(?P<set>(?:[A-Za-z_]\w*=[^\s;&|<>()$`'\"\\]*\s+)*)"
    r"(?P<word>[A-Za-z0-9_][\w.+-]*)(?P<rest>(?:[\s;&|<>].*)?)\Z",
    re.DOTALL,
)
_COMMENTS = re.compile(r"(?:\s*#[^\n]*\n)*")
_OTHER_END = re.compile(r"\|\||;|\n|(?<![&>])&(?![&>])")
"""With these another command may decide, or the first one need not succeed."""

_LOOKUP = re.compile(r"\b(?:PATH|PYTHON\w*)=")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_MODULE = re.compile(r"\s+(?:-[bBdEIOqsSuv]+\s+)*-m\s+([A-Za-z_][\w.]*)")
_FOUND = re.compile(r"^missing:(\d+):(program|module)$", re.MULTILINE)


class Tool(NamedTuple):
    """A program, by its bare name; with a `module` an interpreter of Python that is to run it."""

    program: str
    module: str = ""


def tool_of(cmd: str) -> Tool | None:
    """Return what the first command of a check needs, None if it needs nothing or that is not clear."""
    found = _FIRST.match(cmd.rstrip(), _COMMENTS.match(cmd).end())  # type: ignore[union-attr]
    if not found or _OTHER_END.search(found["rest"]) or _LOOKUP.search(found["set"]):
        return None
    word = found["word"]
    module = _MODULE.match(found["rest"]) if _PYTHON.fullmatch(word) else None
    runner = module[1] if module and module[1].partition(".")[0] in RUNNERS else ""
    return Tool(word, runner)


def due(state: State) -> dict[str, Tool]:
    """Return what to look for, by the names of the checks that were never run; nothing after a person's word."""
    if state.guidance.feedback_seq > state.rested_seq:
        return {}
    known = state.proofs.checks.keys() | state.proofs.before.keys()
    tools = {name: tool_of(cmd) for name, cmd in state.spec.checks.items() if name not in known}
    texts = list(_texts(state))
    return {name: tool for name, tool in tools.items() if tool and not _is_made(tool, texts)}


def probe(tools: Iterable[Tool]) -> str:
    """Return a command for the shell that prints which of the tools are missing."""
    lines = []
    for n, (program, module) in enumerate(tools):
        find = f"import importlib.util as u; u.find_spec('{module}') or print('missing:{n}:module')"
        then = f'{program} -c "{find}" 2>/dev/null' if module else ":"
        there = f"command -v {program} >/dev/null 2>&1"
        lines.append(f"if {there}; then {then}; else echo missing:{n}:program; fi")
    return "\n".join(lines)


def missing(tools: Mapping[str, Tool], output: str) -> dict[str, str]:
    """Return what is missing, by the names of the checks, from what `probe` has printed."""
    named, found = list(tools.items()), {}
    for number, what in _FOUND.findall(output):
        name, (program, module) = named[int(number)]
        found[name] = f"there is no program `{program}` on the PATH of commands"
        if what == "module":
            found[name] = f"`{program}` has no module `{module}`"
    return found


def _is_made(tool: Tool, texts: Iterable[str]) -> bool:
    """Return whether the goal may be about to make or to install a tool, by its own words."""
    name = tool.module or tool.program
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    lines = [line for text in texts for line in text.splitlines() if word.search(line)]
    is_known = name in TOOLS or _PYTHON.fullmatch(name)
    return bool(lines and not is_known) or any("install" in line.lower() for line in lines)


def _texts(state: State) -> Iterator[str]:
    """Yield the texts that say what the goal does: its own, those of its tree, and the steps of a runbook."""
    yield from (state.spec.description, state.spec.notes)
    for task in state.goal.tasks:
        yield task.description
        for subtask in task.subtasks:
            yield subtask.description
            values = (value for step in subtask.steps for value in step["args"].values())
            yield from (value for value in values if isinstance(value, str))
