"""Reads tool calls as steps of a few kinds: listing, reading, writing, testing and so on.

Agents name their tools differently, and much happens inside shell commands: both are classified by tables of names.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

from clew_shared.text.shorten import in_one_line


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as it was made, with `result` and `output` where the caller knows them."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    output: str = ""


Kind = Enum("Kind", "LIST READ WRITE SEARCH TEST INSTALL BUILD RUN GIT_LOOK GIT_CHANGE OTHER")
"""What a step does."""


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One step of a call; `is_known`: its result was given, `is_shell`: it is a command line."""

    kind: Kind
    target: str
    shown: str
    call: int
    failed: bool
    is_known: bool
    is_shell: bool
    output: str

    @property
    def touches_test(self) -> bool:
        return _is_test(self.target)


_TEST_NAME = re.compile(r"(^|[_.-])(tests?|spec)([_.-]|$)")


def _is_test(path: str) -> bool:
    """Return whether a path is that of a test, by its name or its folder."""
    where = PurePosixPath(path)
    return bool(_TEST_NAME.search(where.name) or {"tests", "test"} & {*where.parts[:-1]})


_SHELL = (
    *("run_cmd", "run_command", "bash", "shell", "sh", "terminal", "execute", "execute_command"),
    *("execute_bash", "run_shell", "run_shell_command", "exec", "run", "command"),
)
_TOOLS = {
    Kind.LIST: "list_files list_directory list_dir ls glob tree find_files",
    Kind.READ: "read_file read view_file view open_file cat read_files open",
    Kind.WRITE: "write_file edit_file create_file create write edit apply_patch patch str_replace insert multi_edit",
    Kind.SEARCH: "search search_dir search_file find_file search_code grep grep_search rg search_files find",
    Kind.TEST: "run_tests test pytest",
    Kind.INSTALL: "install_package install_dependencies install",
    Kind.BUILD: "build compile",
    Kind.GIT_LOOK: "git_status git_diff git_log git_show",
    Kind.GIT_CHANGE: "git_commit git_add git_push git_merge git_checkout",
}
_COMMANDS = {
    Kind.INSTALL: "pip install, uv sync, uv add, poetry install, npm install, npm ci, pnpm install, yarn add,"
    " apt install, apt-get install, brew install, bundle install, gem install, cargo add, go get, make install",
    Kind.TEST: "pytest, unittest, tox, nox, npm test, npm run test, pnpm test, yarn test, jest, npx jest, vitest,"
    " cargo test, go test, mvn test, gradle test, dotnet test, make test, make check, rake test, ctest, rspec",
    Kind.BUILD: "build, make, cmake, ninja, npm run build, pnpm build, yarn build, cargo build, go build,"
    " gradle build, dotnet build, docker build, mvn package, tsc, gcc, g++, clang, javac",
    Kind.RUN: "python, node, deno, ruby, perl, java, php, bash, sh, npm start, npm run, cargo run, go run, uv run",
    Kind.GIT_LOOK: "git status, git diff, git log, git show",
    Kind.GIT_CHANGE: "git commit, git add, git push, git pull, git merge, git rebase, git reset, git checkout",
    Kind.LIST: "ls, tree, find, fd",
    Kind.SEARCH: "grep, rg, ag, git grep",
    Kind.READ: "cat, head, tail, less",
}
"""The first words of commands, without flags, versions and `python -m`; the longest match wins."""

_KIND_OF_TOOL = {name: kind for kind, names in _TOOLS.items() for name in names.split()}
_KIND_OF_COMMAND = {
    words.strip(): kind for kind, listed in _COMMANDS.items() for words in listed.split(",")
}
_LONGEST_PREFIX = 3
_SEPARATOR = re.compile(r"&&|\|\||;|\n")
_PREFIX = re.compile(r"^(sudo |time |env |[A-Z_][A-Z0-9_]*=\S* )+")
_VERSION = re.compile(r"[\d.]+$")
_WRITTEN = re.compile(r"(?:(?:cat|echo|printf)\b.*?>>?|tee(?: -a)?|sed -i.*) *(?P<target>[^\s>]+)$")
_PATH = re.compile(r"[\w.~/+-]*[./][\w.~/+-]*")
_EDITORS = frozenset(("str_replace_editor", "str_replace_based_edit_tool", "text_editor"))
_SHOWN_CHARS = 60
_PATH_NAMES = ("path", "file_path", "filename", "file", "directory", "dir", "folder")
_COMMAND_NAMES = ("cmd", "command", "script", "code")
_SEARCH_NAMES = ("pattern", "query", "regex", "keyword", "text", "symbol")
_FAILED = frozenset(("failure", "error", "timeout", "interrupted", "failed"))


def steps(tool_calls: Iterable[ToolCall]) -> list[ToolStep]:
    """Return the steps of the calls in order; a shell command with several parts is several steps."""
    calls = enumerate(tool_calls, start=1)
    return [step for number, call in calls for step in _steps_of(call, number)]


def _steps_of(call: ToolCall, number: int) -> list[ToolStep]:
    line = _command_line(call)
    if line is None:
        kind, target = _tool_kind(call)
        return [_step(call, number, kind, target, f"{call.name} {target}")]
    plain = line.partition("<<")[0]  # a here-document follows
    parts = [_PREFIX.sub("", part.strip()) for part in _SEPARATOR.split(plain)]
    real = [part for part in parts if part and not part.startswith(("cd ", "#"))]
    return [_step(call, number, *_command_kind(part), part, is_shell=True) for part in real]


def _step(
    call: ToolCall, number: int, kind: Kind, target: str, shown: str, *, is_shell: bool = False
) -> ToolStep:
    failed, is_known = call.result.casefold() in _FAILED, bool(call.result)
    shown = in_one_line(shown, _SHOWN_CHARS)
    return ToolStep(kind, target, shown, number, failed, is_known, is_shell, call.output)


def _command_line(call: ToolCall) -> str | None:
    """Return the command line of a shell tool, or of a tool that is itself a program."""
    name = call.name.casefold()
    line = _parameter(call, _COMMAND_NAMES)
    if name in _SHELL:
        return line
    known = name in _KIND_OF_TOOL or name in _EDITORS
    return None if known or set(call.parameters) != {"cmd"} else f"{call.name} {line}".strip()


def _tool_kind(call: ToolCall) -> tuple[Kind, str]:
    name = call.name.casefold()
    kind = _KIND_OF_TOOL.get(name, Kind.OTHER)
    target = _parameter(call, _SEARCH_NAMES if kind is Kind.SEARCH else _PATH_NAMES)
    if name in _EDITORS:
        verb, _, rest = _parameter(call, _COMMAND_NAMES).partition(" ")
        return Kind.READ if verb == "view" else Kind.WRITE, target or _path_in(rest)
    if target or kind is Kind.SEARCH:
        return kind, target or _parameter(call, _COMMAND_NAMES)
    return kind, _path_in(_parameter(call, _COMMAND_NAMES))


def _path_in(text: str) -> str:
    """Return the path that a command starts with, or "" where it starts with something else."""
    first = next(iter(text.split()), "").strip("'\"")
    return first if _PATH.fullmatch(first) else ""


def _parameter(call: ToolCall, names: Iterable[str]) -> str:
    value = next((call.parameters[name] for name in names if call.parameters.get(name)), "")
    return shlex.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _command_kind(part: str) -> tuple[Kind, str]:
    """Return the kind and the target of one simple command."""
    if written := _WRITTEN.match(part):
        return Kind.WRITE, written["target"]
    program, *rest = part.split()
    words = [_VERSION.sub("", PurePosixPath(program).name), *rest]
    is_module = words[0] == "python" and words[1:2] == ["-m"]
    plain = [word for word in (words[2:] if is_module else words) if not word.startswith("-")]
    for length in range(min(_LONGEST_PREFIX, len(plain)), 0, -1):
        kind = _KIND_OF_COMMAND.get(" ".join(plain[:length]))
        if kind is None:
            continue
        target = plain[-1] if len(plain) > length else ""
        if kind is Kind.SEARCH:
            target = " ".join(word.strip("'\"").rstrip("/") for word in plain[length:])
        tests = kind is Kind.RUN and _is_test(target)
        return (Kind.TEST if tests else kind), target
    return (Kind.RUN if is_module or program.startswith("./") else Kind.OTHER), ""
